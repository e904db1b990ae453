//! Estimates what a new search for deltas would save: packs a few parts of the history anew, and compares.

use std::sync::Arc;

use packrace_object::{ObjectId, parse_commit};
use packrace_pack::generate::PackStream;
use packrace_pack::plan::{PackPlan, plan};
use packrace_pack::{NoProgress, PackRequest, RequestObjects, Settings};
use packrace_store::{Repository, Snapshot};

use crate::error::Error;
use crate::facts::SearchGain;

/// Commits of a part, along first parents.
const PART_COMMITS: usize = 64;

/// Parts of the history, at equal distances. The newest commits belong to none: most of their files are stored
/// whole.
const PARTS: usize = 3;

/// A shorter history is not sampled.
const LEAST_COMMITS: usize = PARTS * PART_COMMITS;

/// The most commits followed from `HEAD`.
const MAX_COMMITS: usize = 100_000;

/// Larger parts are left out: packing one must not take long.
const MAX_PART_OBJECTS: u32 = 10_000;
const MAX_PART_BYTES: u64 = 8 << 20;

/// Memory for commits that are deltas.
const READER_CACHE_BYTES: usize = 1 << 20;

/// Memory for each of: objects in the window, new deltas, delta bases.
const MEMORY_BYTES: usize = 32 << 20;

/// Compares how parts of the history are stored with how they would be sent to a client that has all before
/// them, if no stored delta were reused. `None` if the history is too short.
pub(super) fn estimate(
    repository: &Repository,
    snapshot: &Arc<Snapshot>,
) -> Result<Option<SearchGain>, Error> {
    let history = first_parents(repository)?;
    if history.len() < LEAST_COMMITS {
        return Ok(None);
    }
    let step = (history.len() - PART_COMMITS) / (PARTS + 1);
    let mut gain = SearchGain::default();
    for newest in (1..=PARTS).map(|part| part * step) {
        let request = PackRequest {
            wants: vec![history[newest]],
            haves: vec![history[newest + PART_COMMITS - 1]],
            thin: true,
            ofs_delta: true,
            threads: 1,
            settings: search_settings(repository)?,
            ..PackRequest::default()
        };
        let request_objects = Arc::new(RequestObjects::new(snapshot.clone()));
        let planned = plan(&request_objects, &request, &NoProgress)?;
        let Some(stored_bytes) = stored_bytes(snapshot, &planned)? else { continue };
        gain.stored_bytes += stored_bytes;
        gain.searched_bytes += packed_bytes(planned)?;
    }
    Ok(Some(gain))
}

fn search_settings(repository: &Repository) -> Result<Settings, Error> {
    let settings = Settings::of(repository.config(), 1)?;
    Ok(Settings {
        reuse_deltas: false,
        window: settings.window.min(Settings::default().window),
        window_bytes: MEMORY_BYTES,
        delta_cache_bytes: MEMORY_BYTES,
        base_cache_bytes: MEMORY_BYTES,
        threads: 1,
        ..settings
    })
}

/// Commits from `HEAD` back along first parents, as far as they are there.
fn first_parents(repository: &Repository) -> Result<Vec<ObjectId>, Error> {
    let mut commits = Vec::new();
    let mut next = repository.refs().resolve(b"HEAD")?.map(|head| head.id);
    let mut reader = repository.snapshot()?.reader(READER_CACHE_BYTES);
    while let Some(id) = next.filter(|_| commits.len() < MAX_COMMITS) {
        let Ok(found) = reader.read(&id) else { break };
        let Ok(commit) = parse_commit(&found.data, id.kind()) else { break };
        next = commit.parents.first().copied();
        commits.push(id);
    }
    Ok(commits)
}

/// Bytes of its deltas as stored; `None` if the part is too large. Whole objects do not count: those that others
/// are deltas of are whole after a search, too.
fn stored_bytes(snapshot: &Snapshot, planned: &PackPlan) -> Result<Option<u64>, Error> {
    if planned.objects() > MAX_PART_OBJECTS {
        return Ok(None);
    }
    let mut bytes = 0;
    for id in planned.ids() {
        let stored = snapshot.stored(&id)?.filter(|stored| stored.base.is_some());
        bytes += stored.map_or(0, |stored| stored.bytes);
    }
    Ok(Some(bytes).filter(|bytes| *bytes <= MAX_PART_BYTES))
}

fn packed_bytes(planned: PackPlan) -> Result<u64, Error> {
    let (mut stream, mut bytes) = (PackStream::new(planned), 0);
    while let Some(segment) = stream.next_segment(&NoProgress)? {
        bytes += segment.bytes().len() as u64;
    }
    Ok(bytes)
}
