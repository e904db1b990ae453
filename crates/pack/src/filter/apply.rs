//! Takes out of a response what a filter leaves out.

use packrace_object::Kind;

use crate::error::{Error, Reason};
use crate::marks::Marks;
use crate::plan::{Found, Tips};
use crate::universe::{Ix, Universe};
use crate::watch::Watch;

use super::Rules;
use super::kinds::Kinds;

/// Objects between two looks at the watcher.
const OBJECTS_BETWEEN_LOOKS: usize = 4096;

/// Reduces `found.wanted` to what `rules` keep and what the client named itself: tips, and what tips that are tags
/// come down to.
pub(crate) fn reduce(
    universe: &Universe,
    tips: &Tips,
    rules: &Rules,
    found: Found,
    watch: &dyn Watch,
) -> Result<Found, Error> {
    let others = tips.wanted_others.iter().map(|(ix, _)| *ix);
    let given = tips.wanted_commits.iter().copied().chain(others);
    let given: Vec<Ix> = given.filter(|ix| found.wanted.contains(*ix)).collect();
    let members = found.wanted.count_packed(0..universe.packed_len());
    let mut kinds = Kinds::new(universe, members);
    if rules.is_about_kinds() {
        by_kind(rules, &mut kinds, &found.wanted, watch)?;
    }
    for ix in given {
        found.wanted.insert(ix);
    }
    Ok(found)
}

fn by_kind(rules: &Rules, kinds: &mut Kinds<'_>, wanted: &Marks, watch: &dyn Watch) -> Result<(), Error> {
    for (count, ix) in wanted.packed().chain(wanted.extra()).enumerate() {
        if count % OBJECTS_BETWEEN_LOOKS == 0 && watch.cancelled() {
            return Err(Reason::Cancelled.into());
        }
        let kind = kinds.kind(ix)?;
        let is_kept = match rules.blob_limit {
            Some(limit) if kind == Kind::Blob && rules.keeps(kind) => kinds.size(ix)? < limit,
            _ => rules.keeps(kind),
        };
        if !is_kept {
            wanted.remove(ix);
        }
    }
    Ok(())
}
