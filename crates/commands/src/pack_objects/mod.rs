//! `git pack-objects`: writes a pack of what revisions reach, to standard output or to files.

mod edges;
mod left_out;
mod object_list;
pub(crate) mod settings;

use std::collections::HashSet;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use packrace_format::pack_index;
use packrace_maintenance::bitmaps::{bitmap_request, islands};
use packrace_object::{Kind, ObjectId};
use packrace_os::sink::write_all;
use packrace_pack::generate::{PackStream, Segment};
use packrace_pack::maintain::bitmap_build::not_closed_warning;
use packrace_pack::maintain::commit_graph::first_dangling;
use packrace_pack::maintain::pack_files::{BitmapRequest, PackFilesError, Special};
use packrace_pack::maintain::unreachable::{Expiry, Loosening, Times, loosen, plan_cruft_beside};
use packrace_pack::plan::{Chosen, MissingObjects, PackPlan, plan_adjusted, plan_list};
use packrace_pack::{NameHash, PackRequest, ProgressSink as _, RequestObjects, Settings};
use packrace_protocol::message::packfile_uris::PackfileUri;
use packrace_server::traced_phases::PackStep;
use packrace_server::upload::{self, BlobUri};
use packrace_store::expiry::expiry_of_objects;
use packrace_store::publish::{WritePolicy, loose_compression};
use packrace_store::refs::Target;
use packrace_store::{Pack, Repository, RootKinds, Snapshot, check_ref_objects, roots};

use self::left_out::{LeftOut, Unreachable};
use self::object_list::OfPacks;
use self::settings::{follows, gaps_of, pack_index_version, settings};
use crate::call::Call;
use crate::call::discovery::{repository_with, with_refs};
use crate::call::fatal::Fatal;
use crate::lazy_fetch::{is_partial, warn_if_off};
use crate::options::PackObjectsOptions;
use crate::packs::settings::{filter_of, filters, pack_files, recent_objects};
use crate::progress::{self, Progress};
use crate::revisions::{Revisions, Selection, with_attribute_tree};
use crate::work_tree::path_from_top;

/// Longest list of revisions that is read.
const MAX_INPUT_BYTES: u64 = 1 << 30;

/// Segments per gathered write.
const GATHERED_SEGMENTS: usize = 64;

/// Implements `git pack-objects`.
pub fn run(call: &Call, args: &PackObjectsOptions) -> Result<(), Fatal> {
    refuse_what_is_missing(args)?;
    // Options that make no sense are told before what is missing.
    filters(&args.filter)?;
    let version = version(args)?;
    if args.stdout == args.base_name.is_some() {
        return Err(Fatal::usage_of("pack-objects"));
    }
    let may_fetch = may_fetch(args);
    let repository = open(call, args, may_fetch)?;
    refuse_what_is_incompatible(args)?;
    call.environment.booleans.check(&["GIT_REF_PARANOIA"])?;
    let settings = settings(call, args, &repository)?;
    let request_objects = Arc::new(RequestObjects::new(repository.snapshot()?));
    let progress = progress(args, call, settings.threads)?;
    let mut job = PackObjectsJob {
        call,
        args,
        repository: &repository,
        request_objects,
        settings,
        progress: &progress,
        input: input(call)?,
        fetches_missing: may_fetch && is_partial(&repository)?,
    };
    progress.begin_step(PackStep::Enumerate);
    if reads_revisions(args) {
        progress.begin_path_walk(settings.name_hash);
    }
    let planned = job.plan_fetching()?;
    if planned.plan.objects() > 0 {
        repository.check_attributes()?;
    }
    if args.non_empty && planned.plan.objects() == 0 {
        progress.finish();
        return Ok(());
    }
    let Some(base) = &args.base_name else {
        to_output(call, planned.plan, &planned.uris, &progress)?;
        progress.end_packs();
        return job.loosen(&planned.loosened);
    };
    let base = path_from_top(&repository, call, base)?;
    let mut files = pack_files(call, &args.packing, repository.config())?;
    files.index_version = version.unwrap_or(files.index_version);
    let bitmap = job.bitmap()?;
    let special = Special {
        prefix: Some(&base),
        times: planned.times.as_ref(),
        bitmap: bitmap.as_ref().filter(|_| planned.is_closed),
        ..Special::default()
    };
    let made = files.write(planned.plan.to_stay(), &special, &progress);
    if let (Err(PackFilesError::NotClosed(missing)), false) = (&made, args.write_bitmap_index_quiet) {
        progress.stop();
        error_line!(call, "warning: {}", not_closed_warning(missing));
    }
    let made = made?;
    progress.end_packs();
    if bitmap.is_some() && args.write_bitmap_index {
        warn_without_bitmap(call, planned.is_closed, made.len());
    }
    let list: String = made.iter().map(|pack| format!("{}\n", pack.checksum)).collect();
    call.write(list.as_bytes())?;
    job.loosen(&planned.loosened)
}

/// Says why bitmaps were not written, if they were not.
fn warn_without_bitmap(call: &Call, is_closed: bool, packs: usize) {
    if !is_closed {
        error_line!(call, "warning: disabling bitmap writing, as some objects are not being packed");
    } else if packs > 1 {
        error_line!(call, "warning: disabling bitmap writing, packs are split due to pack.packSizeLimit");
    }
}

/// The requested progress. With `--stdout` the pack's reader shows the writing, unless all progress is asked
/// for.
fn progress(args: &PackObjectsOptions, call: &Call, threads: usize) -> Result<Progress, Fatal> {
    let typed = args.all_progress.then_some(true).or(args.progress);
    let is_shown = progress::is_wanted(call, if args.quiet { Some(false) } else { typed });
    let progress = Progress::new(is_shown, call)?;
    Ok(match (args.stdout, args.all_progress || args.all_progress_implied) {
        (false, _) => progress.with_threads(threads),
        (true, true) => progress.with_threads(threads).with_bytes(),
        (true, false) => progress.without_writing(),
    })
}

/// A pack plan with its side data.
struct Planned {
    plan: PackPlan,
    /// Object times, for a cruft pack.
    times: Option<Times>,
    /// Packs that the receiver downloads separately.
    uris: Vec<PackfileUri>,
    /// Whether no option omitted an object that a self-contained pack must hold.
    is_closed: bool,
    /// Objects of packs that are not kept, and not in this pack.
    loosened: Vec<ObjectId>,
}

struct PackObjectsJob<'a> {
    call: &'a Call,
    args: &'a PackObjectsOptions,
    repository: &'a Repository,
    request_objects: Arc<RequestObjects>,
    settings: Settings,
    progress: &'a Progress,
    /// All of standard input.
    input: Vec<u8>,
    fetches_missing: bool,
}

impl PackObjectsJob<'_> {
    /// Plans, fetches what is missing, and plans again, until nothing is: a tree may lead to others. Also plans again
    /// if that failed beside a damaged multi-pack-index.
    fn plan_fetching(&mut self) -> Result<Planned, Fatal> {
        if self.args.all && matches!(gaps(self.args)?, MissingObjects::Any) {
            // Only what refs lead to may be missing.
            check_ref_objects(self.repository)?;
        }
        loop {
            let planned = match self.plan() {
                Ok(planned) => planned,
                Err(error) => match self.request_objects.snapshot().without_damaged_multi_pack_index()? {
                    Some(without) => {
                        self.request_objects = Arc::new(RequestObjects::new(without));
                        continue;
                    }
                    None => {
                        // As git, it tells of the ref if that is what cannot be read.
                        if self.args.all {
                            check_ref_objects(self.repository)?;
                        }
                        return Err(error);
                    }
                },
            };
            if self.request_objects.missing_met().is_empty() || !self.fetches_missing {
                return self.with_islands(planned);
            }
            warn_if_off(self.call);
            self.request_objects = self.request_objects.fetch_missing_met(self.progress)?;
        }
    }

    fn with_islands(&self, mut planned: Planned) -> Result<Planned, Fatal> {
        if self.args.delta_islands {
            let islands = islands(self.repository, &self.request_objects, self.progress)?;
            planned.plan = planned.plan.with_islands(Some(islands));
        }
        Ok(planned)
    }

    fn missing(&self) -> Result<MissingObjects, Fatal> {
        if self.fetches_missing {
            return Ok(MissingObjects::Listed);
        }
        let has_promised = || self.request_objects.snapshot().packs().iter().any(|pack| pack.is_promisor());
        Ok(match gaps(self.args)? {
            // Nothing was promised.
            MissingObjects::BehindPromisor | MissingObjects::BehindPromisorBestEffort if !has_promised() => {
                gaps_of(self.args.missing.as_deref())?
            }
            gaps => gaps,
        })
    }

    fn plan(&self) -> Result<Planned, Fatal> {
        let plan =
            |plan| Planned { plan, times: None, uris: Vec::new(), is_closed: true, loosened: Vec::new() };
        if is_cruft(self.args) {
            let (cruft, times) = self.plan_cruft()?;
            Ok(Planned { times: Some(times), ..plan(cruft) })
        } else if reads_revisions(self.args) {
            self.plan_revisions()
        } else {
            self.plan_listed().map(plan)
        }
    }

    /// Plans what revisions reach, and what other options add.
    fn plan_revisions(&self) -> Result<Planned, Fatal> {
        let (args, request_objects) = (self.args, &self.request_objects);
        let selection = self.selection()?;
        if gaps(args)? == MissingObjects::Any
            && let Some((_, error)) = first_dangling(request_objects, &selection.wants)?
        {
            return Err(error.into());
        }
        let uris = self.blob_uris()?;
        let mut revisions = Revisions::new(self.call, self.repository, request_objects.snapshot());
        let request = PackRequest {
            wants: selection.wants,
            haves: selection.haves,
            unpacked: args.unpacked,
            shallow: selection.shallow,
            tags: self.tags()?,
            excluded: uris.iter().map(|uri| uri.object).collect(),
            thin: args.thin,
            ofs_delta: args.delta_base_offset,
            missing: self.missing()?,
            filter: filter_of(&args.filter, |name| revisions.resolve(name))?,
            threads: self.settings.threads,
            settings: self.settings,
        };
        let left_out = LeftOut::of(args);
        let snapshot = request_objects.snapshot();
        let mut is_closed = gaps(args)? == MissingObjects::Errors && args.filter.is_empty();
        let mut loosened = Vec::new();
        let adjust = |chosen: &Chosen<'_>| -> Result<(), Fatal> {
            let unreachable = Unreachable::of(snapshot, &left_out);
            if args.keep_unreachable {
                chosen.extend(unreachable.packed())?;
            }
            if args.pack_loose_unreachable {
                chosen.extend(snapshot.own_loose()?)?;
            }
            if left_out.is_anything() {
                chosen.retain(|id| {
                    let stays = !left_out.contains(snapshot, id)?;
                    is_closed &= stays;
                    Ok::<_, Fatal>(stays)
                })?;
            }
            if args.unpack_unreachable.is_some() {
                for id in unreachable.packed() {
                    if !chosen.contains(&id)? && !unreachable.is_safe(&id)? {
                        loosened.push(id);
                    }
                }
            }
            Ok(())
        };
        let plan = plan_adjusted(request_objects, &request, adjust, self.progress)?;
        let uris = upload::uris_of(&uris, plan.excluded()).into_iter().cloned().collect();
        Ok(Planned { plan, times: None, uris, is_closed, loosened })
    }

    /// Plans the objects listed on standard input.
    fn plan_listed(&self) -> Result<PackPlan, Fatal> {
        let (args, request_objects, input) = (self.args, &self.request_objects, &self.input);
        let (listed, had) = match args.stdin_packs.is_some() {
            true => (
                object_list::of_packs(
                    request_objects,
                    input,
                    &OfPacks {
                        unpacked: args.unpacked,
                        without_promised: args.exclude_promisor_objects,
                        follow: follows_packs(args)?,
                    },
                )?,
                Vec::new(),
            ),
            false => object_list::objects(request_objects, input, &self.settings, self.fetches_missing)?,
        };
        let left_out = LeftOut::of(args);
        let mut objects = Vec::with_capacity(listed.len());
        for (id, name) in listed {
            if !left_out.is_anything() || !left_out.contains(request_objects.snapshot(), &id)? {
                objects.push((id, name));
            }
        }
        let packed: HashSet<ObjectId> = objects.iter().map(|(id, _)| *id).collect();
        let tags = self.tags()?.into_iter().filter(|(_, peeled)| packed.contains(peeled));
        objects.extend(tags.map(|(tag, _)| (tag, NameHash::default())));
        // A pack that is stored here has all its bases.
        let bases = if args.stdout { had } else { Vec::new() };
        let (settings, ofs_delta) = (self.settings, args.delta_base_offset);
        Ok(plan_list(request_objects, &objects, &bases, settings, ofs_delta, self.progress)?)
    }

    /// Plans the objects that are in none of the remaining packs.
    fn plan_cruft(&self) -> Result<(PackPlan, Times), Fatal> {
        let args = self.args;
        let deleted = object_list::packs_to_delete(&self.request_objects, &self.input)?;
        let left_out = LeftOut::of(args);
        let stays = |pack: &Pack| !deleted.contains(pack.name()) || left_out.keeps(pack);
        let expired = match &args.cruft_expiration {
            None => i64::MIN,
            Some(text) => expiry_of_objects(text),
        };
        let recent = self.recent(expired)?;
        let expiry = Expiry { expired, recent: &recent };
        let (settings, ofs_delta) = (self.settings, args.delta_base_offset);
        Ok(plan_cruft_beside(&self.request_objects, &stays, expiry, settings, ofs_delta, self.progress)?)
    }

    /// The requested bitmaps; as in git, only for a pack of everything that refs reach.
    fn bitmap(&self) -> Result<Option<BitmapRequest>, Fatal> {
        let args = self.args;
        if !(args.write_bitmap_index || args.write_bitmap_index_quiet) || !args.all {
            return Ok(None);
        }
        let refs = roots(self.repository, RootKinds::REFS)?.refs;
        Ok(Some(bitmap_request(self.repository, &refs, self.settings.threads)?))
    }

    /// Makes packed objects loose that are not in the new pack.
    fn loosen(&self, ids: &[ObjectId]) -> Result<(), Fatal> {
        let Some(text) = &self.args.unpack_unreachable else { return Ok(()) };
        // As in git, nothing expires unless all possible references are considered.
        let looks_at_all = self.args.all && self.args.reflog && self.args.indexed_objects;
        let expired = if text.is_empty() || !looks_at_all { i64::MIN } else { expiry_of_objects(text) };
        let config = self.repository.config();
        let (compression, policy) = (loose_compression(config)?, WritePolicy::of(config)?);
        let how = Loosening { compression, policy };
        let recent = self.recent(expired)?;
        let expiry = Expiry { expired, recent: &recent };
        Ok(loosen(&self.request_objects, ids, expiry, how, self.settings, self.progress)?)
    }

    /// Objects that hooks declare recent, if anything expires.
    fn recent(&self, expired: i64) -> Result<Vec<ObjectId>, Fatal> {
        if expired == i64::MIN { Ok(Vec::new()) } else { recent_objects(self.call, self.repository) }
    }

    /// Objects to omit because the receiver can download them elsewhere.
    fn blob_uris(&self) -> Result<Vec<BlobUri>, Fatal> {
        let protocols = self.args.uri_protocol.join(",");
        if protocols.is_empty() {
            return Ok(Vec::new());
        }
        let known = upload::blob_uris(self.repository.config(), self.repository.hash_kind())?;
        Ok(known.into_iter().filter(|uri| uri.pack.is_of(protocols.as_bytes())).collect())
    }

    /// The revisions from standard input and from options.
    fn selection(&self) -> Result<Selection, Fatal> {
        let (args, repository) = (self.args, self.repository);
        let mut selection = Selection::default();
        let mut revisions = Revisions::new(self.call, repository, self.request_objects.snapshot());
        if args.exclude_promisor_objects {
            revisions.leave_out_promised(&self.request_objects);
        }
        revisions.read(&self.input, &mut selection)?;
        if args.all || args.reflog || args.indexed_objects {
            let kinds = RootKinds { refs: args.all, logged: args.reflog, indexed: args.indexed_objects };
            let found = roots(repository, kinds)?;
            for id in found.soft() {
                if self.request_objects.contains(&id)? {
                    selection.wants.push(id);
                }
            }
            selection.wants.extend(found.refs);
        }
        Ok(selection)
    }

    fn tags(&self) -> Result<Vec<(ObjectId, ObjectId)>, Fatal> {
        match self.args.include_tag {
            true => annotated_tags(self.call, self.repository, self.request_objects.snapshot()),
            false => Ok(Vec::new()),
        }
    }
}

/// Reads all of standard input.
fn input(call: &Call) -> Result<Vec<u8>, Fatal> {
    let mut input = Vec::new();
    call.streams.input().take(MAX_INPUT_BYTES + 1).read_to_end(&mut input).map_err(Fatal::new)?;
    if input.len() as u64 > MAX_INPUT_BYTES {
        return Err(Fatal::new("standard input is longer than 1 GiB"));
    }
    Ok(object_list::cut_at_nuls(input))
}

fn refuse_what_is_missing(args: &PackObjectsOptions) -> Result<(), Fatal> {
    follows_packs(args)?;
    gaps(args).map(drop)
}

/// Whether to add what the objects of listed packs reach.
fn follows_packs(args: &PackObjectsOptions) -> Result<bool, Fatal> {
    match args.stdin_packs.as_deref() {
        None => Ok(false),
        Some(mode) => follows(mode),
    }
}

/// The policy for missing objects.
fn gaps(args: &PackObjectsOptions) -> Result<MissingObjects, Fatal> {
    let gaps = gaps_of(args.missing.as_deref())?;
    Ok(match args {
        _ if args.exclude_promisor_objects => MissingObjects::BehindPromisor,
        _ if args.exclude_promisor_objects_best_effort => MissingObjects::BehindPromisorBestEffort,
        _ => gaps,
    })
}

/// Refuses option conflicts that git refuses, with its messages.
fn refuse_what_is_incompatible(args: &PackObjectsOptions) -> Result<(), Fatal> {
    let refused = [
        (args.thin && !args.stdout, "--thin cannot be used to build an indexable pack"),
        (
            args.stdout && args.packing.max_pack_size.is_some_and(|bytes| bytes > 0),
            "--max-pack-size cannot be used to build a pack for transfer",
        ),
        (
            args.keep_unreachable && args.unpack_unreachable.is_some(),
            "options '--keep-unreachable' and '--unpack-unreachable' cannot be used together",
        ),
        (
            args.exclude_promisor_objects && args.exclude_promisor_objects_best_effort,
            "options '--exclude-promisor-objects' and '--exclude-promisor-objects-best-effort' cannot be used together",
        ),
        (
            args.stdin_packs.is_some() && !args.filter.is_empty(),
            "options '--stdin-packs' and '--filter' cannot be used together",
        ),
        (
            args.stdin_packs.is_some() && implies_revisions(args),
            "cannot use internal rev list with --stdin-packs",
        ),
        (
            is_cruft(args) && (implies_revisions(args) || args.unpacked),
            "cannot use internal rev list with --cruft",
        ),
        (
            is_cruft(args) && args.stdin_packs.is_some(),
            "options '--stdin-packs' and '--cruft' cannot be used together",
        ),
    ];
    if let Some((_, words)) = refused.iter().find(|(is_refused, _)| *is_refused) {
        return Err(Fatal::new(words));
    }
    Ok(())
}

fn is_cruft(args: &PackObjectsOptions) -> bool {
    args.cruft || args.cruft_expiration.is_some()
}

/// Whether revisions, not an object list, select the objects.
fn reads_revisions(args: &PackObjectsOptions) -> bool {
    implies_revisions(args) || args.unpacked && args.stdin_packs.is_none()
}

/// Whether an object list selects them.
fn reads_objects(args: &PackObjectsOptions) -> bool {
    !is_cruft(args) && !reads_revisions(args) && args.stdin_packs.is_none()
}

fn implies_revisions(args: &PackObjectsOptions) -> bool {
    let unreachable =
        args.keep_unreachable || args.pack_loose_unreachable || args.unpack_unreachable.is_some();
    let is_gapped = args.exclude_promisor_objects && args.stdin_packs.is_none();
    // With this option, git takes a thin pack's list for one of objects.
    let is_thin = args.thin && args.packing.path_walk != Some(true);
    let has_revisions = args.revs || args.all || args.reflog || args.indexed_objects;
    has_revisions || is_thin || unreachable || is_gapped || args.exclude_promisor_objects_best_effort
}

fn version(args: &PackObjectsOptions) -> Result<Option<pack_index::Version>, Fatal> {
    args.index_version.as_deref().map(pack_index_version).transpose()
}

/// With every other policy, missing objects stay missing, but for those that are listed.
fn may_fetch(args: &PackObjectsOptions) -> bool {
    reads_objects(args) || matches!(gaps(args), Ok(MissingObjects::Errors))
}

fn open(call: &Call, args: &PackObjectsOptions, may_fetch: bool) -> Result<Repository, Fatal> {
    let mut open = if may_fetch { call.fetching_options()? } else { call.open_options()? };
    if args.no_use_bitmap_index {
        open.config.overrides.push(("pack.useBitmaps".to_owned(), Some("false".to_owned())));
    }
    let repository = with_attribute_tree(call, repository_with(call, open)?)?;
    if reads_revisions(args) { with_refs(repository) } else { Ok(repository) }
}

/// Annotated tags below `refs/tags/`, each with its peeled object.
fn annotated_tags(
    call: &Call,
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
    let mut revisions = Revisions::new(call, repository, snapshot);
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

fn to_output(call: &Call, plan: PackPlan, uris: &[PackfileUri], progress: &Progress) -> Result<(), Fatal> {
    let mut sink = call.streams.sink().map_err(Fatal::new)?;
    let mut lines = Vec::new();
    for uri in uris {
        lines.extend_from_slice(&[&uri.pack_hash[..], b" ", &uri.uri, b"\n"].concat());
    }
    if !lines.is_empty() {
        write_all(&mut sink, &[&lines]).map_err(|error| Fatal::new(format!("write error: {error}")))?;
    }
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
