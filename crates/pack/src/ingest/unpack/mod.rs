//! Unpacks objects: all of an intact pack ([`unpack`]), or those readable in a damaged one ([`salvage`]).

mod salvage;

use packrace_store::publish::{Form, LooseBatch, LooseLimit};
use packrace_store::{ObjectIx, Snapshot, cache_bytes};

use crate::ingest::{IndexedPack, IngestError};
use crate::progress::{Phase, ProgressSink};

pub use salvage::{Salvaged, salvage};

/// Larger objects are not unpacked, because unpacking holds them in memory as a whole, more than once.
pub const MAX_OBJECT_BYTES: u64 = 32 << 20;

/// Whether to keep the objects of a pack as loose objects or as a pack: a pack is not worth it if only a few
/// are new, that is, not in `existing`.
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

/// Writes the objects of a pack, except those that completed it, as loose objects. Returns false and writes
/// nothing if an object is larger than [`MAX_OBJECT_BYTES`], or the pack too large for the address space of
/// this process: then keep the pack, where the objects take no more memory than they have on disk.
pub fn unpack(
    indexed: &IndexedPack,
    batch: &mut LooseBatch,
    progress: &dyn ProgressSink,
) -> Result<bool, IngestError> {
    let entries = indexed.entries();
    if entries.is_empty() {
        return Ok(true);
    }
    if indexed.is_in_ranges() {
        return Ok(false);
    }
    let snapshot = indexed.snapshot()?;
    let mut reader = snapshot.reader(cache_bytes::WHOLE_HISTORY);
    let mut order: Vec<u32> = (0..entries.len() as u32).collect();
    // In pack order, most bases come before their deltas and are still in the cache.
    order.sort_unstable_by_key(|at| entries[*at as usize].offset);
    // Objects that completed a thin pack come last.
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
