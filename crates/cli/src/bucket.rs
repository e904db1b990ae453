//! `packrace bucket`: manages repositories in a bucket.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_commands::options::{GlobalOptions, RepackOptions};
use packrace_commands::{Call, Environment, Fatal, Streams, harmless, in_directory, init, repack};
use packrace_os::count::Role;
use packrace_os::durable;
use packrace_remote::bucket::s3::{S3, S3Options};
use packrace_remote::bucket::{Bucket, aws_files};
use packrace_remote::cache::{self, Cache};
use packrace_remote::commit::Committer;
use packrace_remote::probe::{ProbeOptions, mark, probe, require};
use packrace_remote::repository::{LocalRepository, allowed_setting, create, list};
use packrace_remote::upkeep::{self, Collected, FoldOutcome, Grace, PreparedFold};
use packrace_remote::{BucketName, BucketUrl, Error, ErrorKind};
use packrace_store::init::{Begun, InitOptions};
use packrace_store::refs::{Backend, LogPolicy, Migration, RefWrites, StoredObjects};
use packrace_store::{OpenOptions, Repository, needs_quotes, quote};

use crate::args::{self, BucketCheck, BucketCollect, BucketCommand, BucketExport, BucketFold, BucketImport};
use crate::process;

/// Settings about storage, for which a head has fields of its own.
const STORAGE_SETTINGS: [&str; 7] = [
    "core.bare",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.repositoryformatversion",
    "core.symlinks",
    "core.worktree",
];

/// Runs `packrace bucket`.
pub fn run(call: &Call, args: &args::Bucket) -> Result<(), Fatal> {
    match &args.command {
        BucketCommand::Check(args) => check(call, args),
        BucketCommand::Import(args) => import(call, args),
        BucketCommand::Export(args) => export(call, args),
        BucketCommand::Fold(args) => fold(call, args),
        BucketCommand::Collect(args) => collect(call, args),
        BucketCommand::List(args) => {
            let mut printed = Ok(());
            list(&opened(call, &args.bucket)?, &mut |name| {
                printed = line(call, &harmless(name.as_str()));
                if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
            .map_err(fatal)?;
            printed
        }
    }
}

fn opened(call: &Call, url: &BucketUrl) -> Result<Bucket, Fatal> {
    opened_at(call, url).map(|(bucket, _)| bucket)
}

/// The same with its address.
fn opened_at(call: &Call, url: &BucketUrl) -> Result<(Bucket, String), Fatal> {
    let home = call.environment.home().map(PathBuf::as_path);
    let variables = aws_files::with_files(process::aws_variables(), home).map_err(fatal)?;
    let options = S3Options { url: url.clone(), variables };
    Ok((Bucket::new(Arc::new(S3::new(&options).map_err(fatal)?)), options.address()))
}

/// The error of a command; exit code 1 means "no".
fn fatal(error: Error) -> Fatal {
    match error.kind() {
        ErrorKind::Absent | ErrorKind::Taken => Fatal::error(harmless(&error.to_string())),
        _ => Fatal::new(harmless(&error.to_string())),
    }
}

fn line(call: &Call, text: &str) -> Result<(), Fatal> {
    call.streams.write(format!("{text}\n").as_bytes())
}

fn check(call: &Call, args: &BucketCheck) -> Result<(), Fatal> {
    let options = ProbeOptions { writers: args.writers.clamp(1, 256), rounds: args.rounds.max(1) };
    let mut printed = Ok(());
    let (bucket, address) = opened_at(call, &args.bucket)?;
    let is_good = probe(&bucket, &options, &mut |found| {
        let text = match &found.result {
            Ok(words) if words.is_empty() => format!("ok: {}", found.promise),
            Ok(words) => format!("ok: {} ({words})", found.promise),
            Err(why) => format!("failed: {}: {}", found.promise, harmless(why)),
        };
        if printed.is_ok() {
            printed = line(call, &text);
        }
    })
    .map_err(fatal)?;
    // A weaker check than the usual one proves too little to skip it at the start of a server.
    let ProbeOptions { writers, rounds } = ProbeOptions::default();
    if !is_good || options.writers >= writers && options.rounds >= rounds {
        mark(&bucket, &address, is_good).map_err(fatal)?;
    }
    printed?;
    match is_good {
        true => Ok(()),
        false => Err(Fatal::error(format!("{} is not suitable for repositories", args.bucket))),
    }
}

/// A directory that is removed on drop.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn new(dir: &Path, prefix: &str) -> Result<Self, Fatal> {
        let made = durable::make_temporary_dir(dir, prefix, Role::Config);
        made.map(ScratchFolder).map_err(|error| Fatal::new(format!("{}: {error}", dir.display())))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // The error cannot be reported, and a leftover is harmless.
        let _ = durable::remove_tree(&self.0, Role::Config);
    }
}

fn import(call: &Call, args: &BucketImport) -> Result<(), Fatal> {
    let name = BucketName::new(&args.name).map_err(fatal)?;
    let (bucket, address) = opened_at(call, &args.bucket)?;
    let source = Repository::open(&in_directory(call, &args.directory)?, &call.open_options()?)?;
    refuse_odd(&source)?;
    let config = taken_settings(&source);
    tell_what_stays(&source);
    let begins = || eprint_line!("bucket has not been probed at this address yet: probing it");
    require(&bucket, &address, begins).map_err(fatal)?;
    let scratch = ScratchFolder::new(&call.environment.temporary_dir, "packrace-import-")?;
    let git_dir = scratch.0.join("import.git");
    one_pack(call, &source, &git_dir)?;
    let local = LocalRepository { git_dir: &git_dir, hash: source.hash_kind(), config };
    create(&bucket, &name, &local).map_err(fatal)?;
    line(call, &harmless(name.as_str()))
}

/// Refuses a repository that a head cannot describe.
fn refuse_odd(source: &Repository) -> Result<(), Fatal> {
    let shown = source.git_dir().display();
    let shallow = packrace_os::identity(&source.common_dir().join("shallow"), Role::Config);
    if shallow.ok().flatten().is_some_and(|file| file.length > 0) {
        return Err(Fatal::new(format!("{shown}: repository is shallow; run git fetch --unshallow first")));
    }
    if source.has_grafts() {
        return Err(Fatal::new(format!(
            "{shown}: repository has info/grafts; run git replace --convert-graft-file first"
        )));
    }
    if source.config().string("extensions.partialClone").is_some() {
        return Err(Fatal::new(format!(
            "{shown}: repository is a partial clone; fetch the missing objects first"
        )));
    }
    Ok(())
}

/// The settings that the head keeps.
fn taken_settings(source: &Repository) -> Vec<(Vec<u8>, Vec<u8>)> {
    let own = source.config().own_entries();
    let taken = own.filter(|(name, _)| allowed_setting(name));
    taken.map(|(name, value)| (name.to_vec(), value.unwrap_or(b"true").to_vec())).collect()
}

/// Warns about everything that is not imported.
fn tell_what_stays(source: &Repository) {
    let own = source.config().own_entries().map(|(name, _)| name);
    let left = own.filter(|name| {
        let is_storage = STORAGE_SETTINGS.iter().any(|other| other.as_bytes() == *name);
        !allowed_setting(name) && !is_storage && !name.starts_with(b"extensions.")
    });
    let mut left: Vec<String> = left.map(|name| name.escape_ascii().to_string()).collect();
    left.dedup();
    if !left.is_empty() {
        eprint_line!("warning: settings not imported: {}", left.join(", "));
    }
    if source.refs().logged_names().is_ok_and(|names| !names.is_empty()) {
        eprint_line!("warning: reflogs not imported");
    }
    let is_sample = |name: &std::ffi::OsStr| name.as_encoded_bytes().ends_with(b".sample");
    let hooks = packrace_os::list_dir(&source.common_dir().join("hooks"), Role::Config);
    if hooks.is_ok_and(|hooks| hooks.iter().any(|hook| !is_sample(&hook.name))) {
        eprint_line!("warning: hooks not imported; use serve.hooks for hooks of all repositories");
    }
    let work_trees = packrace_os::list_dir(&source.common_dir().join("worktrees"), Role::Config);
    if work_trees.is_ok_and(|found| !found.is_empty()) {
        eprint_line!("warning: refs of linked work trees not imported");
    }
}

/// Makes a bare repository with reftables and one pack, with everything that the source's refs reach.
fn one_pack(call: &Call, source: &Repository, git_dir: &Path) -> Result<(), Fatal> {
    let (options, head) = init::bare_prototype(call, Some("reftable"))?;
    let options = InitOptions { git_dir: git_dir.to_owned(), hash: Some(source.hash_kind()), ..options };
    Begun::begin(options)?.finish(&head)?;
    let objects = packrace_os::real_path(source.object_dir()).map_err(Fatal::new)?;
    let objects = objects.as_os_str().as_encoded_bytes();
    let alternates = git_dir.join("objects/info/alternates");
    let mut text = Vec::new();
    match needs_quotes(objects, false) {
        true => quote(objects, false, &mut text),
        false => text.extend_from_slice(objects),
    }
    text.push(b'\n');
    packrace_os::write_file(&alternates, &text).map_err(Fatal::new)?;
    let made = Repository::open(git_dir, &OpenOptions { strict: true, ..OpenOptions::default() })?;
    let hash = made.hash_kind();
    let writes = RefWrites { log: LogPolicy::Never, ..RefWrites::of(made.config(), hash, true, Vec::new())? };
    let mut objects = StoredObjects::new(&made.snapshot()?);
    source.refs().copy_all(made.refs(), &writes, &mut objects).map_err(Fatal::new)?;
    let args = RepackOptions {
        all: true,
        delete: true,
        quiet: true,
        no_update_server_info: true,
        ..RepackOptions::default()
    };
    repack::run(&for_repository(call, git_dir), &args)
}

/// A call for one of our own repositories, independent of the user's variables and settings.
fn for_repository(call: &Call, git_dir: &Path) -> Call {
    let globals = GlobalOptions { git_dir: Some(git_dir.to_owned()), ..GlobalOptions::default() };
    let lookup = |name: &str| (name == "GIT_CONFIG_NOSYSTEM").then(|| "1".into());
    let mut environment = Environment::from_lookup(&lookup);
    environment.temporary_dir.clone_from(&call.environment.temporary_dir);
    let (mut streams, _, _) = Streams::in_memory("");
    streams.errors = process::streams().errors;
    Call::new(globals, environment, streams)
}

fn export(call: &Call, args: &BucketExport) -> Result<(), Fatal> {
    let name = BucketName::new(&args.name).map_err(fatal)?;
    let bucket = opened(call, &args.bucket)?;
    let directory = in_directory(call, &args.directory)?;
    let failed = |error: std::io::Error| Fatal::new(format!("{}: {error}", directory.display()));
    if !durable::make_dir(&directory, |mode| mode, Role::Config).map_err(failed)? {
        return Err(Fatal::new(format!("{}: already exists", directory.display())));
    }
    let made = cache::export(&bucket, &name, &directory).map_err(fatal).and_then(|()| {
        if args.ref_format == "reftable" {
            return Ok(());
        }
        let made = Repository::open(&directory, &OpenOptions { strict: true, ..OpenOptions::default() })?;
        let writes = RefWrites::of(made.config(), made.hash_kind(), true, Vec::new())?;
        let mut objects = StoredObjects::new(&made.snapshot()?);
        let migration = Migration { to: Backend::Files, keeps_logs: true, is_dry_run: false };
        made.refs().migrate(&migration, &writes, &mut objects).map(drop).map_err(Fatal::new)
    });
    if made.is_err() {
        // The first error matters.
        let _ = durable::remove_tree(&directory, Role::Config);
    }
    made
}

/// The suffix of reports on dry runs.
fn marked(is_dry_run: bool) -> &'static str {
    if is_dry_run { " (dry run)" } else { "" }
}

/// Folds packs of the repositories, one repository after the other.
fn fold(call: &Call, args: &BucketFold) -> Result<(), Fatal> {
    let names: Vec<BucketName> =
        args.names.iter().map(|name| BucketName::new(name)).collect::<Result<_, _>>().map_err(fatal)?;
    let bucket = opened(call, &args.bucket)?;
    let mut code = 0;
    for name in &names {
        match fold_one(call, args, &bucket, name) {
            Ok(done) => line(call, &format!("{}: {done}", harmless(name.as_str())))?,
            // A damaged repository does not keep the others from being folded.
            Err(error) => {
                eprint_line!("{}", String::from_utf8_lossy(&error.text()).trim_end());
                code = code.max(error.code);
            }
        }
    }
    if code == 0 { Ok(()) } else { Err(Fatal::silent(code)) }
}

/// Folds one repository and returns the report. Fetched files are removed before the next repository.
fn fold_one(call: &Call, args: &BucketFold, bucket: &Bucket, name: &BucketName) -> Result<String, Fatal> {
    let scratch = ScratchFolder::new(&call.environment.temporary_dir, "packrace-fold-")?;
    let cache = Cache::open(bucket.clone(), &scratch.0.join("cache"), u64::MAX, Box::new(|_: &Path| {}));
    let committer = Committer::new(Arc::new(cache.map_err(fatal)?));
    let options = RepackOptions {
        geometric: (!args.all).then_some(2),
        all: args.all,
        keep_unreachable: args.all,
        write_bitmap_index: Some(args.all),
        delete: true,
        quiet: true,
        no_update_server_info: true,
        ..RepackOptions::default()
    };
    let repack = |git_dir: &Path| repack::run(&for_repository(call, git_dir), &options);
    let Some(fold) = upkeep::prepare(&committer, name, repack).map_err(fatal)?? else {
        return Ok("nothing to do".to_owned());
    };
    let folded = fold.folded();
    let after = match args.dry_run {
        true => fold.packs_after(),
        false => folded_in(&harmless(name.as_str()), fold)?,
    };
    Ok(format!("packs folded: {folded}, packs left: {after}{}", marked(args.dry_run)))
}

/// Commits a fold, and returns the new number of packs.
fn folded_in(shown: &str, fold: PreparedFold<'_>) -> Result<usize, Fatal> {
    match fold.commit().map_err(fatal)? {
        FoldOutcome::Done(packs) => Ok(packs),
        FoldOutcome::Overtaken => Err(Fatal::error(format!(
            "{shown}: not folded: another node changed the repository first; run again"
        ))),
        FoldOutcome::Unknown(error) => {
            Err(Fatal::new(harmless(&format!("{shown}: outcome unknown: {error}"))))
        }
    }
}

/// Collects objects that no head names.
fn collect(call: &Call, args: &BucketCollect) -> Result<(), Fatal> {
    let bucket = opened(call, &args.bucket)?;
    let mut names: Vec<BucketName> =
        args.names.iter().map(|name| BucketName::new(name)).collect::<Result<_, _>>().map_err(fatal)?;
    if args.names.is_empty() {
        list(&bucket, &mut |name| {
            names.push(name.clone());
            ControlFlow::Continue(())
        })
        .map_err(fatal)?;
    }
    let grace = if args.now { Grace::Nothing } else { Grace::UntilNext };
    let work = if args.dry_run { upkeep::would_collect } else { upkeep::collect };
    let mut failed = Ok(());
    for name in &names {
        let shown = harmless(name.as_str());
        match work(&bucket, name, grace) {
            Ok(Collected { deleted: 0, waiting: 0 }) => {}
            Ok(Collected { deleted, waiting }) => {
                let mark = marked(args.dry_run);
                line(call, &format!("{shown}: objects deleted: {deleted}, waiting: {waiting}{mark}"))?;
            }
            // A damaged repository does not keep the others from being collected.
            Err(error) => {
                eprint_line!("error: {}", harmless(&error.to_string()));
                failed = Err(Fatal::silent(1));
            }
        }
    }
    failed
}
