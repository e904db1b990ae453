//! Answers `have` lines: which are known, and when they are enough.
//!
//! A want is met when a common commit is at or below it. The commits below a want are visited newest first,
//! each once per negotiation, and only down to the age of the oldest common commit: nothing older can be
//! common. When a commit becomes common, the visited commits above it are met. A want is visited only when
//! all wants before it are met: until then, the haves are not enough.
//!
//! ```text
//! wants    ●───●───●───┬───○ ┄┄┄ not visited yet: older than every common commit
//!                  ╲   └───○ ┄┄┄
//!                   ● common: met, and with it all to the left
//! ```

use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use packrace_object::{Kind, ObjectId};

use crate::error::Error;
use crate::progress::ProgressSink;
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::walk::commits::{CommitNo, Commits, LoadedCommits};

/// One client's negotiation, over all its rounds.
pub struct Negotiation {
    request_objects: Arc<RequestObjects>,
    loaded: LoadedCommits,
    search: Search,
}

/// The answer to the haves of one round.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Whether each have exists here.
    pub known: Vec<bool>,
    /// Whether each have is known and is an earlier one again, or a parent of an earlier one. A client that
    /// sends its history needs no answer about these.
    pub implied: Vec<bool>,
    /// Whether, after each have, every want has a common commit at or below it, so that more haves would not
    /// help. Computed only after unknown haves and after the last one; false after the others.
    pub enough: Vec<bool>,
}

impl Negotiation {
    /// Starts a negotiation about `wants`. A want that does not peel to a commit counts as met: history does
    /// not show what the client has of it. The client lacks the parents of the commits in `cut`.
    pub fn new(
        request_objects: &Arc<RequestObjects>,
        wants: &[ObjectId],
        cut: &[ObjectId],
        progress: &dyn ProgressSink,
    ) -> Result<Self, Error> {
        let mut cut_at = HashSet::new();
        for id in request_objects.snapshot().shallow()?.iter().chain(cut) {
            cut_at.extend(request_objects.find(id)?);
        }
        let mut commits = Commits::new(request_objects, cut_at, progress);
        let mut search = Search::default();
        for want in wants {
            let peeled = commits.peel(request_objects.require(want)?)?;
            if peeled.kind == Kind::Commit {
                search.add_want(&mut commits, peeled.object)?;
            }
        }
        // The oldest want is popped first: it is the least likely to be met, and the cheapest to search.
        search.waiting_wants.sort_by_key(|no| std::cmp::Reverse(commits.get(*no).seconds));
        let loaded = commits.into_loaded();
        Ok(Negotiation { request_objects: request_objects.clone(), loaded, search })
    }

    /// Ends the negotiation. The commits that it has read are not read again by the plan of the pack.
    pub fn end(self) {
        *self.request_objects.negotiated.lock().expect("no panic while held") = Some(self.loaded);
    }

    /// Checks the haves of a round. Commits that exist become common, and so do their parents; as in git, tags
    /// do not speak for what they name.
    pub fn check(&mut self, haves: &[ObjectId], progress: &dyn ProgressSink) -> Result<Checked, Error> {
        let loaded = std::mem::take(&mut self.loaded);
        let mut commits = Commits::resume(&self.request_objects, loaded, progress);
        let mut checked = Checked::default();
        for (at, have) in haves.iter().enumerate() {
            let known = self.request_objects.find(have)?;
            let mut is_implied = false;
            if let Some(ix) = known {
                self.search.is_any_common = true;
                is_implied = !self.search.common.insert(ix);
                let peeled = commits.peel(ix)?;
                if peeled.object == ix && peeled.kind == Kind::Commit {
                    self.search.add_common(&mut commits, ix)?;
                }
            }
            let is_asked = known.is_none() || at + 1 == haves.len();
            checked.known.push(known.is_some());
            checked.implied.push(is_implied);
            checked.enough.push(is_asked && self.search.is_enough(&mut commits)?);
        }
        self.loaded = commits.into_loaded();
        Ok(checked)
    }
}

/// A commit below the wants.
#[derive(Debug, Default)]
struct SeenCommit {
    /// Counted in `unmet_wants` until it is met.
    is_want: bool,
    is_expanded: bool,
    /// Whether a common commit at or below it was found so far.
    is_met: bool,
    /// Visited children.
    children: Vec<CommitNo>,
}

#[derive(Default)]
struct Search {
    seen: HashMap<CommitNo, SeenCommit>,
    /// Commits whose parents are not visited yet, by date.
    queue: BinaryHeap<(i64, CommitNo)>,
    /// Wants whose search has not started, newest first.
    waiting_wants: Vec<CommitNo>,
    /// The number of wants whose search has started and that are not met.
    unmet_wants: usize,
    common: HashSet<ObjectNo>,
    is_any_common: bool,
    /// No older commit can be common, except the parent of a common one.
    oldest_common_seconds: Option<i64>,
    /// The number of commits whose parents were visited, for tests of the amount of work.
    expanded: usize,
}

impl Search {
    fn add_want(&mut self, commits: &mut Commits<'_>, want: ObjectNo) -> Result<(), Error> {
        self.waiting_wants.push(commits.load_had(want)?);
        Ok(())
    }

    fn add_common(&mut self, commits: &mut Commits<'_>, have: ObjectNo) -> Result<(), Error> {
        let no = commits.load_had(have)?;
        let seconds = commits.get(no).seconds;
        self.oldest_common_seconds =
            Some(self.oldest_common_seconds.map_or(seconds, |oldest| oldest.min(seconds)));
        let parents = commits.get(no).parents.clone();
        self.common.extend(parents.iter().copied());
        for ix in std::iter::once(have).chain(parents) {
            if let Some(no) = commits.number(ix) {
                self.meet(no);
            }
        }
        Ok(())
    }

    fn is_enough(&mut self, commits: &mut Commits<'_>) -> Result<bool, Error> {
        if !self.is_any_common {
            return Ok(false);
        }
        loop {
            while self.unmet_wants > 0 {
                let Some((seconds, no)) = self.queue.peek().copied() else { return Ok(false) };
                if self.oldest_common_seconds.is_none_or(|oldest| seconds < oldest) {
                    return Ok(false);
                }
                self.queue.pop();
                self.expand(commits, no)?;
            }
            let Some(want) = self.waiting_wants.pop() else { return Ok(true) };
            let ix = commits.get(want).ix;
            self.see(commits, ix)?;
            let seen = self.seen.entry(want).or_default();
            if !seen.is_met && !std::mem::replace(&mut seen.is_want, true) {
                self.unmet_wants += 1;
                // As in git, the parents of a want are visited regardless of its age.
                self.queue.push((i64::MAX, want));
            }
        }
    }

    /// Visits the parents of a commit, unless it is met.
    fn expand(&mut self, commits: &mut Commits<'_>, no: CommitNo) -> Result<(), Error> {
        let seen = self.seen.entry(no).or_default();
        if seen.is_met || std::mem::replace(&mut seen.is_expanded, true) {
            return Ok(());
        }
        self.expanded += 1;
        for at in 0..commits.get(no).parents.len() {
            let parent = commits.get(no).parents[at];
            let parent = self.see(commits, parent)?;
            let seen = self.seen.entry(parent).or_default();
            seen.children.push(no);
            if seen.is_met {
                self.meet(no);
            }
        }
        Ok(())
    }

    /// Records a commit below the wants.
    fn see(&mut self, commits: &mut Commits<'_>, ix: ObjectNo) -> Result<CommitNo, Error> {
        // Whether a wanted commit lacks parents is found when the pack is planned.
        let no = commits.load_had(ix)?;
        if !self.seen.contains_key(&no) {
            let is_met = self.common.contains(&ix);
            self.seen.insert(no, SeenCommit { is_met, ..SeenCommit::default() });
            self.queue.push((commits.get(no).seconds, no));
        }
        Ok(no)
    }

    /// Marks `no` and the visited commits above it as met.
    fn meet(&mut self, no: CommitNo) {
        let mut met = vec![no];
        while let Some(no) = met.pop() {
            let Some(seen) = self.seen.get_mut(&no).filter(|seen| !seen.is_met) else { continue };
            seen.is_met = true;
            self.unmet_wants -= usize::from(seen.is_want);
            met.append(&mut seen.children);
        }
    }
}

#[cfg(test)]
mod tests;
