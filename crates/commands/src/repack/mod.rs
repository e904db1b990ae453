//! `git repack`: combines the objects of a repository into fewer and better packs.

mod traced;

use std::sync::Arc;

use packrace_maintenance::bitmaps::islands;
use packrace_maintenance::repacking::{Finishing, MultiPackIndexMode, finish};
use packrace_os::process::available_threads;
use packrace_pack::RequestObjects;
use packrace_pack::Settings;
use packrace_pack::maintain::bitmap_build::not_closed_warning;
use packrace_pack::maintain::pack_files::PackFilesError;
use packrace_pack::maintain::repack::{RepackRequest, Repacked, Scope, Unreachable};
use packrace_store::expiry::expiry_of_objects;
use packrace_store::publish::loose_compression;
use packrace_store::{Config, Repository, RootKinds, Snapshot, check_ref_objects, roots};

use crate::call::Call;
use crate::call::discovery::{repository_as_it_is, with_refs};
use crate::call::fatal::Fatal;
use crate::lazy_fetch::fetch_unpromised;
use crate::options::{PackingOptions, RepackOptions};
use crate::packs::settings::{
    at_least_a_mebibyte, bitmap_request, filter_of, hash_as_bitmaps, pack_files, recent_objects, settings,
};
use crate::progress::{self, Progress};
use crate::revisions::{Revisions, with_attribute_tree};
use crate::work_tree::path_from_top;

const NOT_ALL_PACKED: &str = "warning: disabling bitmap writing, as some objects are not being packed";

/// Implements `git repack`.
pub fn run(call: &Call, args: &RepackOptions) -> Result<(), Fatal> {
    let repository = with_attribute_tree(call, with_refs(repository_as_it_is(call)?)?)?;
    let config = repository.config();
    let midx = midx_mode(args, config)?;
    refuse_conflicts(call, args, config)?;
    let bitmaps = Bitmaps::of(call, args, &repository)?;
    let filter_to = args.filter_to.as_ref().map(|path| path_from_top(&repository, call, path)).transpose()?;
    let plan = Plan::of(args, config, bitmaps == Bitmaps::Asked)?;
    let (writes_midx, cruft) = (midx != MultiPackIndexMode::No, cruft_packing(args, config)?);
    let expire_to = args.expire_to.as_ref().map(|path| path_from_top(&repository, call, path)).transpose()?;
    fetch_unpromised(call, &repository, &packrace_pack::NoProgress)?;
    // The snapshot is taken before refs are read: objects pushed in between are loose, or in packs that stay.
    let request_objects = Arc::new(RequestObjects::new(repository.snapshot()?));
    let mut revisions = Revisions::new(call, &repository, request_objects.snapshot());
    let found = roots(&repository, plan.roots(bitmaps))?;
    let asked_bitmap = || bitmap_request(call, &repository, &found.refs);
    let bitmap = (bitmaps != Bitmaps::No).then(asked_bitmap).transpose()?;
    let mut request = RepackRequest {
        scope: plan.scope,
        delete: args.delete,
        local: args.local,
        pack_kept: plan.pack_kept,
        keep_packs: kept_packs(args, (plan.scope, midx), request_objects.snapshot(), config)?,
        soft_tips: found.soft().collect(),
        tips: found.refs,
        bitmap: bitmap.clone().filter(|_| !writes_midx),
        filter: filter_of(&args.filter, |name| revisions.resolve(name))?,
        filter_to,
        expire_to,
        islands: match is_asked(args.delta_islands, config, "repack.useDeltaIslands")? {
            true => Some(islands(&repository, &request_objects, &packrace_pack::NoProgress)?),
            false => None,
        },
        recent: if plan.drops_unreachable() { recent_objects(call, &repository)? } else { Vec::new() },
        max_cruft_bytes: at_least_a_mebibyte(call, args.max_cruft_size.filter(|_| args.cruft)),
        // If objects expire, no pack is spared.
        long_cruft_bytes: args.combine_cruft_below_size.filter(|_| args.cruft_expiration.is_none()),
        ..base_request(call, args, &cruft, config, available_threads())?
    };
    if request.bitmap.is_some() {
        hash_as_bitmaps(call, &mut request.settings);
    }
    if args.delete {
        // New packs are durable before the packs that they replace are deleted.
        request.files.policy = request.files.policy.of_rewrites();
    }
    let is_shown = progress::is_wanted(call, args.quiet.then_some(false));
    let progress = Progress::new(is_shown, call)?.with_threads(request.settings.threads);
    let repacked = traced::write(args, &cruft, &request_objects, &request, &progress);
    let repacked = repacked.map_err(|error| not_written(call, &repository, &progress, error))?;
    progress.finish();
    let asks_bitmap = bitmaps == Bitmaps::Asked && !writes_midx && plan.scope != Scope::Loose;
    report(call, args, &repacked, asks_bitmap)?;
    let finishing = Finishing {
        policy: request.files.policy,
        multi_pack_index: midx,
        bitmap: bitmap.filter(|_| writes_midx && bitmaps == Bitmaps::Asked),
        without_cruft: request.follows_cruft,
        delete: args.delete,
        dropped_beyond: plan.drops_unreachable().then(|| request.roots()),
        server_info: !args.no_update_server_info
            && config.boolean("repack.updateServerInfo")?.unwrap_or(true),
    };
    let finished = finish(&repository, &request_objects, &repacked, &finishing, &progress);
    match &finished {
        Ok(()) => progress.finish(),
        Err(_) => progress.stop(),
    }
    finished.map_err(not_finished)
}

/// Says what was not made.
fn report(call: &Call, args: &RepackOptions, repacked: &Repacked, asks_bitmap: bool) -> Result<(), Fatal> {
    if asks_bitmap && !repacked.is_closed {
        error_line!(call, "{NOT_ALL_PACKED}");
    }
    if repacked.new.is_empty() && !args.quiet {
        call.write_line("Nothing new to pack.")?;
    }
    Ok(())
}

fn not_finished(error: packrace_maintenance::Error) -> Fatal {
    let lacks_objects = matches!(error, packrace_maintenance::Error::NotClosed(_));
    let mut fatal = Fatal::from(error);
    if lacks_objects {
        // What git means for -1; `multi-pack-index write` ends with 1.
        fatal.code = 255;
    }
    fatal
}

/// The multi-pack-indexes to write.
fn midx_mode(args: &RepackOptions, config: &Config) -> Result<MultiPackIndexMode, Fatal> {
    Ok(match args.write_midx.as_deref().map(is_incremental).transpose()? {
        None => MultiPackIndexMode::No,
        Some(false) => MultiPackIndexMode::Single,
        Some(true) => {
            let factor = at_least(config, "repack.midxSplitFactor", "--midx-split-factor", 2, 2)?;
            MultiPackIndexMode::Chain { split_factor: factor }
        }
    })
}

/// Whether this mode of `--write-midx` adds a file to a chain.
pub(crate) fn is_incremental(mode: &str) -> Result<bool, Fatal> {
    match mode {
        "" | "default" => Ok(false),
        "incremental" => Ok(true),
        other => Err(Fatal::refused(format!("unknown value for write-midx: {other}"))),
    }
}

/// A number of the configuration; git refuses it in the name of an option.
fn at_least(config: &Config, name: &str, option: &str, default: u32, least: i64) -> Result<u32, Fatal> {
    match config.integer(name)? {
        None => Ok(default),
        Some(number) if number >= least => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Some(number) => Err(Fatal::new(format!("invalid value for {option}: {number}"))),
    }
}

/// The packs that stay: those of `--keep-pack`, and, in a geometric repack, those of a chain of multi-pack-indexes,
/// but for the packs of the file on top if they are many.
fn kept_packs(
    args: &RepackOptions,
    mode: (Scope, MultiPackIndexMode),
    snapshot: &Snapshot,
    config: &Config,
) -> Result<Vec<String>, Fatal> {
    let mut kept = args.keep_pack.clone();
    if let (Scope::Geometric(_), MultiPackIndexMode::Chain { .. }) = mode {
        let threshold = at_least(config, "repack.midxNewLayerThreshold", "--midx-new-layer-threshold", 8, 1)?;
        let Some(own) = snapshot.own_multi_pack_index() else { return Ok(kept) };
        let mut chain = own.chain;
        if chain.layers().last().is_some_and(|top| top.pack_count() >= threshold) {
            chain.truncate(chain.layers().len() - 1);
        }
        kept.extend(chain.pack_stems().map(str::to_owned));
    }
    Ok(kept)
}

/// The error if packs could not be written.
fn not_written(call: &Call, repository: &Repository, progress: &Progress, error: PackFilesError) -> Fatal {
    progress.stop();
    // As git, it tells of the ref if that is what cannot be read.
    if !matches!(error, PackFilesError::DamagedIndex(_))
        && let Err(error) = check_ref_objects(repository)
    {
        return error.into();
    }
    if let PackFilesError::NotClosed(missing) = &error {
        error_line!(call, "warning: {}", not_closed_warning(missing));
    }
    error.into()
}

/// The option if given, else the configuration.
fn is_asked(typed: Option<bool>, config: &Config, name: &str) -> Result<bool, Fatal> {
    Ok(match typed {
        Some(typed) => typed,
        None => config.boolean(name)?.unwrap_or(false),
    })
}

/// The options for packs. Unlike `pack-objects`, 0 is no version of hashes, but the default.
fn packing(args: &RepackOptions) -> PackingOptions {
    let name_hash_version = args.packing.name_hash_version.filter(|version| *version > 0);
    PackingOptions { name_hash_version, ..args.packing.clone() }
}

/// Pack settings, with no objects selected; `cruft` are the options for cruft packs.
pub(crate) fn base_request(
    call: &Call,
    args: &RepackOptions,
    cruft: &PackingOptions,
    config: &Config,
    threads: usize,
) -> Result<RepackRequest, Fatal> {
    Ok(RepackRequest {
        scope: Scope::Loose,
        delete: false,
        local: false,
        pack_kept: false,
        keep_packs: Vec::new(),
        tips: Vec::new(),
        soft_tips: Vec::new(),
        settings: reused(args, settings(call, &packing(args), &args.filter, config, threads)?),
        cruft_settings: reused(args, settings(call, cruft, &[], config, threads)?),
        ofs_delta: config.boolean("repack.useDeltaBaseOffset")?.unwrap_or(true),
        bitmap: None,
        filter: None,
        filter_to: None,
        expire_to: None,
        files: pack_files(call, &args.packing, config)?,
        islands: None,
        recent: Vec::new(),
        max_cruft_bytes: None,
        long_cruft_bytes: None,
        follows_cruft: !config.boolean("repack.midxMustContainCruft")?.unwrap_or(true),
        loose_compression: loose_compression(config)?,
    })
}

/// Whether bitmaps are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bitmaps {
    No,
    /// If possible, as for every bare repository.
    Usual,
    Asked,
}

impl Bitmaps {
    fn of(call: &Call, args: &RepackOptions, repository: &Repository) -> Result<Self, Fatal> {
        let config = repository.config();
        let configured = config.boolean("repack.writeBitmaps")?;
        let configured = configured.or(config.boolean("pack.writeBitmaps")?);
        let all = args.all || args.all_and_loosen || args.cruft;
        let asked = args.write_bitmap_index.or(configured);
        if asked == Some(true) && !all && args.write_midx.is_none() {
            let text = "Incremental repacks are incompatible with bitmap indexes.  Use\n--no-write-bitmap-index or disable the pack.writeBitmaps configuration.";
            return Err(Fatal::new(text));
        }
        // For git, they are also usual beside a multi-pack-index.
        let are_usual = asked.is_none() && (args.write_midx.is_some() || all && repository.is_bare()?);
        let are_wanted = asked == Some(true) || are_usual;
        if are_wanted && args.local && !repository.borrowed_object_dirs().is_empty() {
            error_line!(call, "{NOT_ALL_PACKED}");
            return Ok(Bitmaps::No);
        }
        Ok(match asked {
            Some(true) => Bitmaps::Asked,
            None if are_usual && args.write_midx.is_none() => Bitmaps::Usual,
            _ => Bitmaps::No,
        })
    }
}

fn conflict<T>(a: &str, b: &str) -> Result<T, Fatal> {
    Err(Fatal::new(format!("options '{a}' and '{b}' cannot be used together")))
}

/// Refuses what git refuses before it looks at bitmaps.
fn refuse_conflicts(call: &Call, args: &RepackOptions, config: &Config) -> Result<(), Fatal> {
    if args.delete && config.boolean("extensions.preciousObjects")?.unwrap_or(false) {
        return Err(Fatal::new("cannot delete packs in a precious-objects repo"));
    }
    if args.keep_unreachable && (args.all_and_loosen || args.unpack_unreachable.is_some()) {
        return conflict("-A", "-k/--keep-unreachable");
    }
    if args.cruft && (args.all_and_loosen || args.unpack_unreachable.is_some()) {
        return conflict("-A", "--cruft");
    }
    if args.cruft && args.keep_unreachable {
        return conflict("-k/--keep-unreachable", "--cruft");
    }
    if is_asked(args.delta_islands, config, "repack.useDeltaIslands")? {
        config.need_values(&["pack.island", "pack.islandCore"])?;
    }
    call.environment.booleans.check(&["GIT_REF_PARANOIA"])
}

/// The options, resolved.
struct Plan {
    scope: Scope,
    pack_kept: bool,
}

impl Plan {
    fn of(args: &RepackOptions, config: &Config, is_asked: bool) -> Result<Self, Fatal> {
        let all = args.all || args.all_and_loosen || args.cruft;
        let factor = args.geometric.unwrap_or(0);
        if args.filter.is_empty() && args.filter_to.is_some() {
            return Err(Fatal::new("option '--filter-to' can only be used along with '--filter'"));
        }
        if factor != 0 && all {
            return conflict("--geometric", "-A/-a");
        }
        if factor != 0 && !args.filter.is_empty() {
            // Git starts `pack-objects --stdin-packs`, which refuses it.
            return conflict("--stdin-packs", "--filter");
        }
        let scope = match u32::try_from(factor.max(0)) {
            Ok(0) if all => Scope::All(unreachable(args)),
            Ok(0) => Scope::Loose,
            Ok(factor) => Scope::Geometric(factor),
            Err(_) => Scope::Geometric(u32::MAX),
        };
        let pack_kept = match args.pack_kept_objects {
            Some(typed) => typed,
            None => {
                config.boolean("repack.packKeptObjects")?.unwrap_or(is_asked && args.write_midx.is_none())
            }
        };
        Ok(Plan { scope, pack_kept })
    }
}

impl Plan {
    /// The roots that it needs.
    fn roots(&self, bitmaps: Bitmaps) -> RootKinds {
        match self.scope {
            // It looks at packs and loose objects, whatever reaches them.
            Scope::Geometric(_) => RootKinds { refs: bitmaps != Bitmaps::No, logged: false, indexed: false },
            Scope::All(_) | Scope::Loose => RootKinds::ALL,
        }
    }

    /// Whether this repack can delete objects.
    fn drops_unreachable(&self) -> bool {
        match self.scope {
            Scope::All(Unreachable::Drop) => true,
            Scope::All(Unreachable::Loosen { expired } | Unreachable::Cruft { expired }) => {
                expired > i64::MIN
            }
            Scope::All(Unreachable::Append) | Scope::Loose | Scope::Geometric(_) => false,
        }
    }
}

fn unreachable(args: &RepackOptions) -> Unreachable {
    let before = |text: &Option<String>| text.as_deref().map_or(i64::MIN, expiry_of_objects);
    if args.cruft {
        Unreachable::Cruft { expired: before(&args.cruft_expiration) }
    } else if args.all_and_loosen {
        Unreachable::Loosen { expired: before(&args.unpack_unreachable) }
    } else if args.keep_unreachable {
        Unreachable::Append
    } else {
        Unreachable::Drop
    }
}

/// The options for cruft packs. As git does, and not as it documents, `repack.cruft…` win over the command line.
fn cruft_packing(args: &RepackOptions, config: &Config) -> Result<PackingOptions, Fatal> {
    if !args.cruft {
        return Ok(packing(args));
    }
    let number = |name: &str, given: Option<i64>| config.integer(name).map(|number| number.or(given));
    let memory = config.integer("repack.cruftWindowMemory")?.and_then(|bytes| u64::try_from(bytes).ok());
    Ok(PackingOptions {
        window: number("repack.cruftWindow", args.packing.window)?,
        window_memory: memory.or(args.packing.window_memory),
        depth: number("repack.cruftDepth", args.packing.depth)?,
        threads: number("repack.cruftThreads", args.packing.threads)?,
        max_pack_size: args.max_cruft_size.or(args.packing.max_pack_size),
        ..packing(args)
    })
}

fn reused(args: &RepackOptions, settings: Settings) -> Settings {
    Settings {
        reuse_deltas: !args.no_reuse_delta && !args.no_reuse_object,
        reuse_objects: !args.no_reuse_object,
        ..settings
    }
}
