use std::path::PathBuf;

use packrace_os::count::Role;
use packrace_store::publish::{FileKind, WritePolicy, publish_file};
use packrace_store::{Repository, Snapshot};

use crate::error::Error;
use crate::facts::{DeltaFacts, Facts};
use crate::settings::MaintenanceSettings;

/// Searching deltas of a smaller pack is not worthwhile.
const LEAST_OBJECTS: u32 = 2000;
const LEAST_BYTES: u64 = 1 << 20;

/// Sampled entries, or up to twice as many.
const SAMPLES: u32 = 512;

/// The file that names packs whose deltas were searched anew: a second search would not improve them.
const SEARCHED: &str = "info/packrace-searched";

/// Maximum number of names in it, and the longest such file that is read: it has room for SHA-256 names.
const MAX_SEARCHED: usize = 1000;
const MAX_SEARCHED_BYTES: u64 = 1 << 17;

/// Samples how trees and blobs of the largest repackable pack are stored, if worthwhile.
pub(super) fn sample(
    repository: &Repository,
    snapshot: &Snapshot,
    settings: &MaintenanceSettings,
    facts: &Facts,
) -> Result<Option<DeltaFacts>, Error> {
    let largest = facts.ordinary_below(settings.big_pack_bytes).max_by_key(|pack| pack.objects);
    let Some(largest) = largest else { return Ok(None) };
    if largest.objects < LEAST_OBJECTS || largest.bytes < LEAST_BYTES {
        return Ok(None);
    }
    let found = snapshot.packs().iter().find(|pack| pack.is_local() && pack.name() == largest.name);
    let Some(pack) = found.filter(|pack| pack.is_usable()) else { return Ok(None) };
    let mut deltas = DeltaFacts { pack: largest.name.clone(), ..DeltaFacts::default() };
    let step = (pack.len() / SAMPLES).max(1);
    for position in (0..pack.len()).step_by(step as usize) {
        let offset = usize::try_from(pack.index().offset_at(position)).unwrap_or(usize::MAX);
        // The kind is in the first byte of an entry (gitformat-pack).
        let Some(first) = pack.bytes().get(offset) else { continue };
        match (first >> 4) & 7 {
            2 | 3 => {
                deltas.sampled += 1;
                deltas.whole += 1;
            }
            6 | 7 => deltas.sampled += 1,
            _ => {}
        }
    }
    let path = repository.object_dir().join(SEARCHED);
    let searched = packrace_os::read_file(&path, Role::Config, MAX_SEARCHED_BYTES).unwrap_or_default();
    deltas.is_searched = searched.split(|byte| *byte == b'\n').any(|line| line == largest.name.as_bytes());
    Ok((deltas.sampled > 0).then_some(deltas))
}

/// Records that the deltas of these packs were searched anew.
pub(crate) fn note_searched(
    repository: &Repository,
    packs: &[String],
    policy: WritePolicy,
) -> Result<(), Error> {
    let path: PathBuf = repository.object_dir().join(SEARCHED);
    let text: String = packs.iter().take(MAX_SEARCHED).map(|name| format!("{name}\n")).collect();
    Ok(publish_file(&path, text.as_bytes(), FileKind::ServerInfo, policy)?)
}
