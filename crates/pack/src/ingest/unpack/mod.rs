//! Takes the objects out of a pack: an intact one ([`unpack`]), or what is readable of a damaged one ([`salvage`]).

mod salvage;

use packrace_store::publish::{Form, LooseBatch, LooseLimit};
use packrace_store::{ObjectIx, Snapshot, cache_bytes};

use crate::ingest::{IndexedPack, IngestError};
use crate::progress::{Phase, ProgressSink};

pub use salvage::{Salvaged, salvage};

/// Larger objects are not unpacked, because they would be in memory as a whole, more than once.
pub const MAX_OBJECT_BYTES: u64 = 32 << 20;

/// In which form to keep the objects of a pack, some of which `existing` may have: for a few new ones another pack
/// is not worth it.
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

/// Writes the objects of a pack, except those that completed it, as loose ones. If one of them is larger than
/// [`MAX_OBJECT_BYTES`], returns false and writes nothing: keep the pack then, where the object takes no more
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
    // Bases mostly come before their deltas, and are still in the cache.
    order.sort_unstable_by_key(|at| entries[*at as usize].offset);
    // Objects that completed a thin pack come after its own entries.
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
