//! Takes the objects out of a pack: of one that is whole ([`unpack`]), and what can be read of a damaged one ([`salvage`]).

mod salvage;

use packrace_store::publish::{Form, LooseBatch, LooseLimit};
use packrace_store::{ObjectIx, Snapshot, cache_bytes};

use crate::ingest::{IndexedPack, IngestError};
use crate::progress::{Phase, ProgressSink};

pub use salvage::{Salvaged, salvage};

/// A larger object is not unpacked: it would be in memory as a whole, more than once.
pub const MAX_OBJECT_BYTES: u64 = 32 << 20;

/// In which form to keep the objects of a pack, of which `existing` may have some: if few are new, it is not worth another pack.
pub fn form_of(indexed: &IndexedPack, existing: &Snapshot, limit: LooseLimit) -> Result<Form, IngestError> {
    let mut new = 0;
    for entry in indexed.entries() {
        new += u32::from(!existing.contains(&entry.id)?);
        if limit.form_of(new) == Form::Pack {
            return Ok(Form::Pack);
        }
    }
    Ok(limit.form_of(new))
}

/// Writes the objects of a pack, except those that it was completed with, as loose ones. Gives back false, and has
/// written nothing, where one of them is larger than [`MAX_OBJECT_BYTES`]: the pack is to be kept then, in which it takes no more
/// memory than it has on disk.
pub fn unpack(
    indexed: &IndexedPack,
    batch: &mut LooseBatch,
    progress: &dyn ProgressSink,
) -> Result<bool, IngestError> {
    let entries = indexed.entries();
    if entries.is_empty() {
        return Ok(true);
    }
    let snapshot = indexed.snapshot()?;
    let mut reader = snapshot.reader(cache_bytes::WHOLE_HISTORY);
    let mut order: Vec<u32> = (0..entries.len() as u32).collect();
    // Bases come before what is made of them, mostly, and are still in the cache.
    order.sort_unstable_by_key(|at| entries[*at as usize].offset);
    // What a thin pack was completed with stands behind its own entries.
    order.truncate(order.len() - indexed.completed() as usize);
    for at in &order {
        if reader.size_at(ObjectIx(*at))? > MAX_OBJECT_BYTES {
            return Ok(false);
        }
    }
    let mut content = Vec::new();
    for (done, at) in (1..).zip(&order) {
        let kind = reader.read_at(ObjectIx(*at), &mut content)?;
        batch.add(&entries[*at as usize].id, kind, &content)?;
        progress.report(Phase::Unpacking, done, order.len() as u64);
    }
    Ok(true)
}
