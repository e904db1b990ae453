//! Estimates what a new search for deltas would save: packs a few parts of the history anew, and compares.

use std::sync::Arc;

use packrace_object::{ObjectId, parse_commit};
use packrace_pack::generate::PackStream;
use packrace_pack::plan::{PackPlan, plan};
use packrace_pack::{NoProgress, PackRequest, RequestObjects, Settings};
use packrace_store::{Repository, Snapshot, cache_bytes};

use crate::error::Error;
use crate::facts::SearchGain;
use crate::packing::within;

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

/// Memory for each of: objects in the window, new deltas, delta bases.
const MEMORY_BYTES: usize = 32 << 20;

/// Compares how parts of the history are stored with how they would be sent to a client that has all before
/// them, if no stored delta were reused. `None` if the history is too short, or objects of it are missing or damaged.
pub(super) fn estimate(
    repository: &Repository,
    snapshot: &Arc<Snapshot>,
) -> Result<Option<SearchGain>, Error> {
    let settings = search_settings(repository)?;
    let head = repository.refs().resolve(b"HEAD")?.map(|head| head.id);
    let history = first_parents(snapshot, head);
    if history.len() < LEAST_COMMITS {
        return Ok(None);
    }
    let step = (history.len() - PART_COMMITS) / (PARTS + 1);
    let mut gain = SearchGain::default();
    for newest in (1..=PARTS).map(|part| part * step) {
        let part = compare(snapshot, settings, history[newest], history[newest + PART_COMMITS - 1]);
        match part {
            Ok(part) => {
                gain.stored_bytes += part.stored_bytes;
                gain.searched_bytes += part.searched_bytes;
            }
            // Other tasks may still be of use; the one that needs these objects reports them.
            Err(error) => {
                tracing::debug!("gain of a search for deltas not estimated: {error}");
                return Ok(None);
            }
        }
    }
    Ok(Some(gain))
}

/// Compares one part: what `newest` reaches and `oldest` does not. Nothing, if it is too large.
fn compare(
    snapshot: &Arc<Snapshot>,
    settings: Settings,
    newest: ObjectId,
    oldest: ObjectId,
) -> Result<SearchGain, Error> {
    let request = PackRequest {
        wants: vec![newest],
        haves: vec![oldest],
        thin: true,
        ofs_delta: true,
        threads: 1,
        settings,
        ..PackRequest::default()
    };
    let request_objects = Arc::new(RequestObjects::new(snapshot.clone()));
    let planned = plan(&request_objects, &request, &NoProgress)?;
    Ok(match stored_bytes(snapshot, &planned)? {
        Some(stored_bytes) => SearchGain { stored_bytes, searched_bytes: packed_bytes(planned)? },
        None => SearchGain::default(),
    })
}

fn search_settings(repository: &Repository) -> Result<Settings, Error> {
    let settings = Settings::of(repository.config(), 1)?;
    let window = settings.window.min(Settings::default().window);
    Ok(within(Settings { reuse_deltas: false, window, ..settings }, 1, MEMORY_BYTES))
}

/// Commits from `next` back along first parents, as far as they are there.
fn first_parents(snapshot: &Arc<Snapshot>, mut next: Option<ObjectId>) -> Vec<ObjectId> {
    let mut commits = Vec::new();
    let mut reader = snapshot.reader(cache_bytes::FEW_OBJECTS);
    while let Some(id) = next.filter(|_| commits.len() < MAX_COMMITS) {
        let Ok(found) = reader.read(&id) else { break };
        let Ok(commit) = parse_commit(&found.data, id.kind()) else { break };
        next = commit.parents.first().copied();
        commits.push(id);
    }
    commits
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
