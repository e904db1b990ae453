//! Finds objects by walking commits and trees.

use packrace_object::Kind;

use crate::error::{Error, Reason};
use crate::marks::Marks;
use crate::names::NameHash;
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::walk::commits::{CommitNo, Commits};
use crate::walk::trees::{OnMissing, PathWalk, TreeWalk};

use super::{MarkedObjects, Tips};

/// `None` if finding where the client's history begins would take more than `max_commits`.
pub(super) fn find(
    request_objects: &RequestObjects,
    commits: &mut Commits<'_>,
    trees: &mut TreeWalk<'_>,
    tips: &Tips,
    max_commits: usize,
) -> Result<Option<MarkedObjects>, Error> {
    let seen = Marks::new(request_objects.packed_end());
    let is_looked_at = |commit: ObjectNo| !tips.unpacked || request_objects.packed(commit).is_none();
    let mut roots = Vec::new();
    if tips.had_commits.is_empty() {
        let mut reached = Vec::new();
        commits.closure(&tips.wanted_commits, |commit| {
            seen.insert(commit.ix);
            reached.extend(is_looked_at(commit.ix).then_some(commit.tree));
            true
        })?;
        let had = Marks::new(request_objects.packed_end());
        Tips::mark_others(&tips.had_others, trees, &had, OnMissing::Skip)?;
        trees.count_on(reached.len() as u64);
        mark_roots(trees, reached.into_iter(), &seen, OnMissing::Fail, &mut roots)?;
        trees.count_on(roots.len() as u64);
        trees.mark_below(roots, &seen, OnMissing::Fail)?;
        return finish(trees, tips, seen, had, Vec::new()).map(Some);
    }
    let between = commits.between_within(&tips.wanted_commits, &tips.had_commits, max_commits)?;
    let Some(between) = between else { return Ok(None) };
    let had = Marks::new(request_objects.packed_end());
    for no in &between.had {
        had.insert(commits.get(*no).ix);
    }
    let tree_of = |no: &CommitNo| commits.get(*no).tree;
    let mut had_roots = Vec::new();
    mark_roots(trees, between.border.iter().map(tree_of), &had, OnMissing::Skip, &mut had_roots)?;
    Tips::mark_others(&tips.had_others, trees, &had, OnMissing::Skip)?;
    if !tips.sparse {
        trees.mark_below(std::mem::take(&mut had_roots), &had, OnMissing::Skip)?;
    }
    for no in &between.missing {
        seen.insert(commits.get(*no).ix);
    }
    let missing = between.missing.iter().filter(|no| is_looked_at(commits.get(**no).ix));
    mark_roots(trees, missing.map(tree_of), &seen, OnMissing::Fail, &mut roots)?;
    roots.retain(|root| !had.contains(*root));
    let bases = PathWalk::new(trees, &seen, &had).run(roots, had_roots)?;
    finish(trees, tips, seen, had, bases).map(Some)
}

/// Marks root trees; adds newly marked ones to `roots`.
pub(super) fn mark_roots(
    walk: &TreeWalk<'_>,
    trees: impl Iterator<Item = packrace_object::ObjectId>,
    seen: &Marks,
    on_missing: OnMissing,
    roots: &mut Vec<ObjectNo>,
) -> Result<(), Error> {
    for id in trees {
        match walk.request_objects().find(&id)? {
            Some(tree) if seen.insert(tree) => roots.push(tree),
            Some(_) => {}
            None if on_missing == OnMissing::Skip || walk.may_be_missing(&id, Kind::Tree)? => {}
            None => return Err(Reason::MissingTree(id).into()),
        }
    }
    Ok(())
}

/// Adds tags, trees and blobs that are wanted by id, then removes what the client has.
pub(super) fn finish(
    trees: &mut TreeWalk<'_>,
    tips: &Tips,
    seen: Marks,
    had: Marks,
    bases: Vec<(ObjectNo, NameHash)>,
) -> Result<MarkedObjects, Error> {
    Tips::mark_others(&tips.wanted_others, trees, &seen, OnMissing::Fail)?;
    seen.subtract(&had);
    Ok(MarkedObjects { wanted: seen, had, bases, is_by_bitmap: false })
}
