//! `git commit-graph`: writes and verifies commit-graphs.

mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use packrace_format::commit_graph::Merging;
use packrace_maintenance::commit_graphs::{self, FilterWriting, GraphWriting};
use packrace_object::ObjectId;
use packrace_os::process::available_threads;
use packrace_os::trace::{self, TraceStep};
use packrace_pack::maintain::commit_graph::{Split, first_dangling, packed_commits};
use packrace_pack::{Phase, ProgressSink as _, RequestObjects, Settings};
use packrace_store::expiry::expiry;
use packrace_store::{GraphExpiry, GraphFiles, Repository};

use crate::call::Call;
use crate::call::discovery::repository_as_it_is;
use crate::call::fatal::Fatal;
use crate::options::{CommitGraphOptions, CommitGraphWriteOptions};
use crate::progress::{self, Progress};
use crate::work_tree::{shown_object_dir, typed_object_dir};

/// Implements `git commit-graph`.
pub fn run(call: &Call, args: &CommitGraphOptions) -> Result<(), Fatal> {
    match args {
        CommitGraphOptions::Write(write) => {
            trace::tell(TraceStep::Mode("write"));
            // Option errors are reported before the repository is opened.
            let plan = Plan::of(write)?;
            let repository = repository_as_it_is(call)?;
            let object_dir = object_dir_of(&repository, call, write.object_dir.as_deref())?;
            let progress = Progress::new(progress::is_wanted(call, write.progress), call)?;
            plan.write(call, &repository, object_dir.as_deref(), &progress)
        }
        CommitGraphOptions::Verify(verify) => {
            trace::tell(TraceStep::Mode("verify"));
            let repository = repository_as_it_is(call)?;
            let object_dir = object_dir_of(&repository, call, verify.object_dir.as_deref())?;
            let progress = Progress::new(progress::is_wanted(call, verify.progress), call)?;
            verify::verify(call, &repository, verify, object_dir.as_deref(), &progress)
        }
    }
}

fn object_dir_of(
    repository: &Repository,
    call: &Call,
    typed: Option<&Path>,
) -> Result<Option<PathBuf>, Fatal> {
    typed.map(|path| typed_object_dir(repository, call, path)).transpose()
}

enum CommitSource {
    Refs,
    StdinCommits,
    StdinPacks,
    AllPacks,
}

/// What `write` was asked to do.
struct Plan {
    source: CommitSource,
    split: Split,
    append: bool,
    expiry: GraphExpiry,
    changed_paths: Option<bool>,
    max_new_filters: Option<i64>,
}

impl Plan {
    fn of(args: &CommitGraphWriteOptions) -> Result<Self, Fatal> {
        let source = match (args.reachable, args.stdin_commits, args.stdin_packs) {
            (false, false, false) => CommitSource::AllPacks,
            (true, false, false) => CommitSource::Refs,
            (false, true, false) => CommitSource::StdinCommits,
            (false, false, true) => CommitSource::StdinPacks,
            _ => {
                let text = "use at most one of --reachable, --stdin-commits, or --stdin-packs";
                return Err(Fatal::new(text));
            }
        };
        let size_multiple = match args.size_multiple {
            0 => Merging::default().size_multiple,
            // As in git, a negative one is a large one.
            multiple => multiple.cast_unsigned(),
        };
        let max_commits = u32::try_from(args.max_commits.max(0)).unwrap_or(u32::MAX);
        let merging = Merging { size_multiple, max_commits };
        let split = match args.split.as_ref().map(Option::as_deref) {
            None => Split::Single,
            Some(None) => Split::Merge(merging),
            Some(Some(name)) => named_split(name)?,
        };
        let now = SystemTime::now();
        let before = match &args.expire_time {
            None => now,
            Some(text) => {
                let seconds = u64::try_from(expiry_time(text)?).unwrap_or(0);
                SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(now)
            }
        };
        Ok(Plan {
            source,
            split,
            append: args.append,
            expiry: GraphExpiry { now, before },
            changed_paths: args.changed_paths,
            max_new_filters: args.max_new_filters,
        })
    }

    fn write(
        &self,
        call: &Call,
        repository: &Repository,
        object_dir: Option<&Path>,
        progress: &Progress,
    ) -> Result<(), Fatal> {
        let config = repository.config();
        // Opened even if nothing is written: it may name a directory that does not exist.
        GraphFiles::open(repository, object_dir)?;
        let request_objects = Arc::new(RequestObjects::new(repository.snapshot()?));
        // As in git, refs and commits are read even if nothing is written, and packs are not.
        let named = self.named_tips(call, repository, &request_objects, progress)?;
        if named.is_some() {
            progress.finish();
        }
        if !config.boolean("core.commitGraph")?.unwrap_or(true) {
            let text = "warning: attempting to write a commit-graph, but 'core.commitGraph' is disabled";
            error_line!(call, "{text}");
            return Ok(());
        }
        if !commit_graphs::is_possible(repository, &request_objects)? {
            return Ok(());
        }
        let tips = match named {
            Some(tips) => tips,
            None => self.packed_tips(call, repository, &request_objects, progress)?,
        };
        let Plan { split, append, expiry, changed_paths, max_new_filters, .. } = *self;
        let filters = FilterWriting {
            wanted: changed_paths,
            max_new: max_new_filters,
            in_order_of_tips: matches!(self.source, CommitSource::StdinPacks | CommitSource::AllPacks),
            // As in git, a wrong number does no harm here.
            threads: Settings::threads(config, available_threads()).unwrap_or(1),
            fresh: call.environment.history.fresh_filters,
        };
        let writing = GraphWriting { split, append, expiry, filters };
        commit_graphs::write(repository, &request_objects, object_dir, tips, writing, progress)?;
        progress.finish();
        Ok(())
    }

    /// The targets of refs, or the commits from standard input; `None` if packs have the commits.
    fn named_tips(
        &self,
        call: &Call,
        repository: &Repository,
        request_objects: &RequestObjects,
        progress: &Progress,
    ) -> Result<Option<Vec<ObjectId>>, Fatal> {
        match self.source {
            CommitSource::Refs => {
                call.environment.booleans.check(&["GIT_REF_PARANOIA"])?;
                repository.config().need_values(&["core.logAllRefUpdates"])?;
                Ok(Some(commit_graphs::ref_tips(repository, request_objects, progress)?))
            }
            CommitSource::StdinCommits => {
                progress.report(Phase::CollectingInput, 0, 0);
                let ids = call.streams.input_lines().map_err(Fatal::new)?.into_iter().map(|line| {
                    let hex = line.split(' ').next().unwrap_or_default();
                    let id = ObjectId::from_hex(hex.as_bytes()).ok();
                    let id = id.filter(|id| id.kind() == repository.hash_kind());
                    let id =
                        id.ok_or_else(|| Fatal::error(format!("unexpected non-hex object ID: {line}")))?;
                    if !request_objects.contains(&id)? {
                        return Err(Fatal::error(format!("invalid object: {id}")));
                    }
                    Ok(id)
                });
                let ids: Vec<ObjectId> = ids.collect::<Result<_, Fatal>>()?;
                if let Some((tag, _)) = first_dangling(request_objects, &ids)? {
                    return Err(Fatal::error(format!("invalid object: {tag}")));
                }
                progress.report(Phase::CollectingInput, ids.len() as u64, 0);
                Ok(Some(ids))
            }
            CommitSource::StdinPacks | CommitSource::AllPacks => Ok(None),
        }
    }

    /// The commits of all packs, or of those that standard input names.
    fn packed_tips(
        &self,
        call: &Call,
        repository: &Repository,
        request_objects: &RequestObjects,
        progress: &Progress,
    ) -> Result<Vec<ObjectId>, Fatal> {
        if !matches!(self.source, CommitSource::StdinPacks) {
            return Ok(packed_commits(request_objects, |_| true, Phase::FindingPackedCommits, progress)?);
        }
        let names = call.streams.input_lines().map_err(Fatal::new)?;
        for name in &names {
            let stem = name.strip_suffix(".idx");
            let mut packs = request_objects.snapshot().packs().iter();
            if !packs.any(|pack| Some(pack.name()) == stem) {
                let path = shown_object_dir(repository, call).join("pack").join(name);
                return Err(Fatal::error(format!("error adding pack {}", path.display())));
            }
        }
        let is_named = |pack: &packrace_store::Pack| {
            names.iter().any(|name| name.strip_suffix(".idx") == Some(pack.name()))
        };
        let phase = Phase::FindingCommits { packs: names.len() };
        Ok(packed_commits(request_objects, is_named, phase, progress)?)
    }
}

/// What a named strategy does with a chain.
pub(crate) fn named_split(name: &str) -> Result<Split, Fatal> {
    match name {
        "no-merge" => Ok(Split::NoMerge),
        "replace" => Ok(Split::Replace),
        other => Err(Fatal::new(format!("unrecognized --split argument, {other}"))),
    }
}

/// The time in seconds before which files that belong to no chain expire.
pub(crate) fn expiry_time(text: &str) -> Result<i64, Fatal> {
    expiry(text).ok_or_else(|| Fatal::new(format!("malformed expiration date '{text}'")))
}
