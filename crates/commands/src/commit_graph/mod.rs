//! `git commit-graph`: writes and verifies commit-graphs.

mod damage;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use packrace_format::commit_graph::{CommitGraph as Graph, Merging};
use packrace_maintenance::commit_graphs::{self, FilterWriting, GraphWriting};
use packrace_object::{HashKind, ObjectId};
use packrace_os::process::available_threads;
use packrace_os::trace::{self, TraceStep};
use packrace_pack::maintain::commit_graph::{Split, packed_commits};
use packrace_pack::maintain::verify_graph::verify_commits;
use packrace_pack::{Phase, ProgressSink as _, RequestObjects, Settings};
use packrace_store::expiry::expiry;
use packrace_store::{GraphExpiry, GraphFiles, Mapped, Repository};

use crate::call::Call;
use crate::call::discovery::repository_as_it_is;
use crate::call::fatal::Fatal;
use crate::options::{CommitGraphOptions, CommitGraphVerifyOptions, CommitGraphWriteOptions};
use crate::progress::{self, Progress};
use crate::work_tree::path_from_top;

/// Exit code of `verify` when commits are wrong, or files of the chain are missing.
const WRONG: u8 = 1;

/// Exit code of `verify` when only a checksum is wrong. With missing files, the two are added.
const WRONG_CHECKSUM: u8 = 2;

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
            self::verify(call, &repository, verify, object_dir.as_deref(), &progress)
        }
    }
}

fn object_dir_of(
    repository: &Repository,
    call: &Call,
    typed: Option<&Path>,
) -> Result<Option<PathBuf>, Fatal> {
    typed.map(|path| path_from_top(repository, call, path)).transpose()
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
        let number = |number: i64| u32::try_from(number.max(0)).unwrap_or(u32::MAX);
        let merging =
            Merging { size_multiple: number(args.size_multiple), max_commits: number(args.max_commits) };
        let split = match args.split.as_deref() {
            None => Split::Single,
            Some("") => Split::Merge(merging),
            Some("no-merge") => Split::NoMerge,
            Some("replace") => Split::Replace,
            Some(other) => return Err(Fatal::new(format!("unrecognized --split argument, {other}"))),
        };
        let now = SystemTime::now();
        let before = match &args.expire_time {
            None => now,
            Some(text) => {
                let seconds = expiry(text);
                let seconds =
                    seconds.ok_or_else(|| Fatal::new(format!("malformed expiration date '{text}'")))?;
                let seconds = u64::try_from(seconds).unwrap_or(0);
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
        if !config.boolean("core.commitGraph")?.unwrap_or(true) {
            let text = "warning: attempting to write a commit-graph, but 'core.commitGraph' is disabled";
            error_line!(call, "{text}");
            return Ok(());
        }
        let request_objects = Arc::new(RequestObjects::new(repository.snapshot()?));
        if !commit_graphs::is_possible(repository, &request_objects) {
            return Ok(());
        }
        let tips = self.tips(call, repository, &request_objects, progress)?;
        let Plan { split, append, expiry, changed_paths, max_new_filters, .. } = *self;
        let filters = FilterWriting {
            wanted: changed_paths,
            max_new: max_new_filters,
            in_order_of_tips: matches!(self.source, CommitSource::StdinPacks | CommitSource::AllPacks),
            threads: Settings::threads(config, available_threads())?,
            fresh: call.environment.history.fresh_filters,
        };
        let writing = GraphWriting { split, append, expiry, filters };
        commit_graphs::write(repository, &request_objects, object_dir, tips, writing, progress)?;
        progress.finish();
        Ok(())
    }

    fn tips(
        &self,
        call: &Call,
        repository: &Repository,
        request_objects: &RequestObjects,
        progress: &Progress,
    ) -> Result<Vec<ObjectId>, Fatal> {
        match self.source {
            CommitSource::Refs => Ok(commit_graphs::ref_tips(repository, request_objects, progress)?),
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
                progress.report(Phase::CollectingInput, ids.len() as u64, 0);
                Ok(ids)
            }
            CommitSource::StdinPacks => {
                let names = call.streams.input_lines().map_err(Fatal::new)?;
                for name in &names {
                    let stem = name.strip_suffix(".idx");
                    let mut packs = request_objects.snapshot().packs().iter();
                    if !packs.any(|pack| Some(pack.name()) == stem) {
                        let path = repository.object_dir().join("pack").join(name);
                        return Err(Fatal::error(format!("error adding pack {}", path.display())));
                    }
                }
                let is_named = |pack: &packrace_store::Pack| {
                    names.iter().any(|name| name.strip_suffix(".idx") == Some(pack.name()))
                };
                let phase = Phase::FindingCommits { packs: names.len() };
                Ok(packed_commits(request_objects, is_named, phase, progress)?)
            }
            CommitSource::AllPacks => {
                Ok(packed_commits(request_objects, |_| true, Phase::FindingPackedCommits, progress)?)
            }
        }
    }
}

fn verify(
    call: &Call,
    repository: &Repository,
    args: &CommitGraphVerifyOptions,
    object_dir: Option<&Path>,
    progress: &Progress,
) -> Result<(), Fatal> {
    let files = GraphFiles::open(repository, object_dir)?;
    let layers = files.layers();
    if files.is_cut_off() {
        let path = files.path();
        let words = format!("could not open commit-graph chain '{}': Invalid argument", path.display());
        return Err(Fatal::new(words));
    }
    if layers.is_empty() {
        return match files.is_complete() {
            true => Ok(()),
            // A warning said why.
            false => Err(Fatal::silent(1)),
        };
    }
    let hash = repository.hash_kind();
    let graph = Graph::open(layers.iter().cloned(), hash)
        .map_err(|error| Fatal::error(said(layers, &error, hash)))?;
    graph.filter_faults().iter().for_each(|fault| error_line!(call, "warning: {fault}"));
    let request_objects = RequestObjects::new(repository.snapshot()?);
    let lens = graph.layer_lens();
    let first = if args.shallow { lens.len() - 1 } else { files.foreign_layers() };
    let start: u32 = lens[..first].iter().sum();
    let mut is_flipped = false;
    for count in first + 1..=lens.len() {
        let part = Graph::open(layers[..count].iter().cloned(), hash).map_err(Fatal::error)?;
        if part.verify_last_checksum().is_err() {
            error_line!(call, "the commit-graph file has incorrect checksum and is likely corrupt");
            is_flipped = true;
        }
    }
    let mut is_wrong = false;
    let mut report = |text: String| {
        is_wrong = true;
        progress.stop();
        error_line!(call, "{text}");
    };
    verify_commits(&request_objects, &graph, start, &mut report, progress)?;
    progress.finish();
    let mut code = match (is_wrong, is_flipped) {
        (true, _) => WRONG,
        (false, true) => WRONG_CHECKSUM,
        (false, false) => 0,
    };
    if !files.is_complete() {
        error_line!(call, "error: one or more commit-graph chain files could not be loaded");
        code |= WRONG;
    }
    if code == 0 { Ok(()) } else { Err(Fatal::silent(code)) }
}

/// Why the first unreadable file cannot be opened, in git's words where it has some.
fn said(layers: &[Mapped], error: &packrace_format::Error, hash: HashKind) -> String {
    let wrong = (1..=layers.len()).find(|count| Graph::open(layers[..*count].iter().cloned(), hash).is_err());
    let bytes: &[u8] = wrong.map_or(&[], |count| &layers[count - 1]);
    damage::check(bytes, hash).err().unwrap_or_else(|| error.to_string())
}
