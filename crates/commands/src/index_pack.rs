//! `git index-pack`: indexes a pack from standard input or from a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_format::pack_index::{Entry, Version};
use packrace_object::{HashKind, ObjectId, oid};
use packrace_os::count::Role;
use packrace_os::process::available_threads;
use packrace_pack::ingest::{CheckResults, Checks, IndexedPack, Ingest, IngestOptions};
use packrace_pack::maintain::promisor;
use packrace_pack::{Phase, ProgressSink as _, RequestObjects, Settings};
use packrace_store::publish::{
    PackName, PackWriter, PublishOptions, WritePolicy, dir_of, publish_index, with_extension,
};
use packrace_store::{Config, Repository, Snapshot, strict_fsck_rules};

use crate::call::Call;
use crate::call::discovery::{in_directory, repository_if_known};
use crate::call::fatal::Fatal;
use crate::lazy_fetch::prefetch_bases;
use crate::options::{IndexPackOptions, PackingOptions};
use crate::packs::hash::chosen_hash;
use crate::packs::input::{PackInput, parse_pack_header, read_pack_file, refused};
use crate::packs::settings::{index_version, index_version_of, pack_files, settings};
use crate::progress::Progress;
use crate::verify_pack::{self, PackReport};

/// More threads do not speed up one pack.
const MAX_THREADS: usize = 20;

/// Implements `git index-pack`.
pub fn run(call: &Call, args: &IndexPackOptions) -> Result<(), Fatal> {
    let header = args.pack_header.as_deref().map(parse_pack_header).transpose()?.unwrap_or_default();
    check_arguments(args)?;
    let repository = repository_if_known(call)?;
    let job = IndexPackJob::new(call, args, repository)?;
    if args.stdin { job.receive(header) } else { job.index() }
}

/// Refuses the arguments that git refuses, with its messages and in its order.
fn check_arguments(args: &IndexPackOptions) -> Result<(), Fatal> {
    let is_repeated = args.output.len() > 1 || args.progress_title.len() > 1;
    if is_repeated || (args.pack.is_none() && !args.stdin) {
        return Err(Fatal::usage_of("index-pack"));
    }
    if args.promisor.is_some() && args.pack.is_some() {
        return Err(Fatal::new("--promisor cannot be used with a pack name"));
    }
    if args.pack.is_none() && (args.verify || args.verify_stat || args.verify_stat_only) {
        return Err(Fatal::new("--verify with no packfile name given"));
    }
    if args.fix_thin && !args.stdin {
        return Err(Fatal::new("the option '--fix-thin' requires '--stdin'"));
    }
    Ok(())
}

/// Whether the name of a pack is free beside that of its index: nothing else is named after it.
fn takes_any_name(args: &IndexPackOptions) -> bool {
    !args.stdin && args.keep.is_none() && !args.verify && !args.verify_stat && !args.verify_stat_only
}

/// The options, resolved.
struct IndexPackJob<'a> {
    call: &'a Call,
    args: &'a IndexPackOptions,
    repository: Option<Repository>,
    options: IngestOptions,
    policy: WritePolicy,
    /// Files beside the pack, without the notes.
    publishing: PublishOptions<'static>,
    /// Stems of the pack and of its index, if given.
    pack: Option<PathBuf>,
    index: Option<PathBuf>,
    progress: Progress,
}

impl<'a> IndexPackJob<'a> {
    fn new(
        call: &'a Call,
        args: &'a IndexPackOptions,
        repository: Option<Repository>,
    ) -> Result<Self, Fatal> {
        let config = match &repository {
            Some(repository) => repository.config().clone(),
            None => Config::outside(&call.open_options()?.config)?,
        };
        let mut hash = chosen_hash(None, repository.as_ref())?;
        // Each of them must be one, and the last one counts.
        for format in &args.object_format {
            hash = chosen_hash(Some(format), None)?;
        }
        let options = options(args, repository.as_ref(), &config, hash)?;
        let publishing = publishing(args, &config)?;
        // As in git, after settings and the words of options.
        if args.stdin && repository.is_none() {
            return Err(Fatal::new("--stdin requires a git repository"));
        }
        if args.stdin && !args.object_format.is_empty() {
            return Err(Fatal::new("options '--object-format' and '--stdin' cannot be used together"));
        }
        let stem = |path: Option<&PathBuf>, extension| match path {
            Some(path) => stem(call, path, extension).map(Some),
            None => Ok(None),
        };
        let index = stem(args.output.first(), "idx")?;
        let pack = match &args.pack {
            Some(path) if index.is_some() && takes_any_name(args) => Some(in_directory(call, path)?),
            path => stem(path.as_ref(), "pack")?,
        };
        Ok(IndexPackJob {
            call,
            args,
            repository,
            options,
            policy: WritePolicy::of(&config)?,
            publishing,
            index: index.or_else(|| pack.clone()),
            pack,
            progress: progress(args, call)?,
        })
    }

    /// Receives the pack from standard input, after `header`.
    fn receive(&self, header: Vec<u8>) -> Result<(), Fatal> {
        let repository = self.repository.as_ref().expect("standard input is not read without one");
        check_place(self.pack.as_deref(), "pack")?;
        let pack_dir = repository.object_dir().join("pack");
        let dir = self.pack.as_deref().map_or(pack_dir.as_path(), dir_of);
        let writer = PackWriter::receive(dir, self.options.hash, self.policy)?;
        let mut ingest = Ingest::new(writer, self.options.clone());
        let mut input = PackInput::new(self.call, header)?;
        let watch = |ingest: &Ingest, taken| {
            let (done, total) = ingest.received();
            self.progress.sent(taken as u64);
            self.progress.report(Phase::Receiving, done.into(), total.into());
        };
        // A truncated pack is reported when deltas are resolved.
        let rest = input.feed(&mut ingest, watch, |error| refused(self.call, error))?.unwrap_or_default();
        input.refuse_junk(&rest)?;
        if self.args.report_end_of_input {
            self.call.streams.errors.say(&[0]).map_err(Fatal::new)?;
        }
        let existing = repository.snapshot()?;
        let fetch = |bases: &[ObjectId]| prefetch_bases(self.call, repository, bases);
        let indexed = ingest.resolve_fetching(Some(&existing), &fetch, &self.progress);
        let indexed = indexed.map_err(|error| refused(self.call, error))?;
        match indexed.completed() {
            0 => self.progress.finish(),
            1 => self.progress.finish_saying("completed with 1 local object."),
            count => self.progress.finish_saying(&format!("completed with {count} local objects.")),
        }
        let found = indexed.found().clone();
        self.progress.stop();
        self.call.streams.errors.say(&found.warnings).map_err(Fatal::new)?;
        let checksum = *indexed.checksum();
        let name = self.pack.as_deref().map_or(PackName::Standard, PackName::Stem);
        let notes = Notes::of(self.args);
        let index = self.index.as_deref();
        check_place(index, "idx")?;
        // In this order a power cut leaves no promisor object that links to others.
        self.pack_linked(repository, &existing, &indexed)?;
        let options = self.publishing(&notes, indexed.entries());
        let published = indexed.publish(&PublishOptions { name, index, ..options })?;
        let word = if published.made_keep { "keep" } else { "pack" };
        self.call.write_line(format!("{word}\t{checksum}"))?;
        input.pass_on(&rest, &mut **self.call.streams.output())?;
        self.report_links(&found)
    }

    /// With `--promisor`, puts objects of the repository that the pack links to into a promisor pack, too.
    fn pack_linked(
        &self,
        repository: &Repository,
        existing: &Arc<Snapshot>,
        indexed: &IndexedPack,
    ) -> Result<(), Fatal> {
        let (linked, entries) = (&indexed.found().linked, indexed.entries());
        if linked.is_empty() {
            return Ok(());
        }
        let (packing, config) = (PackingOptions::default(), repository.config());
        let settings = settings(self.call, &packing, &[], config, self.options.threads)?;
        let files = pack_files(self.call, &packing, config)?;
        let request_objects = Arc::new(RequestObjects::new(existing.clone()));
        let received = |id: &oid| entries.binary_search_by(|entry| (*entry.id).cmp(id)).is_ok();
        promisor::pack_linked(&request_objects, linked, received, settings, &files)?;
        Ok(())
    }

    /// Indexes a file, or compares it with its existing index.
    fn index(&self) -> Result<(), Fatal> {
        let stem = self.pack.as_deref().expect("a file is named where standard input is not read");
        if self.args.verify || self.args.verify_stat || self.args.verify_stat_only {
            let listing = match (self.args.verify_stat_only, self.args.verify_stat) {
                (true, _) => PackReport::Chains,
                (_, true) => PackReport::Objects,
                _ => PackReport::Nothing,
            };
            let (options, with_reverse) = (self.options.clone(), self.publishing.reverse_index);
            return verify_pack::verify(self.call, [stem; 2], listing, options, with_reverse, &self.progress);
        }
        let existing = self.repository.as_ref().map(Repository::snapshot).transpose()?;
        let path = match &self.args.pack {
            Some(path) => in_directory(self.call, path)?,
            None => with_extension(stem, "pack"),
        };
        let indexed =
            read_pack_file(self.call, &path, self.options.clone(), existing.as_ref(), &self.progress)?;
        self.progress.finish();
        let index = self.index.as_deref().unwrap_or(stem);
        check_place(Some(index), "idx")?;
        self.call.streams.errors.say(&indexed.found().warnings).map_err(Fatal::new)?;
        let (checksum, entries) = (indexed.checksum(), indexed.entries());
        let notes = Notes::of(self.args);
        publish_index(stem, index, checksum, entries, &self.publishing(&notes, entries), self.policy)?;
        self.call.write_line(checksum.to_string())?;
        if existing.is_none() && !indexed.found().missing_modules.is_empty() {
            return Err(Fatal::new("cannot perform queued object checks outside of a repository"));
        }
        self.report_links(indexed.found())
    }

    /// Prints missing `.gitmodules` blobs; the exit code says whether the pack is self-contained.
    fn report_links(&self, found: &CheckResults) -> Result<(), Fatal> {
        for id in &found.missing_modules {
            self.call.write_line(id.to_string())?;
        }
        match self.args.check_self_contained_and_connected && found.leaves_pack {
            true => Err(Fatal::silent(1)),
            false => Ok(()),
        }
    }

    fn publishing<'n>(&self, notes: &'n Notes, entries: &[Entry]) -> PublishOptions<'n> {
        let last_offset = entries.iter().map(|entry| entry.offset).max().unwrap_or(0);
        let asked = self.args.index_version.as_deref();
        let asked = asked.and_then(|text| index_version_of(text, last_offset));
        PublishOptions {
            keep: notes.keep.as_deref(),
            promisor: notes.promisor.as_deref(),
            index_version: asked.unwrap_or(self.publishing.index_version),
            ..self.publishing
        }
    }
}

/// Progress of all phases, or only of delta resolution.
fn progress(args: &IndexPackOptions, call: &Call) -> Result<Progress, Fatal> {
    let progress = Progress::new(args.verbose || args.show_resolving_progress, call)?;
    Ok(match (args.progress_title.first(), args.verbose) {
        (_, false) => progress.without_intake(),
        (Some(title), true) => progress.with_bytes().with_intake_title(title),
        (None, true) => progress.with_bytes(),
    })
}

/// Contents of `.keep` and `.promisor`.
struct Notes {
    keep: Option<Vec<u8>>,
    promisor: Option<Vec<u8>>,
}

impl Notes {
    fn of(args: &IndexPackOptions) -> Self {
        let line =
            |text: &String| if text.is_empty() { Vec::new() } else { format!("{text}\n").into_bytes() };
        Notes { keep: args.keep.as_ref().map(line), promisor: args.promisor.as_ref().map(line) }
    }
}

/// Ingest options from the command line and the configuration.
fn options(
    args: &IndexPackOptions,
    repository: Option<&Repository>,
    config: &Config,
    hash: HashKind,
) -> Result<IngestOptions, Fatal> {
    Ok(IngestOptions {
        threads: threads(args.threads.as_deref(), config)?,
        max_bytes: args.max_input_size.filter(|bytes| *bytes > 0),
        fix_thin: args.fix_thin,
        refuse_duplicates: args.fsck.strict,
        checks: checks(args, repository, hash)?,
        ..IngestOptions::of(config, hash)?
    })
}

/// The object checks that the options ask for.
fn checks(
    args: &IndexPackOptions,
    repository: Option<&Repository>,
    hash: HashKind,
) -> Result<Option<Checks>, Fatal> {
    let links = args.fsck.strict || args.check_self_contained_and_connected;
    let rules = args.fsck.settings.as_ref().map(|settings| strict_fsck_rules(settings.as_bytes(), hash));
    let rules = rules.transpose()?.map(Arc::new);
    let shallow = match repository.filter(|_| links) {
        Some(repository) => repository.unlisted_snapshot()?.shallow()?.to_vec(),
        None => Vec::new(),
    };
    let lists_links = match repository.filter(|_| args.promisor.is_some()) {
        Some(repository) => {
            let snapshot = repository.snapshot()?;
            promisor::has_local_objects(&snapshot)?
        }
        None => false,
    };
    let checks = Checks { rules, links, lists_links, shallow };
    Ok((links || lists_links || checks.rules.is_some()).then_some(checks))
}

fn threads(asked: Option<&str>, config: &Config) -> Result<usize, Fatal> {
    let threads = match asked {
        // As in git, spaces may come first.
        Some(text) => {
            text.trim_ascii_start().parse::<u32>().map_err(|_| Fatal::usage_of("index-pack"))? as usize
        }
        None => Settings::threads(config, available_threads())?,
    };
    Ok(if threads == 0 { available_threads() } else { threads }.min(MAX_THREADS))
}

/// Formats of the pack's index and reverse index.
fn publishing(args: &IndexPackOptions, config: &Config) -> Result<PublishOptions<'static>, Fatal> {
    let mut options = PublishOptions::of(config)?;
    if let Some(text) = &args.index_version {
        options.index_version = parse_index_version(text)?;
    }
    options.reverse_index = args.rev_index.unwrap_or(options.reverse_index);
    Ok(options)
}

/// The format of `--index-version`.
pub(crate) fn parse_index_version(text: &str) -> Result<Version, Fatal> {
    index_version(text).ok_or_else(|| Fatal::new(format!("bad --index-version={text}")))
}

/// Refuses a place in a folder that is not there: git creates none.
fn check_place(stem: Option<&Path>, extension: &str) -> Result<(), Fatal> {
    let Some(stem) = stem else { return Ok(()) };
    let dir = dir_of(stem);
    let is_there = |path: &Path| packrace_os::identity(path, Role::Pack).is_ok_and(|found| found.is_some());
    let why = match is_there(dir) {
        // With a slash behind it, only a folder is found.
        true if is_there(&dir.join("")) => return Ok(()),
        true => "Not a directory",
        false => "No such file or directory",
    };
    Err(Fatal::new(format!("unable to create '{}': {why}", with_extension(stem, extension).display())))
}

/// A path without its extension, which must be `extension`.
fn stem(call: &Call, path: &Path, extension: &str) -> Result<PathBuf, Fatal> {
    if path.extension().is_none_or(|found| found != extension) {
        let shown = path.display();
        return Err(Fatal::new(format!("packfile name '{shown}' does not end with '.{extension}'")));
    }
    in_directory(call, &path.with_extension(""))
}
