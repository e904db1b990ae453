//! Selects the commits for a new commit-graph file and the files below it (git-commit-graph, "write").

use std::collections::HashSet;

use packrace_format::commit_graph::{
    CommitGraph, Commits, Generations, GraphWriteError, Merging, layers_to_keep,
};
use packrace_object::{Kind, ObjectId};

use super::history::CommitReader;
use super::path_filters;
pub use super::path_filters::{FilterCounts, FilterRequest, FreshFilters};
use crate::error::Error;
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::RequestObjects;

/// Objects read between two checks for cancellation.
const BETWEEN_LOOKS: u64 = 1024;

/// Whether a new file is the whole commit-graph or a layer of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// One file for everything.
    Single,
    /// A new file on top, which may absorb files below it.
    Merge(Merging),
    /// Always a new file on top.
    NoMerge,
    /// A chain of one file that replaces all others.
    Replace,
}

/// The input of [`make`].
#[derive(Debug)]
pub struct GraphRequest {
    /// Where to start; tags are peeled, and anything that is not a commit then is left out.
    pub tips: Vec<ObjectId>,
    /// Whether all commits of the existing commit-graph stay in.
    pub append: bool,
    /// The shape of the commit-graph.
    pub split: Split,
    /// The number of files at the base of the existing chain that belong to another object directory.
    pub foreign_layers: usize,
    /// The best kind of generations to write.
    pub generations: Generations,
    /// The changed-path filters.
    pub filters: FilterRequest,
}

/// A commit-graph file, not published yet.
#[derive(Debug)]
pub struct NewGraph {
    /// The file.
    pub bytes: Vec<u8>,
    /// How many files of the existing chain stay below it.
    pub kept_layers: usize,
    /// What was done for its changed-path filters, if it has any.
    pub filters: Option<FilterCounts>,
}

/// Why a commit-graph cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The commits cannot be read.
    #[error(transparent)]
    Objects(#[from] Error),
    /// The commits don't make a commit-graph.
    #[error(transparent)]
    Write(#[from] GraphWriteError),
}

/// Every commit in packs whose name `is_wanted`; reports progress as `phase`.
pub fn packed_commits(
    request_objects: &RequestObjects,
    is_wanted: impl Fn(&packrace_store::Pack) -> bool,
    phase: Phase,
    progress: &dyn ProgressSink,
) -> Result<Vec<ObjectId>, Error> {
    let mut history = CommitReader::new(request_objects);
    let packs: Vec<_> = request_objects
        .snapshot()
        .packs()
        .iter()
        .filter(|pack| is_wanted(pack) && pack.is_usable())
        .collect();
    let total = match phase {
        Phase::FindingPackedCommits => packs.iter().map(|pack| u64::from(pack.len())).sum(),
        _ => 0,
    };
    let mut done = 0;
    progress.report(phase, done, total);
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for pack in packs {
        // As stored: the first of them are the first to get a changed-path filter.
        let reverse = pack.reverse();
        for position in (0..pack.len()).map(|position| reverse.index_position_at(position)) {
            done += 1;
            if done % BETWEEN_LOOKS == 0 {
                progress.report(phase, done, total);
            }
            let id = pack.index().id_at(position).to_owned();
            if history.kind(&id)? == Some(Kind::Commit) && seen.insert(id) {
                found.push(id);
            }
        }
    }
    progress.report(phase, done, total);
    Ok(found)
}

/// The commits of a commit-graph from a position on. As in git, those that have expired since are dropped.
fn present_from<D: AsRef<[u8]>>(
    graph: &CommitGraph<D>,
    start: u32,
    request_objects: &RequestObjects,
) -> Result<Vec<ObjectId>, Error> {
    let mut present = Vec::new();
    for id in (start..graph.len()).map(|position| graph.id_at(position)) {
        if request_objects.contains(id)? {
            present.push(id.to_owned());
        }
    }
    Ok(present)
}

/// The first of these objects that is a tag of what is missing, and that error.
pub fn first_dangling(
    request_objects: &RequestObjects,
    ids: &[ObjectId],
) -> Result<Option<(ObjectId, Error)>, Error> {
    let mut history = CommitReader::new(request_objects);
    for id in ids {
        match history.peel_to_any(*id) {
            Err(error) if error.is_missing_target() => return Ok(Some((*id, error))),
            peeled => drop(peeled?),
        }
    }
    Ok(None)
}

/// Makes a commit-graph file; `None` if there is nothing to write. `present` are the existing files, base
/// first.
pub fn make<D: AsRef<[u8]> + Clone + Sync>(
    request_objects: &RequestObjects,
    present: &[D],
    request: &GraphRequest,
    progress: &dyn ProgressSink,
) -> Result<Option<NewGraph>, GraphError> {
    let hash = request_objects.hash();
    let open = |files: &[D]| match files {
        [] => None,
        files => CommitGraph::open(files.iter().cloned(), hash).ok(),
    };
    let graph = open(present);
    let filter_faults = graph.iter().flat_map(CommitGraph::filter_faults);
    filter_faults.for_each(|fault| tracing::warn!("{fault}"));
    let builds_on = matches!(request.split, Split::Merge(_) | Split::NoMerge);
    let below = graph.as_ref().filter(|_| builds_on);
    let mut history = CommitReader::new(request_objects);
    let mut tips = Vec::new();
    for tip in &request.tips {
        tips.extend(history.peel(*tip)?);
    }
    if let (true, Some(graph)) = (request.append, &graph) {
        tips.extend(present_from(graph, 0, request_objects)?);
    }
    let mut commits = Commits::new(hash);
    let is_known = |id: &ObjectId| below.is_some_and(|below| below.position_of(id).is_some());
    let mut found = 0;
    progress.report(Phase::ExpandingCommits, found, 0);
    history.closure(tips, is_known, |id, commit| {
        found += 1;
        if found % BETWEEN_LOOKS == 0 {
            progress.report(Phase::ExpandingCommits, found, 0);
        }
        let seconds = u64::try_from(commit.committer_seconds).unwrap_or(0);
        commits.push(id, commit.tree, commit.parents, seconds);
    })?;
    progress.report(Phase::ExpandingCommits, found, 0);
    if commits.is_empty() && request.split != Split::Replace {
        return Ok(None);
    }
    let layers = below.map_or_else(Vec::new, CommitGraph::layer_lens);
    let new = u32::try_from(commits.len()).map_err(|_| GraphWriteError::TooManyCommits)?;
    let kept_layers = match request.split {
        Split::Merge(merging) => layers_to_keep(&layers, request.foreign_layers, new, merging)?,
        _ => layers.len(),
    };
    let base = open(&present[..kept_layers]);
    if let Some(below) = below {
        let merged_from = layers[..kept_layers].iter().sum();
        for id in present_from(below, merged_from, request_objects)? {
            let commit = history.commit(&id)?;
            let seconds = u64::try_from(commit.committer_seconds).unwrap_or(0);
            commits.push(id, commit.tree, commit.parents, seconds);
        }
    }
    let commits = commits.arrange(base.as_ref(), request.generations)?;
    let filters = path_filters::compute(
        request_objects,
        &request.filters,
        &request.tips,
        &commits,
        graph.as_ref(),
        progress,
    )?;
    let (filters, counts) = filters.unzip();
    Ok(Some(NewGraph { bytes: commits.write(filters.as_ref()), kept_layers, filters: counts }))
}
