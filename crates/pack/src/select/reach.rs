//! Which objects refs reach: what may be asked for where not everything may.

use std::collections::HashSet;
use std::sync::Arc;

use packrace_object::{Kind, ObjectId, oid};

use crate::error::Error;
use crate::select::plan::{PackPlan, PackRequest, plan};
use crate::universe::{Ix, Universe};
use crate::walk::commits::Commits;
use crate::watch::Watch;

/// The first of `wants` that `tips` do not reach; what does not exist is not reached. Commits cost one walk through
/// history, however many there are. Anything else costs looking at every object that `tips` reach, unless it is a tip
/// itself.
pub fn first_unreached(
    universe: &Arc<Universe>,
    wants: &[ObjectId],
    tips: &[ObjectId],
    threads: usize,
    watch: &dyn Watch,
) -> Result<Option<ObjectId>, Error> {
    let mut commits = Commits::new(universe, HashSet::new(), watch);
    let named: HashSet<&ObjectId> = tips.iter().collect();
    let mut wanted = Vec::new();
    let mut reached = None;
    let mut is_reached_at = vec![true; wants.len()];
    for (at, want) in wants.iter().enumerate() {
        let Some(ix) = universe.find(want)? else {
            is_reached_at[at] = false;
            continue;
        };
        if named.contains(want) {
            continue;
        }
        let peeled = commits.peel(ix)?;
        if peeled.kind == Kind::Commit && peeled.tags.is_empty() {
            wanted.push((at, ix));
            continue;
        }
        if reached.is_none() {
            reached = Some(Reached::by(universe, tips, threads, watch)?);
        }
        is_reached_at[at] = reached.as_ref().is_some_and(|reached| reached.has(ix));
    }
    if !wanted.is_empty() {
        let from = commits_of(universe, &mut commits, tips)?;
        let wants: Vec<Ix> = wanted.iter().map(|(_, ix)| *ix).collect();
        let missing = commits.between(&wants, &from)?.missing;
        let missing: HashSet<Ix> = missing.into_iter().map(|no| commits.get(no).ix).collect();
        for (at, ix) in wanted {
            is_reached_at[at] = !missing.contains(&ix);
        }
    }
    Ok(is_reached_at.iter().position(|is_reached| !is_reached).map(|at| wants[at]))
}

/// The commits that existing tips stand for.
fn commits_of(universe: &Universe, commits: &mut Commits<'_>, tips: &[ObjectId]) -> Result<Vec<Ix>, Error> {
    let mut found = Vec::new();
    for tip in tips {
        if let Some(ix) = universe.find(tip)? {
            let peeled = commits.peel(ix)?;
            if peeled.kind == Kind::Commit {
                found.push(peeled.object);
            }
        }
    }
    Ok(found)
}

/// Every object that some tips reach.
pub struct Reached(PackPlan);

impl Reached {
    /// Looks at everything below `tips`: by bitmap where there is one. Tips that do not exist are passed over.
    pub fn by(
        universe: &Arc<Universe>,
        tips: &[ObjectId],
        threads: usize,
        watch: &dyn Watch,
    ) -> Result<Self, Error> {
        let mut wants = Vec::new();
        for tip in tips {
            if universe.contains(tip)? {
                wants.push(*tip);
            }
        }
        let request = PackRequest { wants, threads, ..PackRequest::default() };
        Ok(Reached(plan(universe, &request, watch)?))
    }

    /// Whether the object is one of them.
    pub fn contains(&self, id: &oid) -> Result<bool, Error> {
        Ok(self.0.universe.find(id)?.is_some_and(|ix| self.has(ix)))
    }

    fn has(&self, ix: Ix) -> bool {
        self.0.wanted.contains(ix)
    }
}
