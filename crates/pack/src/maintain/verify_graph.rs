//! Compares a commit-graph with the commits (git-commit-graph, "verify").

use packrace_format::commit_graph::{CommitGraph, Generations};
use packrace_object::ObjectId;

use super::history::CommitReader;
use crate::error::{Error, Reason};
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::RequestObjects;

/// The largest level (commit-graph, "GENERATION_NUMBER_V1_MAX"); parents of a commit at this level may share
/// it.
const MAX_LEVEL: u64 = (1 << 30) - 1;

/// Checks every commit from position `start` on and reports errors in git's words, one per line.
pub fn verify_commits<D: AsRef<[u8]>>(
    request_objects: &RequestObjects,
    graph: &CommitGraph<D>,
    start: u32,
    report: &mut dyn FnMut(String),
    progress: &dyn ProgressSink,
) -> Result<(), Error> {
    let mut history = CommitReader::new(request_objects);
    check_order(graph, start, report);
    let [mut zero, mut non_zero] = [None, None];
    for position in start..graph.len() {
        progress.report(
            Phase::VerifyingCommits,
            u64::from(position - start) + 1,
            u64::from(graph.len() - start),
        );
        let id = graph.id_at(position).to_owned();
        let Ok(stored) = history.commit(&id) else {
            report(format!("failed to parse commit {id} from object database for commit-graph"));
            continue;
        };
        let Ok(found) = graph.commit_at(position) else {
            if let Some(parent) = graph.wrong_parent_at(position) {
                return Err(Reason::WrongParentPosition(parent).into());
            }
            report(format!("failed to parse commit {id} from commit-graph"));
            continue;
        };
        if *found.tree != *stored.tree {
            report(format!(
                "root tree OID for commit {id} in commit-graph is {} != {}",
                found.tree, stored.tree
            ));
        }
        let parents: Vec<u32> = found.parents.clone().collect();
        check_parents(graph, &id, &parents, &stored.parents, report);
        check_generation(graph, &id, found.generation, &parents, report);
        *if found.generation == 0 { &mut zero } else { &mut non_zero } = Some(id);
        let seconds = u64::try_from(stored.committer_seconds).unwrap_or(0);
        if found.committer_seconds != seconds {
            let found = found.committer_seconds;
            report(format!("commit date for commit {id} in commit-graph is {found} != {seconds}"));
        }
    }
    if let (Some(zero), Some(non_zero)) = (zero, non_zero)
        && graph.generations() == Generations::TopologicalLevel
    {
        report(format!(
            "commit-graph has both zero and non-zero generations (e.g., commits '{zero}' and '{non_zero}')"
        ));
    }
    Ok(())
}

fn check_order<D: AsRef<[u8]>>(graph: &CommitGraph<D>, start: u32, report: &mut dyn FnMut(String)) {
    let mut layer_start = 0;
    for len in graph.layer_lens() {
        for position in (layer_start + 1..layer_start + len).filter(|position| *position > start) {
            let [before, id] = [graph.id_at(position - 1), graph.id_at(position)];
            if before >= id {
                report(format!("commit-graph has incorrect OID order: {before} then {id}"));
            }
        }
        layer_start += len;
    }
    for position in start..graph.len() {
        let id = graph.id_at(position);
        if graph.position_of(id).is_none() {
            report(format!("commit-graph has incorrect fanout value: {id} is not found"));
        }
    }
}

fn check_parents<D: AsRef<[u8]>>(
    graph: &CommitGraph<D>,
    id: &ObjectId,
    found: &[u32],
    stored: &[ObjectId],
    report: &mut dyn FnMut(String),
) {
    for (position, stored) in found.iter().zip(stored) {
        let found = graph.id_at(*position);
        if *found != **stored {
            report(format!("commit-graph parent for {id} is {found} != {stored}"));
        }
    }
    if found.len() > stored.len() {
        report(format!("commit-graph parent list for commit {id} is too long"));
    } else if found.len() < stored.len() {
        report(format!("commit-graph parent list for commit {id} terminates early"));
    }
}

fn check_generation<D: AsRef<[u8]>>(
    graph: &CommitGraph<D>,
    id: &ObjectId,
    generation: u64,
    parents: &[u32],
    report: &mut dyn FnMut(String),
) {
    let of_parents = parents.iter().filter_map(|parent| graph.commit_at(*parent).ok());
    let Some(mut newest) = of_parents.map(|parent| parent.generation).max() else { return };
    if graph.generations() == Generations::TopologicalLevel {
        if generation == 0 {
            return;
        }
        newest = newest.min(MAX_LEVEL - 1);
    }
    if generation <= newest {
        let least = newest.saturating_add(1);
        report(format!("commit-graph generation for commit {id} is {generation} < {least}"));
    }
}
