//! Pack settings from the configuration and command-line options.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use packrace_format::pack_index::Version;
use packrace_maintenance::bitmaps;
use packrace_object::ObjectId;
use packrace_os::process::available_threads;
use packrace_pack::filter::Filter;
use packrace_pack::maintain::pack_files::{BitmapRequest, PackFiles};
use packrace_pack::{MAX_DEPTH, NameHashVersion, Settings};
use packrace_store::publish::{PublishOptions, WritePolicy};
use packrace_store::{Config, Repository};

use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::options::PackingOptions;

/// Minimum of the pack size limit (git-pack-objects, "--max-pack-size").
const LEAST_PACK_BYTES: u64 = 1 << 20;

/// The largest `pack.deltaCacheLimit`; as in git, a negative one counts as larger.
const MAX_CACHED_DELTA_BYTES: i32 = 1_048_575;

/// Pack settings; `threads` is the number of processors, `filters` are those of the walk.
pub(crate) fn settings(
    call: &Call,
    args: &PackingOptions,
    filters: &[String],
    config: &Config,
    threads: usize,
) -> Result<Settings, Fatal> {
    let mut settings = Settings::of(config, threads)?;
    let not_negative = |number: i64| usize::try_from(number).unwrap_or(0);
    if let Some(window) = args.window {
        settings.window = not_negative(window);
    }
    if let Some(bytes) = args.window_memory {
        settings.window_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    let configured_depth = config.small_integer("pack.depth")?.map(i64::from);
    if let Some(depth) = args.depth.or(configured_depth).filter(|depth| *depth > i64::from(MAX_DEPTH)) {
        tracing::warn!("delta chain depth {depth} is too deep, forcing {MAX_DEPTH}");
    }
    let cached = config.small_integer("pack.deltaCacheLimit")?;
    if cached.is_some_and(|bytes| !(0..=MAX_CACHED_DELTA_BYTES).contains(&bytes)) {
        tracing::warn!("pack.deltaCacheLimit is too high, forcing {MAX_CACHED_DELTA_BYTES}");
    }
    if let Some(depth) = args.depth {
        settings.depth = not_negative(depth).min(usize::from(MAX_DEPTH)) as u16;
        settings.reused_depth = settings.depth;
    }
    let is_by_path = args.path_walk.unwrap_or(settings.name_hash == NameHashVersion::ByPath);
    // As in git, a negative number means the default.
    settings.name_hash = match args.name_hash_version.filter(|version| *version >= 0) {
        None | Some(1 | 2) if is_by_path && supports_path_walk(call, filters)? => NameHashVersion::ByPath,
        None | Some(1) => NameHashVersion::V1,
        Some(2) => NameHashVersion::V2,
        Some(version) => {
            return Err(Fatal::new(format!("invalid --name-hash-version option: {version}")));
        }
    };
    match args.threads {
        Some(0) => settings.threads = threads,
        // As in git, a negative number means one thread.
        Some(number) => settings.threads = not_negative(number).clamp(1, 256),
        None => {}
    }
    Ok(settings)
}

/// As in git, a pack with a bitmap is sorted by the hashes of names that its bitmap has.
pub fn hash_as_bitmaps(call: &Call, settings: &mut Settings) {
    if settings.name_hash == NameHashVersion::V2 {
        error_line!(call, "warning: currently, --write-bitmap-index requires --name-hash-version=1");
        settings.name_hash = NameHashVersion::V1;
    }
}

/// Whether `--path-walk` goes with these filters; git warns and does without it if it does not.
fn supports_path_walk(call: &Call, filters: &[String]) -> Result<bool, Fatal> {
    for filter in filters {
        if let Some(depth) = Filter::parse(filter.as_bytes()).map_err(Fatal::new)?.tree_depth() {
            error_line!(call, "error: tree:{depth} filter not supported by the path-walk API");
            error_line!(call, "warning: cannot use --filter with --path-walk");
            return Ok(false);
        }
    }
    Ok(true)
}

/// The configured request for bitmaps, of a multi-pack-index with the file beside it that the environment asks for.
pub(crate) fn bitmap_request(
    call: &Call,
    repository: &Repository,
    refs: &[ObjectId],
) -> Result<BitmapRequest, Fatal> {
    let mut request = bitmaps::bitmap_request(repository, refs, available_threads())?;
    request.options.reverse_file = call.environment.writes_midx_reverse;
    Ok(request)
}

/// How packs are stored.
pub(crate) fn pack_files(call: &Call, args: &PackingOptions, config: &Config) -> Result<PackFiles, Fatal> {
    let PublishOptions { reverse_index, index_version, .. } = PublishOptions::of(config)?;
    let policy = WritePolicy::of(config)?;
    Ok(PackFiles { policy, reverse_index, index_version, max_bytes: limit(call, args, config)? })
}

/// `VERSION[,OFFSET]`: the version of an index, and the offset above which it uses eight bytes per offset.
pub(crate) fn index_version(text: &str) -> Option<Version> {
    index_version_of(text, 0)
}

/// The same for a pack whose last object begins at `last_offset`: version 1 has no eight bytes for it.
pub(crate) fn index_version_of(text: &str, last_offset: u64) -> Option<Version> {
    let (version, offset) = match text.split_once(',') {
        None => (text, None),
        Some((version, offset)) => (version, Some(number(offset).filter(|number| *number < 1 << 31)?)),
    };
    match (decimal(version)?, offset) {
        (0 | 1, Some(large_above)) if last_offset > u64::from(large_above) => {
            Some(Version::V2 { large_above })
        }
        (0 | 1, _) => Some(Version::V1),
        (2, Some(large_above)) => Some(Version::V2 { large_above }),
        (2, None) => Some(Version::default()),
        _ => None,
    }
}

/// A decimal number of 32 bits. As in git, nothing is 0, and higher bits are lost.
fn decimal(text: &str) -> Option<u32> {
    if text.is_empty() {
        return Some(0);
    }
    text.trim_start().parse().ok().map(|number: u64| number as u32)
}

/// The same, or hexadecimal behind `0x`, or octal behind `0`.
fn number(text: &str) -> Option<u32> {
    let number = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(hex), _) => u64::from_str_radix(hex, 16),
        (None, Some(octal)) if !octal.is_empty() => u64::from_str_radix(octal, 8),
        _ => return decimal(text),
    };
    number.ok().map(|number| number as u32)
}

/// The pack size limit, if there is one.
fn limit(call: &Call, args: &PackingOptions, config: &Config) -> Result<Option<u64>, Fatal> {
    let configured = config.bytes("pack.packSizeLimit")?;
    Ok(at_least_a_mebibyte(call, args.max_pack_size.filter(|bytes| *bytes > 0).or(configured)))
}

/// The effective limit; 0 means none.
pub(crate) fn at_least_a_mebibyte(call: &Call, limit: Option<u64>) -> Option<u64> {
    let limit = limit.filter(|bytes| *bytes > 0)?;
    if limit < LEAST_PACK_BYTES {
        error_line!(call, "warning: minimum pack size limit is 1 MiB");
    }
    Some(limit.max(LEAST_PACK_BYTES))
}

/// Objects named by the hooks in `gc.recentObjectsHook`, which run in a shell at the top of the work tree, or in the
/// git directory if there is none.
pub(crate) fn recent_objects(call: &Call, repository: &Repository) -> Result<Vec<ObjectId>, Fatal> {
    let mut recent = Vec::new();
    let work_tree = repository.work_tree()?;
    let dir = work_tree.as_deref().unwrap_or(repository.git_dir());
    for command in repository.config().strings("gc.recentObjectsHook") {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(OsStr::from_bytes(&command)).stdin(Stdio::null());
        if let Some(errors) = call.streams.errors.descriptor().map_err(Fatal::new)? {
            shell.stderr(errors);
        }
        let output = shell.current_dir(dir).output().map_err(Fatal::new)?;
        let _ = call.streams.errors.say(&output.stderr);
        if !output.status.success() {
            return Err(Fatal::new("unable to enumerate additional recent objects"));
        }
        for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let id = ObjectId::from_hex(line).ok().filter(|id| id.kind() == repository.hash_kind());
            let bad = || Fatal::new(format!("invalid extra cruft tip: '{}'", String::from_utf8_lossy(line)));
            recent.push(id.ok_or_else(bad)?);
        }
    }
    Ok(recent)
}

/// The filters that options name.
pub(crate) fn filters(specs: &[String]) -> Result<Vec<Filter>, Fatal> {
    specs.iter().map(|spec| Filter::parse(spec.as_bytes()).map_err(Fatal::new)).collect()
}

/// The combined filter of `specs`. `resolve` finds the patterns of `sparse:oid` by name.
pub(crate) fn filter_of(
    specs: &[String],
    mut resolve: impl FnMut(&[u8]) -> Result<Option<ObjectId>, Fatal>,
) -> Result<Option<Filter>, Fatal> {
    let mut filters = filters(specs)?;
    let mut filter = match filters.len() {
        0 => return Ok(None),
        1 => filters.remove(0),
        _ => Filter::Combine(filters),
    };
    for patterns in filter.patterns_mut() {
        let id = resolve(&patterns.name)?;
        let name = String::from_utf8_lossy(&patterns.name).into_owned();
        patterns.blob =
            Some(id.ok_or_else(|| Fatal::new(format!("unable to access sparse blob in '{name}'")))?);
    }
    Ok(Some(filter))
}
