//! Stored deltas whose bases are deep in the history that the receiver has: the walk of a small fetch did not get there, but
//! bitmaps tell.

use std::collections::HashSet;

use packrace_format::bitmap::Bits;
use packrace_object::Kind;
use packrace_store::SnapshotBitmap;

use crate::encode::stored_entry::StoredEntry;
use crate::error::Error;
use crate::progress::ProgressSink;
use crate::select::plan::{PackPlan, or_stored};
use crate::walk::commits::Commits;

use super::list::{ComposedEntry, StoredSpan};
use super::{DeltaBase, How};

/// If objects that would be sent whole have fewer bytes together, opening bitmaps costs more than it saves.
const LEAST_BYTES: u64 = 8 << 10;

/// The most commits visited to find some that have bitmaps.
const MAX_VISITED: usize = 256;

/// Reuses the deltas of `entries` for which the search has found none, where the receiver has the base.
pub(super) fn reuse(
    plan: &PackPlan,
    entries: &mut [ComposedEntry],
    progress: &dyn ProgressSink,
) -> Result<(), Error> {
    let settings = &plan.settings;
    if plan.had_tips.is_empty() || plan.islands.is_some() || !settings.reuse_objects || !settings.reuse_deltas
    {
        return Ok(());
    }
    let is_whole = |entry: &ComposedEntry| entry.is_stored_as_delta && matches!(entry.how, How::Whole);
    let bytes: u64 = entries.iter().filter(|entry| is_whole(entry)).map(|entry| entry.size).sum();
    if bytes < LEAST_BYTES {
        return Ok(());
    }
    let Some(bitmap) = plan.request_objects.snapshot().bitmap() else { return Ok(()) };
    let Some(had) = had(plan, bitmap, progress)? else { return Ok(()) };
    for entry in entries.iter_mut().filter(|entry| is_whole(entry)) {
        let Some(span) = entry.stored else { continue };
        let base = stored_at(plan, &span).and_then(|stored| match stored {
            Some(stored) => stored.base(&plan.request_objects),
            None => Ok(None),
        });
        let base = match base {
            Ok(base) => base,
            // It is found where the object is read, which may be in another pack.
            Err(error) if error.is_damage() => None,
            Err(error) => return Err(error),
        };
        let Some(base) = base else { continue };
        let bit = plan.request_objects.packed(base).and_then(|ix| bitmap.ix_to_bit(ix));
        if bit.is_some_and(|bit| had.contains(bit)) {
            entry.how = How::StoredDelta(DeltaBase::Outside(base));
        }
    }
    Ok(())
}

fn stored_at(plan: &PackPlan, span: &StoredSpan) -> Result<Option<StoredEntry>, Error> {
    let pack = &plan.request_objects.snapshot().packs()[span.pack.0 as usize];
    let position = pack.position_of_offset(span.start as u64);
    position.map(|position| StoredEntry::at(&plan.request_objects, span.pack, position)).transpose()
}

/// What the receiver has by the bitmaps of its commits, or of those not far below; `None` if there are none, or one is damaged.
fn had(
    plan: &PackPlan,
    bitmap: SnapshotBitmap<'_>,
    progress: &dyn ProgressSink,
) -> Result<Option<Bits>, Error> {
    let request_objects = &plan.request_objects;
    let mut commits = Commits::new(request_objects, HashSet::new(), progress);
    let mut tips = Vec::new();
    for id in &plan.had_tips {
        let Some(ix) = request_objects.find(id)? else { continue };
        let peeled = commits.peel(ix)?;
        tips.extend((peeled.kind == Kind::Commit).then_some(peeled.object));
    }
    tips.truncate(MAX_VISITED);
    let (mut bits, mut visited) = (bitmap.no_bits(), 0);
    let used = or_stored(request_objects, bitmap, &mut commits, &tips, &mut bits, |_| {
        visited += 1;
        visited <= MAX_VISITED
    })?;
    Ok(used.is_ok_and(|used| !used.is_empty()).then_some(bits))
}
