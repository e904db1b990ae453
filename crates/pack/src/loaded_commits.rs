//! Commits that were read, and their numbers.

use std::collections::{HashMap, HashSet};

use packrace_object::ObjectId;

use crate::object_no::ObjectNo;

/// A loaded commit; valid for the [`Commits`](crate::walk) that returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CommitNo(pub(crate) u32);

/// A loaded commit.
#[derive(Debug)]
pub(crate) struct LoadedCommit {
    pub(crate) ix: ObjectNo,
    pub(crate) tree: ObjectId,
    /// Those that exist; none for a root commit and where history is shallow.
    pub(crate) parents: Vec<ObjectNo>,
    /// The first parent that does not exist: only a walk of what a receiver has may go past it.
    pub(crate) lacks: Option<Box<ObjectId>>,
    pub(crate) seconds: i64,
    /// Larger than the generation of every ancestor; `None` if no commit-graph has the commit.
    pub(crate) generation: Option<u64>,
    /// Whether history is shallow here: the stored commit has parents that a walk must not visit.
    pub(crate) is_cut: bool,
}

impl LoadedCommit {
    /// Newer commits first: by generation if known (commits outside the commit-graph are newer than all in
    /// it), then by date.
    pub(crate) fn age_key(&self) -> (u64, i64) {
        (self.generation.unwrap_or(u64::MAX), self.seconds)
    }
}

/// The commits that a walk has loaded, for another one.
#[derive(Default)]
pub(crate) struct LoadedCommits {
    /// Commits that count as having no parents.
    pub(crate) cut: HashSet<ObjectNo>,
    pub(crate) loaded: Vec<LoadedCommit>,
    pub(crate) numbers: HashMap<ObjectNo, CommitNo>,
}
