//! Finds objects by combining stored reachability bitmaps; walks only from commits without one.

use std::collections::HashSet;

use packrace_format::bitmap::Bits;
use packrace_store::{DamagedBitmap, SnapshotBitmap, traced_region};

use crate::error::Error;
use crate::loaded_commits::LoadedCommit;
use crate::marks::Marks;
use crate::progress::{BitmapUse, ProgressSink};
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::walk::commits::Commits;
use crate::walk::trees::{OnMissing, TreeWalk};

use super::by_walk::{finish, mark_roots};
use super::{MarkedObjects, Tips};

/// `None` if a stored bitmap is damaged: everything marked so far is then discarded.
pub(super) fn find(
    request_objects: &RequestObjects,
    bitmap: SnapshotBitmap<'_>,
    commits: &mut Commits<'_>,
    trees: &mut TreeWalk<'_>,
    tips: &Tips,
    progress: &dyn ProgressSink,
) -> Result<Option<MarkedObjects>, Error> {
    let seen = Marks::new(request_objects.packed_end());
    let mut reach = BitmapReach {
        request_objects,
        bitmap,
        bits: bitmap.no_bits(),
        marked: bitmap.no_bits(),
        seen: &seen,
        used: BitmapUse::default(),
    };
    let has_any = !tips.had_commits.is_empty() || !tips.had_others.is_empty();
    let region = if has_any { traced_region("pack-bitmap", "haves/classic") } else { None };
    if reach.mark(commits, trees, &tips.had_commits, OnMissing::Skip)?.is_err() {
        return Ok(None);
    }
    Tips::mark_others(&tips.had_others, trees, &seen, OnMissing::Skip)?;
    drop(region);
    let had_bits = has_any.then(|| reach.bits.clone());
    let had = seen.snapshot();
    if reach.mark(commits, trees, &tips.wanted_commits, OnMissing::Fail)?.is_err() {
        return Ok(None);
    }
    progress.bitmaps_used(&|| with_named(&reach, had_bits.as_ref(), tips));
    let found = finish(trees, tips, seen, had, Vec::new())?;
    Ok(Some(MarkedObjects { is_by_bitmap: true, ..found }))
}

/// What was used, with the objects that the request names, each once. Those that bitmaps found for their side cover need none.
fn with_named(reach: &BitmapReach<'_>, had_bits: Option<&Bits>, tips: &Tips) -> BitmapUse {
    let has = |tip: ObjectNo| reach.request_objects.packed(tip).is_some_and(|ix| reach.bitmap.has(ix));
    let had = had_bits.map(|bits| (&tips.had_commits, &tips.had_others, bits));
    let wanted = (&tips.wanted_commits, &tips.wanted_others, &reach.bits);
    let mut used = reach.used;
    for (commits, others, bits) in had.into_iter().chain([wanted]) {
        let commits: HashSet<ObjectNo> = commits.iter().copied().collect();
        let others: HashSet<ObjectNo> = others.iter().map(|(other, _)| *other).collect();
        let hits = commits.iter().filter(|tip| has(**tip)).count() as u64;
        used.hits += hits;
        used.misses += commits.len() as u64 - hits;
        let without = commits.union(&others).filter(|tip| !reach.is_within(**tip, bits));
        used.roots_without += without.count() as u64;
    }
    used
}

/// Adds to `bits` what the stored bitmaps of `tips` say, and of the first commits below that have one; `goes_on` decides at
/// each commit on the way that has none. Returns those that have one; after damage, `bits` is invalid.
pub(crate) fn or_stored(
    request_objects: &RequestObjects,
    bitmap: SnapshotBitmap<'_>,
    commits: &mut Commits<'_>,
    tips: &[ObjectNo],
    bits: &mut Bits,
    mut goes_on: impl FnMut(&LoadedCommit) -> bool,
) -> Result<Result<Vec<ObjectNo>, DamagedBitmap>, Error> {
    let mut used = Ok(Vec::new());
    commits.closure(tips, |commit| {
        let packed = request_objects.packed(commit.ix);
        let bit = packed.and_then(|ix| bitmap.ix_to_bit(ix));
        if used.is_err() || bit.is_some_and(|bit| bits.contains(bit)) {
            return false;
        }
        match packed.map_or(Ok(false), |ix| bitmap.or_into(ix, bits)) {
            Ok(false) => return goes_on(commit),
            Ok(true) => used.iter_mut().for_each(|used| used.push(commit.ix)),
            Err(damaged) => used = Err(damaged),
        }
        false
    })?;
    Ok(used)
}

struct BitmapReach<'a> {
    request_objects: &'a RequestObjects,
    bitmap: SnapshotBitmap<'a>,
    /// The union of the bitmaps used so far.
    bits: Bits,
    /// The part of `bits` whose objects are marked in `seen`.
    marked: Bits,
    seen: &'a Marks,
    used: BitmapUse,
}

impl BitmapReach<'_> {
    /// The bit of an object, if the bitmaps have it.
    fn bit_of(&self, object: ObjectNo) -> Option<u32> {
        self.bitmap.ix_to_bit(self.request_objects.packed(object)?)
    }

    fn is_within(&self, object: ObjectNo, bits: &Bits) -> bool {
        self.bit_of(object).is_some_and(|bit| bits.contains(bit))
    }

    /// Marks everything that `tips` reach.
    fn mark(
        &mut self,
        commits: &mut Commits<'_>,
        trees: &mut TreeWalk<'_>,
        tips: &[ObjectNo],
        on_missing: OnMissing,
    ) -> Result<Result<(), DamagedBitmap>, Error> {
        let mut named = self.bitmap.no_bits();
        for bit in tips.iter().filter_map(|tip| self.bit_of(*tip)) {
            named.set(bit);
        }
        let (request_objects, bitmap, seen, bits) =
            (self.request_objects, self.bitmap, self.seen, &mut self.bits);
        let mut walked_trees = Vec::new();
        let merged = match bitmap.or_pseudo_merges_into(&named, bits) {
            Ok(merged) => merged as u64,
            Err(damaged) => return Ok(Err(damaged)),
        };
        let stored = or_stored(request_objects, bitmap, commits, tips, bits, |commit| {
            let is_new = seen.insert(commit.ix);
            if is_new {
                walked_trees.push(commit.tree);
            }
            is_new
        })?;
        let stored = match stored {
            Err(damaged) => return Ok(Err(damaged)),
            Ok(stored) => stored,
        };
        // Those that are named are counted if somebody asks.
        self.used.hits += stored.iter().filter(|commit| !self.is_within(**commit, &named)).count() as u64;
        self.used.misses += walked_trees.len() as u64;
        self.used.pseudo_merges += merged;
        if !stored.is_empty() || merged > 0 {
            let mut new = self.bits.clone();
            new.and_not(&self.marked);
            for bit in new.iter_ones() {
                // An index is damaged.
                let Some(ix) = bitmap.bit_to_ix(bit) else { return Ok(Err(DamagedBitmap)) };
                seen.insert(ObjectNo(ix.0));
            }
            self.marked.or_with(&new);
        }
        let mut roots = Vec::new();
        mark_roots(trees, walked_trees.into_iter(), seen, on_missing, &mut roots)?;
        trees.mark_below(roots, seen, on_missing)?;
        Ok(Ok(()))
    }
}
