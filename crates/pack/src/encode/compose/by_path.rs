//! The delta search in two passes (`--path-walk`): among objects of the same path, then, for those that got no delta,
//! among all whose paths end alike.

use std::collections::HashMap;

use crate::error::Error;
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::ObjectNo;
use crate::select::plan::PackPlan;

use super::earlier::EarlierDeltas;
use super::search::{Candidate, FoundDelta, Pass, pass, sort};

/// Sorts `candidates` by path, and finds deltas between them; then both again by the end of their paths.
///
/// Chains may become longer than the setting allows where threads work on both ends.
pub(super) fn run(
    plan: &PackPlan,
    candidates: &mut [Candidate],
    progress: &dyn ProgressSink,
) -> Result<Vec<FoundDelta>, Error> {
    sort(candidates, |candidate| candidate.name);
    let first = Pass { phase: Phase::CompressingByPath, within_paths: true, earlier: None };
    let found = pass(plan, candidates, first, progress)?;
    let ids: Vec<(ObjectNo, ObjectNo)> = found
        .iter()
        .map(|delta| (candidates[delta.target as usize].ix, candidates[delta.base as usize].ix))
        .collect();
    sort(candidates, |candidate| candidate.name.ending());
    let places: HashMap<ObjectNo, u32> = candidates.iter().map(|candidate| candidate.ix).zip(0..).collect();
    let mut by_target: Vec<Option<FoundDelta>> =
        std::iter::repeat_with(|| None).take(candidates.len()).collect();
    for (delta, (target, base)) in found.into_iter().zip(ids) {
        let (target, base) = (places[&target], places[&base]);
        by_target[target as usize] = Some(FoundDelta { target, base, ..delta });
    }
    let known = by_target.iter().map(|delta| delta.as_ref().map(|delta| delta.base)).collect();
    let heights = candidates.iter().map(|candidate| candidate.height).collect();
    let earlier = EarlierDeltas::new(heights, known);
    let second = Pass { earlier: Some(&earlier), ..Pass::OVER_ALL };
    for delta in pass(plan, candidates, second, progress)? {
        let at = delta.target as usize;
        by_target[at] = Some(delta);
    }
    Ok(by_target.into_iter().flatten().collect())
}
