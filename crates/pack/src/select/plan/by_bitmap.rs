//! Finds objects by combining stored reachability bitmaps, walking only from commits that have none.

use packrace_format::bitmap::Bits;
use packrace_store::{DamagedBitmap, SnapshotBitmap};

use crate::error::Error;
use crate::marks::Marks;
use crate::universe::{Ix, Universe};
use crate::walk::commits::Commits;
use crate::walk::trees::{Absent, TreeWalk};

use super::by_walk::{finish, mark_roots};
use super::{Found, Tips};

/// `None` if a stored bitmap turns out to be damaged: what was marked until then is worth nothing.
pub(super) fn find(
    universe: &Universe,
    bitmap: SnapshotBitmap<'_>,
    commits: &mut Commits<'_>,
    trees: &mut TreeWalk<'_>,
    tips: &Tips,
) -> Result<Option<Found>, Error> {
    let seen = Marks::new(universe.packed_end());
    let mut reach = Reach { universe, bitmap, bits: bitmap.no_bits(), marked: bitmap.no_bits(), seen: &seen };
    if reach.mark(commits, trees, &tips.had_commits, Absent::Skip)?.is_err() {
        return Ok(None);
    }
    Tips::mark_others(&tips.had_others, trees, &seen, Absent::Skip)?;
    let had = seen.snapshot();
    if reach.mark(commits, trees, &tips.wanted_commits, Absent::Fail)?.is_err() {
        return Ok(None);
    }
    let found = finish(trees, tips, seen, had, Vec::new())?;
    Ok(Some(Found { is_by_bitmap: true, ..found }))
}

struct Reach<'a> {
    universe: &'a Universe,
    bitmap: SnapshotBitmap<'a>,
    /// The bitmaps that were combined so far.
    bits: Bits,
    /// Those of them whose objects are marked in `seen`.
    marked: Bits,
    seen: &'a Marks,
}

impl Reach<'_> {
    /// Marks everything that `tips` reach.
    fn mark(
        &mut self,
        commits: &mut Commits<'_>,
        trees: &mut TreeWalk<'_>,
        tips: &[Ix],
        absent: Absent,
    ) -> Result<Result<(), DamagedBitmap>, Error> {
        let (universe, bitmap, seen, bits) = (self.universe, self.bitmap, self.seen, &mut self.bits);
        let mut walked_trees = Vec::new();
        let mut named = bitmap.no_bits();
        for bit in tips.iter().filter_map(|tip| bitmap.ix_to_bit(universe.packed(*tip)?)) {
            named.set(bit);
        }
        let mut stored = bitmap.or_pseudo_merges_into(&named, bits).map(|used| used > 0);
        commits.closure(tips, |commit| {
            let packed = universe.packed(commit.ix);
            let bit = packed.and_then(|ix| bitmap.ix_to_bit(ix));
            if stored.is_err() || seen.contains(commit.ix) || bit.is_some_and(|bit| bits.contains(bit)) {
                return false;
            }
            match packed.map_or(Ok(false), |ix| bitmap.or_into(ix, bits)) {
                Ok(false) => {
                    seen.insert(commit.ix);
                    walked_trees.push(commit.tree);
                    true
                }
                found => {
                    stored = found;
                    false
                }
            }
        })?;
        match stored {
            Err(damaged) => return Ok(Err(damaged)),
            Ok(false) => {}
            Ok(true) => {
                let mut new = self.bits.clone();
                new.and_not(&self.marked);
                for ix in new.iter_ones().filter_map(|bit| bitmap.bit_to_ix(bit)) {
                    seen.insert(Ix(ix.0));
                }
                self.marked.or_with(&new);
            }
        }
        let mut roots = Vec::new();
        mark_roots(trees, walked_trees.into_iter(), seen, absent, &mut roots)?;
        trees.mark_below(roots, seen, absent)?;
        Ok(Ok(()))
    }
}
