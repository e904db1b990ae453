//! Answers to `have` lines: which are known, and when they are enough.

use std::collections::HashSet;
use std::sync::Arc;

use packrace_object::{Kind, ObjectId, oid};

use crate::commits::Commits;
use crate::error::Error;
use crate::universe::{Ix, Universe};
use crate::watch::Watch;

/// One client's negotiation.
pub struct Negotiation<'a> {
    universe: &'a Arc<Universe>,
    commits: Commits<'a>,
    /// Wanted commits that no common commit was found below yet.
    unmet: Vec<Ix>,
    common: HashSet<Ix>,
    /// Nothing older than this can be a common commit.
    oldest_common_seconds: i64,
    /// Whether a have became common since `unmet` was last looked at.
    is_stale: bool,
}

impl<'a> Negotiation<'a> {
    /// A negotiation about `wants`. A want that is no commit, also after peeling, counts as met: history does not
    /// tell what the client has of it.
    pub fn new(universe: &'a Arc<Universe>, wants: &[ObjectId], watch: &'a dyn Watch) -> Result<Self, Error> {
        let mut cut = HashSet::new();
        for id in universe.snapshot().shallow() {
            cut.extend(universe.find(id)?);
        }
        let mut commits = Commits::new(universe, cut, watch);
        let mut unmet = Vec::new();
        for want in wants {
            let peeled = commits.peel(universe.require(want)?)?;
            if peeled.kind == Kind::Commit {
                unmet.push(peeled.object);
            }
        }
        Ok(Negotiation {
            universe,
            commits,
            unmet,
            common: HashSet::new(),
            oldest_common_seconds: i64::MAX,
            is_stale: true,
        })
    }

    /// Whether this side has the object; if so it is common from now on.
    pub fn is_known(&mut self, have: &oid) -> Result<bool, Error> {
        let Some(ix) = self.universe.find(have)? else { return Ok(false) };
        let peeled = self.commits.peel(ix)?;
        let mut is_new = self.common.insert(ix);
        if peeled.kind == Kind::Commit {
            is_new |= self.common.insert(peeled.object);
            let no = self.commits.load(peeled.object)?;
            self.oldest_common_seconds = self.oldest_common_seconds.min(self.commits.get(no).seconds);
        }
        self.is_stale |= is_new;
        Ok(true)
    }

    /// Whether every want has a common commit at or below it, so that more haves would not help.
    pub fn is_enough(&mut self) -> Result<bool, Error> {
        if self.common.is_empty() {
            return Ok(false);
        }
        if std::mem::take(&mut self.is_stale) {
            for want in std::mem::take(&mut self.unmet) {
                if !self.reaches_common(want)? {
                    self.unmet.push(want);
                }
            }
        }
        Ok(self.unmet.is_empty())
    }

    fn reaches_common(&mut self, want: Ix) -> Result<bool, Error> {
        let mut is_found = false;
        let (common, oldest) = (&self.common, self.oldest_common_seconds);
        self.commits.closure(&[want], |commit| {
            is_found |= common.contains(&commit.ix);
            !is_found && commit.seconds >= oldest
        })?;
        Ok(is_found)
    }
}
