//! Which objects refs reach, for clients that may request reachable objects only.

use std::collections::HashSet;
use std::sync::Arc;

use packrace_object::{Kind, ObjectId, oid};

use crate::error::Error;
use crate::progress::ProgressSink;
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::select::plan::{PackPlan, PackRequest, plan};
use crate::walk::commits::Commits;

/// The first of `wants` that `tips` do not reach; a missing object counts as not reached. All wanted commits
/// together cost one walk through history. Other objects that are not tips cost one visit of every object
/// that `tips` reach.
pub fn first_unreached(
    request_objects: &Arc<RequestObjects>,
    wants: &[ObjectId],
    tips: &[ObjectId],
    threads: usize,
    progress: &dyn ProgressSink,
) -> Result<Option<ObjectId>, Error> {
    let mut commits = Commits::new(request_objects, HashSet::new(), progress);
    let named: HashSet<&ObjectId> = tips.iter().collect();
    let mut wanted = Vec::new();
    let mut reached = None;
    let mut is_reached_at = vec![true; wants.len()];
    for (at, want) in wants.iter().enumerate() {
        let Some(ix) = request_objects.find(want)? else {
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
            reached = Some(Reached::by(request_objects, tips, threads, progress)?);
        }
        is_reached_at[at] = reached.as_ref().is_some_and(|reached| reached.has(ix));
    }
    if !wanted.is_empty() {
        let from = commits_of(request_objects, &mut commits, tips)?;
        let wants: Vec<ObjectNo> = wanted.iter().map(|(_, ix)| *ix).collect();
        let missing = commits.between(&wants, &from)?.missing;
        let missing: HashSet<ObjectNo> = missing.into_iter().map(|no| commits.get(no).ix).collect();
        for (at, ix) in wanted {
            is_reached_at[at] = !missing.contains(&ix);
        }
    }
    Ok(is_reached_at.iter().position(|is_reached| !is_reached).map(|at| wants[at]))
}

/// The commits that `tips` peel to; skips missing tips.
fn commits_of(
    request_objects: &RequestObjects,
    commits: &mut Commits<'_>,
    tips: &[ObjectId],
) -> Result<Vec<ObjectNo>, Error> {
    let mut found = Vec::new();
    for tip in tips {
        if let Some(ix) = request_objects.find(tip)? {
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
    /// Visits everything below `tips`, by bitmap if there is one; skips missing tips.
    pub fn by(
        request_objects: &Arc<RequestObjects>,
        tips: &[ObjectId],
        threads: usize,
        progress: &dyn ProgressSink,
    ) -> Result<Self, Error> {
        let mut wants = Vec::new();
        for tip in tips {
            if request_objects.contains(tip)? {
                wants.push(*tip);
            }
        }
        let request = PackRequest { wants, threads, ..PackRequest::default() };
        Ok(Reached(plan(request_objects, &request, progress)?))
    }

    /// Whether the object is one of them.
    pub fn contains(&self, id: &oid) -> Result<bool, Error> {
        Ok(self.0.request_objects.find(id)?.is_some_and(|ix| self.has(ix)))
    }

    fn has(&self, ix: ObjectNo) -> bool {
        self.0.wanted.contains(ix)
    }
}
