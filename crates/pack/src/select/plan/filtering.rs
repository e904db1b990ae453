//! Applies a filter to a response.

use packrace_object::Kind;

use crate::error::{Error, ErrorKind, Reason};
use crate::marks::Marks;
use crate::progress::ProgressSink;
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::select::filter::Rules;
use crate::select::filter::kinds::Kinds;
use crate::select::filter::levels::{Start, TreeReader, within_depth};
use crate::walk::commits::Commits;
use crate::walk::trees::AllowedMissing;

use super::{MarkedObjects, Tips, WALK_RATHER_THAN_BITMAP};

/// Objects visited between two checks for cancellation.
const OBJECTS_BETWEEN_LOOKS: usize = 4096;

/// One request with a filter.
pub(crate) struct Filtering<'a> {
    pub(crate) request_objects: &'a RequestObjects,
    pub(crate) tips: &'a Tips,
    pub(crate) rules: Rules,
    pub(crate) allowed_missing: AllowedMissing,
    pub(crate) progress: &'a dyn ProgressSink,
    /// `core.maxTreeDepth`: paths are as long as trees are deep, so without a limit the cost would be
    /// quadratic.
    pub(crate) max_tree_depth: usize,
}

impl Filtering<'_> {
    /// The part of a response that is kept: objects that pass the rules, and objects that the client wants by
    /// id (tips, and what tag tips peel to). `find` finds the whole response; it is not called if the rules
    /// need only the commits and a walk is the best way to find those.
    pub(crate) fn find<'c>(
        &self,
        commits: &mut Commits<'c>,
        has_bitmap: bool,
        find: impl FnOnce(&mut Commits<'c>) -> Result<MarkedObjects, Error>,
    ) -> Result<MarkedObjects, Error> {
        let found_commits = self.find_commits(commits, has_bitmap)?;
        let is_whole = found_commits.is_none();
        let mut found = match found_commits {
            Some(found) => found,
            None => find(commits)?,
        };
        let given = self.tips.wanted_others.iter().map(|(ix, _)| *ix);
        let given = given.chain(self.tips.wanted_commits.iter().copied());
        let given: Vec<ObjectNo> = given.filter(|ix| found.wanted.contains(*ix)).collect();
        let members = found.wanted.count_packed(0..self.request_objects.packed_end());
        let mut kinds = Kinds::new(self.request_objects, members);
        if self.rules.is_about_places() {
            self.reduce_by_place(commits, &mut kinds, &found.wanted, is_whole)?;
        }
        if self.rules.is_about_kinds() {
            self.reduce_by_kind(&mut kinds, &found.wanted)?;
            self.reduce_bases(&mut kinds, &mut found)?;
        }
        for ix in given {
            found.wanted.insert(ix);
        }
        Ok(found)
    }

    /// The commits of the response and the objects wanted by id; `None` if the whole response is needed.
    fn find_commits(
        &self,
        commits: &mut Commits<'_>,
        has_bitmap: bool,
    ) -> Result<Option<MarkedObjects>, Error> {
        let packed_end = self.request_objects.packed_end();
        let (wanted, had) = (Marks::new(packed_end), Marks::new(packed_end));
        let tips = self.tips;
        if tips.had_commits.is_empty() && tips.had_others.is_empty() {
            if has_bitmap || !self.rules.needs_commits_only() {
                return Ok(None);
            }
            commits.closure(&tips.wanted_commits, |commit| {
                wanted.insert(commit.ix);
                true
            })?;
        } else {
            // Trees at the client are needed to decide which trees to send.
            if self.rules.depth != Some(0) {
                return Ok(None);
            }
            let max_commits = if has_bitmap { WALK_RATHER_THAN_BITMAP } else { usize::MAX };
            let between = commits.between_within(&tips.wanted_commits, &tips.had_commits, max_commits)?;
            let Some(between) = between else { return Ok(None) };
            for (numbers, side) in [(&between.missing, &wanted), (&between.had, &had)] {
                for no in numbers {
                    side.insert(commits.get(*no).ix);
                }
            }
            for (ix, _) in &tips.had_others {
                had.insert(*ix);
            }
        }
        for (ix, _) in tips.wanted_others.iter().filter(|(ix, _)| !had.contains(*ix)) {
            wanted.insert(*ix);
        }
        Ok(Some(MarkedObjects { wanted, had, bases: Vec::new(), is_by_bitmap: false }))
    }

    fn reduce_by_kind(&self, kinds: &mut Kinds<'_>, wanted: &Marks) -> Result<(), Error> {
        for (count, ix) in wanted.members().enumerate() {
            self.look(count)?;
            if !self.keeps(kinds, ix)? {
                wanted.remove(ix);
            }
        }
        Ok(())
    }

    /// Removes delta bases that the filter leaves out: most likely, the client's filter left them out before.
    fn reduce_bases(&self, kinds: &mut Kinds<'_>, found: &mut MarkedObjects) -> Result<(), Error> {
        for (ix, name) in std::mem::take(&mut found.bases) {
            if self.keeps(kinds, ix)? {
                found.bases.push((ix, name));
            }
        }
        Ok(())
    }

    fn keeps(&self, kinds: &mut Kinds<'_>, ix: ObjectNo) -> Result<bool, Error> {
        let kind = known_kind(kinds, ix)?;
        match self.rules.blob_limit {
            Some(limit) if kind == Kind::Blob && self.rules.keeps(kind) => Ok(kinds.size(ix)? < limit),
            _ => Ok(self.rules.keeps(kind)),
        }
    }

    /// Replaces trees and blobs with those reached by walks from the root trees.
    fn reduce_by_place(
        &self,
        commits: &mut Commits<'_>,
        kinds: &mut Kinds<'_>,
        wanted: &Marks,
        is_whole: bool,
    ) -> Result<(), Error> {
        let given = self.tips.wanted_others.iter().filter(|(_, kind)| *kind == Kind::Tree);
        let scope = wanted.snapshot();
        let mut start = Start {
            roots: Vec::new(),
            given: given.map(|(ix, _)| *ix).filter(|ix| wanted.contains(*ix)).collect(),
            scope: is_whole.then_some(&scope),
        };
        for (count, ix) in scope.members().enumerate() {
            self.look(count)?;
            match known_kind(kinds, ix)? {
                Kind::Commit => {
                    let no = commits.load(ix)?;
                    let root = commits.get(no).tree;
                    match self.request_objects.find(&root)? {
                        Some(root) => start.roots.push(root),
                        None if self.allowed_missing.allows(
                            self.request_objects,
                            &root,
                            Kind::Tree,
                            self.progress,
                        )? => {}
                        None => return Err(Reason::MissingTree(root).into()),
                    }
                }
                Kind::Tree | Kind::Blob => wanted.remove(ix),
                Kind::Tag => {}
            }
        }
        let mut trees = TreeReader::new(self.request_objects, self.allowed_missing, self.progress)
            .no_deeper_than(self.max_tree_depth);
        let by_depth = self.rules.depth.map(|depth| within_depth(&mut trees, &start, depth)).transpose()?;
        let mut reached: Vec<Marks> = by_depth.into_iter().collect();
        for sparse in &self.rules.sparse {
            reached.push(sparse.walk(&mut trees, &start)?);
        }
        let Some((first, others)) = reached.split_first() else { return Ok(()) };
        for ix in first.members() {
            if others.iter().all(|other| other.contains(ix)) {
                wanted.insert(ix);
            }
        }
        Ok(())
    }

    fn look(&self, count: usize) -> Result<(), Error> {
        if count.is_multiple_of(OBJECTS_BETWEEN_LOOKS) && self.progress.cancelled() {
            return Err(Reason::Cancelled.into());
        }
        Ok(())
    }
}

/// The kind of an object that a walk met. All others are read by walks, so a damaged one is a blob.
fn known_kind(kinds: &mut Kinds<'_>, ix: ObjectNo) -> Result<Kind, Error> {
    match kinds.kind(ix) {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Kind::Blob),
        kind => kind,
    }
}
