//! Which packs a multi-pack-index covers (git-multi-pack-index).

use std::collections::HashSet;
use std::time::UNIX_EPOCH;

use packrace_format::multi_pack_index::{
    Base, MidxWriteError, MultiPackIndex, MultiPackIndexChain, SourcePack, WriteOptions, write,
};
use packrace_store::{Mapped, Pack, Snapshot};

use crate::progress::{Phase, ProgressSink};

/// Makes a multi-pack-index of the repository's own packs that `is_wanted` and `base`, the chain below, does not
/// cover; `None` if there are none. Copies in the pack named `preferred` win. `bit_order` allows bitmaps for it.
/// `previous`, which must be whole, is a file to go on from: see [`packrace_format::multi_pack_index::write()`].
pub fn make(
    snapshot: &Snapshot,
    base: &MultiPackIndexChain<impl AsRef<[u8]>>,
    previous: Option<&MultiPackIndex<Mapped>>,
    is_wanted: impl Fn(&Pack) -> bool,
    preferred: Option<&str>,
    bit_order: bool,
    progress: &dyn ProgressSink,
) -> Result<Option<Vec<u8>>, MidxWriteError> {
    let covered: HashSet<&str> = base.pack_stems().collect();
    let is_new = |pack: &&Pack| pack.is_local() && is_wanted(pack) && !covered.contains(pack.name());
    let packs: Vec<&Pack> = snapshot.packs().iter().filter(is_new).filter(|pack| pack.is_usable()).collect();
    if packs.is_empty() {
        return Ok(None);
    }
    let names: Vec<String> = packs.iter().map(|pack| format!("{}.idx", pack.name())).collect();
    let modified = |pack: &Pack| {
        let since = pack.modified().and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
        since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
    };
    let sources: Vec<_> = packs
        .iter()
        .zip(&names)
        .map(|(pack, name)| SourcePack { name, index: pack.index(), modified_seconds: modified(pack) })
        .collect();
    progress.report(Phase::AddingPacks, 0, 0);
    let preferred = preferred.and_then(|name| packs.iter().position(|pack| pack.name() == name));
    let base = Base { objects: base.len(), has: &|id| base.position_of(id).is_some() };
    let made = write(&sources, snapshot.hash_kind(), base, previous, WriteOptions { preferred, bit_order })?;
    progress.report(Phase::AddingPacks, sources.len() as u64, 0);
    Ok(Some(made))
}
