//! Finds objects by walking commits and trees.

use crate::commits::{CommitNo, Commits};
use crate::error::{Error, Reason};
use crate::marks::Marks;
use crate::trees::{Absent, TreeWalk};
use crate::universe::{Ix, Universe};

use super::{Found, Tips};

pub(super) fn find(
    universe: &Universe,
    commits: &mut Commits<'_>,
    trees: &mut TreeWalk<'_>,
    tips: &Tips,
) -> Result<Found, Error> {
    let seen = Marks::new(universe.packed_len());
    let mut roots = Vec::new();
    if tips.had_commits.is_empty() {
        let mut reached = Vec::new();
        commits.closure(&tips.wanted_commits, |commit| {
            seen.insert(commit.ix);
            reached.push(commit.tree);
            true
        })?;
        let had = Marks::new(universe.packed_len());
        mark_roots(universe, reached.into_iter(), &seen, Absent::Fail, &mut roots)?;
        trees.mark_below(roots, &seen, Absent::Fail)?;
        return finish(trees, tips, seen, had);
    }
    let between = commits.between(&tips.wanted_commits, &tips.had_commits)?;
    for no in &between.had {
        seen.insert(commits.get(*no).ix);
    }
    let tree_of = |no: &CommitNo| commits.get(*no).tree;
    mark_roots(universe, between.border.iter().map(tree_of), &seen, Absent::Skip, &mut roots)?;
    trees.mark_below(std::mem::take(&mut roots), &seen, Absent::Skip)?;
    Tips::mark_others(&tips.had_others, trees, &seen, Absent::Skip)?;
    let had = seen.snapshot();
    for no in &between.missing {
        seen.insert(commits.get(*no).ix);
    }
    mark_roots(universe, between.missing.iter().map(tree_of), &seen, Absent::Fail, &mut roots)?;
    trees.mark_below(roots, &seen, Absent::Fail)?;
    finish(trees, tips, seen, had)
}

/// Marks root trees; those that were not marked before go to `roots`.
pub(super) fn mark_roots(
    universe: &Universe,
    trees: impl Iterator<Item = packrace_object::ObjectId>,
    seen: &Marks,
    absent: Absent,
    roots: &mut Vec<Ix>,
) -> Result<(), Error> {
    for id in trees {
        match universe.find(&id)? {
            Some(tree) if seen.insert(tree) => roots.push(tree),
            Some(_) => {}
            // Git knows the empty tree without having it stored.
            None if absent == Absent::Skip || id.is_empty_tree() => {}
            None => return Err(Reason::Missing(id).into()),
        }
    }
    Ok(())
}

/// Adds what is wanted by name, and tells what is wanted from what is had.
pub(super) fn finish(trees: &mut TreeWalk<'_>, tips: &Tips, seen: Marks, had: Marks) -> Result<Found, Error> {
    Tips::mark_others(&tips.wanted_others, trees, &seen, Absent::Fail)?;
    seen.subtract(&had);
    Ok(Found { wanted: seen, had })
}
