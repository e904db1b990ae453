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
    sort(plan, candidates, |candidate| candidate.name);
    let first = Pass { phase: Phase::CompressingByPath, within_paths: true, earlier: None };
    let mut found = pass(plan, candidates, first, progress)?;
    let ids: Vec<(ObjectNo, ObjectNo)> = found
        .iter()
        .map(|delta| (candidates[delta.target as usize].ix, candidates[delta.base as usize].ix))
        .collect();
    sort(plan, candidates, |candidate| candidate.name.ending());
    let places: HashMap<ObjectNo, u32> = candidates.iter().map(|candidate| candidate.ix).zip(0..).collect();
    let mut bases = vec![None; candidates.len()];
    for (delta, (target, base)) in found.iter_mut().zip(ids) {
        (delta.target, delta.base) = (places[&target], places[&base]);
        bases[delta.target as usize] = Some(delta.base);
    }
    let heights = candidates.iter().map(|candidate| candidate.height).collect();
    let earlier = EarlierDeltas::new(heights, bases);
    let second = Pass { earlier: Some(&earlier), ..Pass::OVER_ALL };
    found.extend(pass(plan, candidates, second, progress)?);
    Ok(found)
}
