//! Writes a repository's commit-graph (git-commit-graph, "write").

use std::ops::ControlFlow;
use std::path::Path;

use packrace_format::commit_graph::Generations;
use packrace_object::ObjectId;
use packrace_pack::maintain::commit_graph::{GraphRequest, Split, make};
use packrace_pack::{Phase, ProgressSink, RequestObjects};
use packrace_store::refs::Target;
use packrace_store::{Config, GraphExpiry, GraphFiles, Mapped, Repository};

use crate::error::Error;

/// How a commit-graph is written.
#[derive(Debug, Clone, Copy)]
pub struct GraphWriting {
    /// As one file, or as a chain.
    pub split: Split,
    /// Whether every commit of the current one is kept.
    pub append: bool,
    /// When files outside the chain are removed.
    pub expiry: GraphExpiry,
}

/// The existing targets of refs; dangling refs are reported elsewhere.
pub fn ref_tips(
    repository: &Repository,
    request_objects: &RequestObjects,
    progress: &dyn ProgressSink,
) -> Result<Vec<ObjectId>, Error> {
    progress.report(Phase::CollectingReferenced, 0, 0);
    let mut tips = Vec::new();
    let refs = repository.refs().snapshot(&[])?;
    refs.visit(b"refs/", &mut |record| {
        if let Target::Direct { id, .. } = record.target {
            tips.push(id);
        }
        ControlFlow::Continue(())
    })?;
    tips.retain(|tip| request_objects.contains(tip).unwrap_or(true));
    progress.report(Phase::CollectingReferenced, tips.len() as u64, 0);
    Ok(tips)
}

/// Whether a commit-graph can be written: it must not record parents that differ from those in the commits
/// (git-commit-graph, "CAVEATS").
pub fn is_possible(repository: &Repository, request_objects: &RequestObjects) -> bool {
    request_objects.snapshot().shallow().is_empty() && !repository.has_grafts()
}

/// Writes everything reachable from `tips`, in `object_dir`, which the repository uses, or in its own.
pub fn write(
    repository: &Repository,
    request_objects: &RequestObjects,
    object_dir: Option<&Path>,
    tips: Vec<ObjectId>,
    writing: GraphWriting,
    progress: &dyn ProgressSink,
) -> Result<(), Error> {
    let for_chain = writing.split != Split::Single;
    let lock = GraphFiles::open(repository, object_dir)?.lock(for_chain)?;
    // Reread now that no other process changes it.
    let files = GraphFiles::open(repository, object_dir)?;
    let is_usable = files.is_complete() && !files.layers().is_empty();
    let present: &[Mapped] = if is_usable { files.layers() } else { &[] };
    let request = GraphRequest {
        tips,
        append: writing.append,
        split: writing.split,
        foreign_layers: files.foreign_layers(),
        generations: generations(repository.config())?,
    };
    let Some(new) = make(request_objects, present, &request, progress)? else { return Ok(()) };
    match for_chain {
        true => files.replace_by_chain(lock, &new.bytes, new.kept_layers, writing.expiry)?,
        false => files.replace_by_single(lock, &new.bytes, writing.expiry)?,
    }
    Ok(())
}

fn generations(config: &Config) -> Result<Generations, Error> {
    Ok(match config.integer("commitGraph.generationVersion")?.unwrap_or(2) {
        2 => Generations::CorrectedDate,
        _ => Generations::TopologicalLevel,
    })
}
