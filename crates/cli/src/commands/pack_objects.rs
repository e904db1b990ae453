//! `packrace pack-objects`: makes a pack of what revisions reach, on standard output or as files.

use std::io::{Read as _, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use packrace_format::pack_index;
use packrace_object::{HashKind, Kind, ObjectId, oid};
use packrace_os::sink::{FdSink, write_all};
use packrace_pack::filter::Filter;
use packrace_pack::generate::{PackStream, Segment};
use packrace_pack::plan::{PackPlan, plan, plan_list};
use packrace_pack::{PackRequest, Settings, Universe, Watch as _};
use packrace_store::publish::{PackName, PackWriter, PublishOptions, WritePolicy};
use packrace_store::refs::Target;
use packrace_store::{Repository, Snapshot, roots};

use super::repack::{adjust, index_version};
use super::{Fatal, in_directory, repository};
use crate::args::{Globals, PackObjects, Repack};
use crate::environment::Environment;
use crate::object_list;
use crate::progress::{self, Progress};
use crate::revisions::{Revisions, Selection};

/// Longest list of revisions that is read.
const MAX_INPUT_BYTES: u64 = 1 << 30;

/// Segments that are gathered into one write.
const GATHERED_SEGMENTS: usize = 64;

pub fn run(globals: &Globals, args: &PackObjects, environment: &Environment) -> Result<(), Fatal> {
    refuse_what_is_missing(args)?;
    if args.stdout == args.base_name.is_some() {
        return Err(Fatal::usage("either --stdout or a base name is needed"));
    }
    let mut globals = globals.clone();
    if args.no_use_bitmap_index {
        globals.config.push("pack.useBitmaps=false".to_owned());
    }
    let repository = repository(&globals, environment)?;
    let settings = settings(args, &repository)?;
    if args.thin && !args.stdout {
        return Err(Fatal::new("--thin cannot be used to build an indexable pack"));
    }
    if args.stdin_packs && reads_revisions(args) {
        return Err(Fatal::new("cannot use internal rev list with --stdin-packs"));
    }
    if args.filter.is_some() && !reads_revisions(args) {
        return Err(Fatal::usage("option `filter' is not supported without --revs"));
    }
    let version = version(args, &repository)?;
    let filter = filter(args, repository.hash_kind())?;
    let universe = Arc::new(Universe::new(repository.snapshot()?));
    let progress = progress(args, environment, settings.threads)?;
    let made = match reads_revisions(args) {
        true => plan_revisions(args, &repository, &universe, filter, settings, &progress)?,
        false => plan_listed(args, &universe, settings, &progress)?,
    };
    if args.non_empty && made.objects() == 0 {
        progress.finish();
        return Ok(());
    }
    match &args.base_name {
        None => to_stdout(made, &progress),
        Some(base) => {
            let checksum = to_files(made, &in_directory(&globals, base)?, version, &repository, &progress)?;
            writeln!(std::io::stdout(), "{checksum}").map_err(Fatal::new)
        }
    }
}

/// The progress that is asked for. Whoever reads the pack tells how far that is, unless all is asked for.
fn progress(args: &PackObjects, environment: &Environment, threads: usize) -> Result<Progress, Fatal> {
    let is_asked = args.progress || args.all_progress;
    let is_shown = progress::is_wanted(is_asked, args.quiet || args.no_progress);
    let progress = Progress::new(is_shown, environment)?;
    Ok(match (args.stdout, args.all_progress || args.all_progress_implied) {
        (false, _) => progress.with_threads(threads),
        (true, true) => progress.with_threads(threads).with_bytes(),
        (true, false) => progress.without_writing(),
    })
}

/// A plan of what revisions reach.
fn plan_revisions(
    args: &PackObjects,
    repository: &Repository,
    universe: &Arc<Universe>,
    filter: Option<Filter>,
    settings: Settings,
    progress: &Progress,
) -> Result<PackPlan, Fatal> {
    let selection = selection(args, repository, universe)?;
    let mut request = PackRequest {
        wants: selection.wants,
        haves: selection.haves,
        shallow: selection.shallow,
        tags: if args.include_tag { annotated_tags(repository, universe.snapshot())? } else { Vec::new() },
        excluded: Vec::new(),
        thin: args.thin,
        ofs_delta: args.delta_base_offset,
        may_lack_promised: args.missing.as_deref() == Some("allow-promisor"),
        filter,
        threads: settings.threads,
        settings,
    };
    let made = plan(universe, &request, progress)?;
    let places = Places::of(args);
    if !places.leave_something_out() {
        return Ok(made);
    }
    for id in made.ids() {
        if places.leave_out(universe.snapshot(), &id)? {
            request.excluded.push(id);
        }
    }
    Ok(plan(universe, &request, progress)?)
}

/// A plan of what standard input lists.
fn plan_listed(
    args: &PackObjects,
    universe: &Arc<Universe>,
    settings: Settings,
    progress: &Progress,
) -> Result<PackPlan, Fatal> {
    let input = input()?;
    let listed = match args.stdin_packs {
        true => object_list::of_packs(universe, &input)?,
        false => object_list::objects(universe, &input)?,
    };
    let places = Places::of(args);
    let mut objects = Vec::with_capacity(listed.len());
    for (id, name) in listed {
        if !places.leave_something_out() || !places.leave_out(universe.snapshot(), &id)? {
            objects.push((id, name));
        }
    }
    Ok(plan_list(universe, &objects, settings, args.delta_base_offset, progress)?)
}

/// All of standard input.
fn input() -> Result<Vec<u8>, Fatal> {
    let mut input = Vec::new();
    std::io::stdin().take(MAX_INPUT_BYTES + 1).read_to_end(&mut input).map_err(Fatal::new)?;
    if input.len() as u64 > MAX_INPUT_BYTES {
        return Err(Fatal::new("standard input is longer than 1 GiB"));
    }
    Ok(input)
}

fn refuse_what_is_missing(args: &PackObjects) -> Result<(), Fatal> {
    let not = &args.missing_options;
    let missing = [
        ("cruft", not.cruft),
        ("cruft-expiration", not.cruft_expiration.is_some()),
        ("exclude-promisor-objects", not.exclude_promisor_objects),
        ("max-pack-size", not.max_pack_size.is_some()),
        ("name-hash-version", not.name_hash_version.is_some_and(|version| version != 1)),
        ("write-bitmap-index", not.write_bitmap_index),
        ("write-bitmap-index-quiet", not.write_bitmap_index_quiet),
        ("delta-islands", not.delta_islands),
        ("keep-unreachable", not.keep_unreachable),
        ("pack-loose-unreachable", not.pack_loose_unreachable),
        ("unpack-unreachable", not.unpack_unreachable.is_some()),
        ("uri-protocol", !not.uri_protocol.is_empty()),
        ("missing", args.missing.as_deref() == Some("allow-any")),
        ("reflog", args.reflog != args.indexed_objects && args.reflog),
        ("indexed-objects", args.reflog != args.indexed_objects && args.indexed_objects),
        ("unpacked", args.unpacked && !args.incremental),
    ];
    if let Some((option, _)) = missing.iter().find(|(_, is_asked)| *is_asked) {
        return Err(Fatal::usage(format!("option `{option}' is not supported")));
    }
    match args.missing.as_deref() {
        None | Some("error" | "allow-promisor") => Ok(()),
        Some(other) => Err(Fatal::new(format!("invalid value for '--missing': '{other}'"))),
    }
}

/// Whether revisions and not a list say what is packed.
fn reads_revisions(args: &PackObjects) -> bool {
    args.revs || args.all || args.reflog || args.indexed_objects || args.unpacked
}

fn settings(args: &PackObjects, repository: &Repository) -> Result<Settings, Fatal> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let given = Repack {
        window: args.window,
        window_memory: args.window_memory,
        depth: args.depth,
        threads: args.threads.filter(|threads| *threads >= 0),
        no_reuse_delta: args.no_reuse_delta,
        no_reuse_object: args.no_reuse_object,
        ..Repack::default()
    };
    let mut settings = adjust(&given, repository.config(), threads)?;
    match args.compression {
        None => {}
        Some(level @ -1..=9) => settings.compression = level as i32,
        Some(level) => return Err(Fatal::new(format!("bad pack compression level {level}"))),
    }
    Ok(settings)
}

fn version(args: &PackObjects, repository: &Repository) -> Result<pack_index::Version, Fatal> {
    let Some(text) = &args.index_version else { return index_version(repository.config()) };
    match text.parse::<u32>() {
        Ok(1) => Ok(pack_index::Version::V1),
        Ok(2) => Ok(pack_index::Version::default()),
        Ok(other) => Err(Fatal::new(format!("unsupported index version {other}"))),
        Err(_) => Err(Fatal::new(format!("bad index version '{text}'"))),
    }
}

fn filter(args: &PackObjects, hash: HashKind) -> Result<Option<Filter>, Fatal> {
    let Some(spec) = &args.filter else { return Ok(None) };
    let mut filter = Filter::parse(spec.as_bytes()).map_err(Fatal::new)?;
    for patterns in filter.patterns_mut() {
        let name = String::from_utf8_lossy(&patterns.name).into_owned();
        let id = ObjectId::from_hex(&patterns.name).ok().filter(|id| id.kind() == hash);
        patterns.blob =
            Some(id.ok_or_else(|| Fatal::new(format!("unable to access sparse blob in '{name}'")))?);
    }
    Ok(Some(filter))
}

/// What standard input and the options name.
fn selection(args: &PackObjects, repository: &Repository, universe: &Universe) -> Result<Selection, Fatal> {
    let mut selection = Selection::default();
    Revisions::new(repository, universe.snapshot()).read(&input()?, &mut selection)?;
    if args.all || args.reflog {
        let found = roots(repository)?;
        if args.all {
            selection.wants.extend(found.refs);
        }
        if args.reflog {
            for id in found.soft {
                if universe.contains(&id)? {
                    selection.wants.push(id);
                }
            }
        }
    }
    Ok(selection)
}

/// Annotated tags below `refs/tags/`, each with what it finally tags.
fn annotated_tags(
    repository: &Repository,
    snapshot: &Arc<Snapshot>,
) -> Result<Vec<(ObjectId, ObjectId)>, Fatal> {
    let refs = repository.refs().snapshot(&[b"refs/tags/"]).map_err(Fatal::new)?;
    let mut ids = Vec::new();
    refs.visit(b"refs/tags/", &mut |record| {
        if let Target::Direct { id, .. } = record.target {
            ids.push(id);
        }
        ControlFlow::Continue(())
    })
    .map_err(Fatal::new)?;
    let mut reader = snapshot.reader(1 << 20);
    let mut revisions = Revisions::new(repository, snapshot);
    let mut tags = Vec::new();
    for id in ids {
        if reader.kind_and_size(&id)?.is_some_and(|(kind, _)| kind == Kind::Tag)
            && let Some(peeled) = revisions.resolve(format!("{id}^{{}}").as_bytes())?
        {
            tags.push((id, peeled));
        }
    }
    Ok(tags)
}

/// Where objects are stored that are left out.
struct Places<'a> {
    incremental: bool,
    local: bool,
    kept: bool,
    keep_packs: &'a [String],
}

impl<'a> Places<'a> {
    fn of(args: &'a PackObjects) -> Self {
        Places {
            incremental: args.incremental,
            local: args.local,
            kept: args.honor_pack_keep,
            keep_packs: &args.keep_pack,
        }
    }

    fn leave_something_out(&self) -> bool {
        self.incremental || self.local || self.kept || !self.keep_packs.is_empty()
    }

    fn leave_out(&self, snapshot: &Snapshot, id: &oid) -> Result<bool, Fatal> {
        let is_named = |name: &str| {
            self.keep_packs.iter().any(|keep| keep.strip_suffix(".pack").is_some_and(|keep| keep == name))
        };
        let in_pack = snapshot.packs_with(id).any(|pack| {
            self.incremental || pack.is_local() && (self.kept && pack.has_keep() || is_named(pack.name()))
        });
        Ok(in_pack || self.local && snapshot.is_borrowed(id)?)
    }
}

fn to_stdout(plan: PackPlan, progress: &Progress) -> Result<(), Fatal> {
    let mut sink = FdSink::stdout().map_err(Fatal::new)?;
    let mut stream = PackStream::new(plan);
    let mut waiting: Vec<Segment> = Vec::with_capacity(GATHERED_SEGMENTS);
    loop {
        let next = stream.next_segment(progress)?;
        let is_end = next.is_none();
        waiting.extend(next);
        if waiting.len() == GATHERED_SEGMENTS || is_end {
            let pieces: Vec<&[u8]> = waiting.iter().map(Segment::bytes).collect();
            write_all(&mut sink, &pieces).map_err(|error| Fatal::new(format!("write error: {error}")))?;
            progress.sent(pieces.iter().map(|piece| piece.len() as u64).sum());
            waiting.clear();
        }
        if is_end {
            progress.packed(&stream.totals());
            return Ok(());
        }
    }
}

fn to_files(
    plan: PackPlan,
    base: &Path,
    index_version: pack_index::Version,
    repository: &Repository,
    progress: &Progress,
) -> Result<ObjectId, Fatal> {
    let policy = WritePolicy::of(repository.config())?;
    let objects = plan.objects();
    let pack_dir = repository.object_dir().join("pack");
    let mut writer = PackWriter::receive(&pack_dir, repository.hash_kind(), policy)?;
    let mut stream = PackStream::new(plan).with_index();
    while let Some(segment) = stream.next_segment(progress)? {
        writer.write(segment.bytes())?;
    }
    let mut entries: Vec<pack_index::Entry> = stream
        .take_entries()
        .into_iter()
        .map(|entry| pack_index::Entry { id: entry.id, crc32: entry.crc32, offset: entry.offset })
        .collect();
    pack_index::sort(&mut entries);
    let options = PublishOptions {
        name: PackName::Prefix(base),
        index_version,
        reverse_index: repository.config().boolean("pack.writeReverseIndex")?.unwrap_or(true),
        ..PublishOptions::default()
    };
    let checksum = writer.seal(objects)?.publish(&entries, &options)?.checksum;
    progress.packed(&stream.totals());
    Ok(checksum)
}
