//! Writes a repository's commit-graph (git-commit-graph, "write").

use std::ops::ControlFlow;
use std::path::Path;

use packrace_format::commit_graph::{FilterSettings, Generations, PathHash};
use packrace_object::ObjectId;
use packrace_os::trace::{self, TraceRegion};
use packrace_pack::maintain::commit_graph::{
    FilterCounts, FilterRequest, FreshFilters, GraphRequest, Split, make,
};
use packrace_pack::{Phase, ProgressSink, RequestObjects, Settings};
use packrace_store::refs::Target;
use packrace_store::{Config, GraphExpiry, GraphFiles, Mapped, Repository, SkippedRefs};

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
    /// The changed-path filters.
    pub filters: FilterWriting,
}

/// How changed-path filters are written, as far as the configuration does not say.
#[derive(Debug, Clone, Copy)]
pub struct FilterWriting {
    /// Whether there are filters; `None`: as configured, or if the current commit-graph has them.
    pub wanted: Option<bool>,
    /// How many are computed at most; negative: no limit; `None`: as configured.
    pub max_new: Option<i64>,
    /// Whether the first tips are the first commits that get filters; otherwise the oldest commits.
    pub in_order_of_tips: bool,
    /// Threads that compare trees.
    pub threads: usize,
    /// Settings of filters where there are none yet.
    pub fresh: FreshFilters,
}

/// The existing targets of refs; dangling refs are reported elsewhere.
pub fn ref_tips(
    repository: &Repository,
    request_objects: &RequestObjects,
    progress: &dyn ProgressSink,
) -> Result<Vec<ObjectId>, Error> {
    progress.report(Phase::CollectingReferenced, 0, 0);
    let mut tips = Vec::new();
    let mut skipped = SkippedRefs::of(repository)?;
    let mut result = Ok(());
    let refs = repository.refs().snapshot(&[])?;
    refs.visit(b"refs/", &mut |record| {
        let Target::Direct { id, .. } = record.target else { return ControlFlow::Continue(()) };
        match skipped.has(record.name, &id) {
            Ok(true) => {}
            Ok(false) => tips.push(id),
            Err(error) => {
                result = Err(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    result?;
    tips.retain(|tip| request_objects.contains(tip).unwrap_or(true));
    progress.report(Phase::CollectingReferenced, tips.len() as u64, 0);
    Ok(tips)
}

/// Whether commit-graphs are read, so that maintenance writes one (`core.commitGraph`).
pub fn is_on(repository: &Repository) -> Result<bool, Error> {
    Ok(repository.config().boolean("core.commitGraph")?.unwrap_or(true))
}

/// Whether a commit-graph can be written: it must not record parents that differ from those in the commits
/// (git-commit-graph, "CAVEATS").
pub fn is_possible(repository: &Repository, request_objects: &RequestObjects) -> Result<bool, Error> {
    Ok(request_objects.snapshot().shallow()?.is_empty() && !repository.has_grafts())
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
    let Some(filters) = filters(repository.config(), writing.filters)? else { return Ok(()) };
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
        filters,
    };
    let Some(new) = make(request_objects, present, &request, progress)? else { return Ok(()) };
    let _region = trace_filters(new.filters.as_ref());
    match for_chain {
        true => files.replace_by_chain(lock, &new.bytes, new.kept_layers, writing.expiry)?,
        false => files.replace_by_single(lock, &new.bytes, writing.expiry)?,
    }
    Ok(())
}

/// Tells what was done for filters. The region ends with the result.
fn trace_filters(filters: Option<&FilterCounts>) -> Option<TraceRegion> {
    if let Some(FilterCounts { computed, not_computed, empty, large, upgraded, .. }) = filters {
        trace::data("commit-graph", "filter-computed", computed);
        trace::data("commit-graph", "filter-not-computed", not_computed);
        trace::data("commit-graph", "filter-trunc-empty", empty);
        trace::data("commit-graph", "filter-trunc-large", large);
        trace::data("commit-graph", "filter-upgraded", upgraded);
    }
    let region = trace::region("chunkfile", "write");
    if let Some(FilterCounts { settings, max_paths, .. }) = filters {
        trace::data_json("bloom", "settings", || {
            let FilterSettings { hash, hashes, bits } = settings;
            let version = hash.version();
            format!(
                r#"{{"hash_version":{version},"num_hashes":{hashes},"bits_per_entry":{bits},"max_changed_paths":{max_paths}}}"#
            )
        });
    }
    region
}

fn generations(config: &Config) -> Result<Generations, Error> {
    Ok(match config.integer("commitGraph.generationVersion")?.unwrap_or(2) {
        2 => Generations::CorrectedDate,
        _ => Generations::TopologicalLevel,
    })
}

/// `None`, with a warning, if the configured version is unknown: git writes nothing then.
fn filters(config: &Config, writing: FilterWriting) -> Result<Option<FilterRequest>, Error> {
    let reads = config.boolean("commitGraph.readChangedPaths")?.unwrap_or(true);
    let version = config.integer("commitGraph.changedPathsVersion")?.unwrap_or(if reads { -1 } else { 0 });
    let hash = match version {
        -1 => None,
        0 | 1 => Some(PathHash::SignedBytes),
        2 => Some(PathHash::Murmur3),
        _ => {
            let key = "commitGraph.changedPathsVersion";
            tracing::warn!("attempting to write a commit-graph, but '{key}' ({version}) is not supported");
            return Ok(None);
        }
    };
    let configured = config.boolean("commitGraph.changedPaths")?.filter(|wanted| *wanted);
    let max_new = config.integer("commitGraph.maxNewFilters")?;
    Ok(Some(FilterRequest {
        wanted: writing.wanted.or(configured),
        hash,
        fresh: writing.fresh,
        uses_present: version != 0,
        // A negative number is no limit.
        max_new: writing.max_new.or(max_new).and_then(|max| u64::try_from(max).ok()),
        in_order_of_tips: writing.in_order_of_tips,
        threads: writing.threads,
        max_tree_depth: Settings::max_tree_depth(config)?,
    }))
}
