//! Finds objects by walking commits and trees.

use packrace_object::Kind;

use crate::error::{Error, Reason};
use crate::marks::Marks;
use crate::names::NameHash;
use crate::universe::{Ix, Universe};
use crate::walk::commits::{CommitNo, Commits};
use crate::walk::trees::{Absent, PathWalk, TreeWalk};

use super::{Found, Tips};

/// `None` if more than `max_commits` would have to be walked to find where the client's history begins.
pub(super) fn find(
    universe: &Universe,
    commits: &mut Commits<'_>,
    trees: &mut TreeWalk<'_>,
    tips: &Tips,
    max_commits: usize,
) -> Result<Option<Found>, Error> {
    let seen = Marks::new(universe.packed_end());
    let mut roots = Vec::new();
    if tips.had_commits.is_empty() {
        let mut reached = Vec::new();
        commits.closure(&tips.wanted_commits, |commit| {
            seen.insert(commit.ix);
            reached.push(commit.tree);
            true
        })?;
        let had = Marks::new(universe.packed_end());
        trees.count_on(reached.len() as u64);
        mark_roots(trees, reached.into_iter(), &seen, Absent::Fail, &mut roots)?;
        trees.count_on(roots.len() as u64);
        trees.mark_below(roots, &seen, Absent::Fail)?;
        return finish(trees, tips, seen, had, Vec::new()).map(Some);
    }
    let between = commits.between_within(&tips.wanted_commits, &tips.had_commits, max_commits)?;
    let Some(between) = between else { return Ok(None) };
    let had = Marks::new(universe.packed_end());
    for no in &between.had {
        had.insert(commits.get(*no).ix);
    }
    let tree_of = |no: &CommitNo| commits.get(*no).tree;
    let mut had_roots = Vec::new();
    mark_roots(trees, between.border.iter().map(tree_of), &had, Absent::Skip, &mut had_roots)?;
    Tips::mark_others(&tips.had_others, trees, &had, Absent::Skip)?;
    for no in &between.missing {
        seen.insert(commits.get(*no).ix);
    }
    mark_roots(trees, between.missing.iter().map(tree_of), &seen, Absent::Fail, &mut roots)?;
    let bases = PathWalk::new(trees, &seen, &had).run(roots, had_roots)?;
    finish(trees, tips, seen, had, bases).map(Some)
}

/// Marks root trees; those that were not marked before go to `roots`.
pub(super) fn mark_roots(
    walk: &TreeWalk<'_>,
    trees: impl Iterator<Item = packrace_object::ObjectId>,
    seen: &Marks,
    absent: Absent,
    roots: &mut Vec<Ix>,
) -> Result<(), Error> {
    for id in trees {
        match walk.universe().find(&id)? {
            Some(tree) if seen.insert(tree) => roots.push(tree),
            Some(_) => {}
            None if absent == Absent::Skip || walk.may_lack(&id, Kind::Tree)? => {}
            None => return Err(Reason::Missing(id).into()),
        }
    }
    Ok(())
}

/// Adds what is wanted by name, and tells what is wanted from what is had.
pub(super) fn finish(
    trees: &mut TreeWalk<'_>,
    tips: &Tips,
    seen: Marks,
    had: Marks,
    bases: Vec<(Ix, NameHash)>,
) -> Result<Found, Error> {
    Tips::mark_others(&tips.wanted_others, trees, &seen, Absent::Fail)?;
    seen.subtract(&had);
    Ok(Found { wanted: seen, had, bases, is_by_bitmap: false })
}
