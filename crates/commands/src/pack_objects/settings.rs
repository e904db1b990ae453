//! How packs are made, by options and configuration.

use packrace_format::pack_index;
use packrace_os::process::available_threads;
use packrace_pack::plan::MissingObjects;
use packrace_pack::{NameHashVersion, Settings};
use packrace_store::Repository;

use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::options::PackObjectsOptions;
use crate::packs::settings::{hash_as_bitmaps, index_version};

pub(super) fn settings(
    call: &Call,
    args: &PackObjectsOptions,
    repository: &Repository,
) -> Result<Settings, Fatal> {
    let threads = available_threads();
    let config = repository.config();
    let mut settings = crate::packs::settings::settings(call, &args.packing, &args.filter, config, threads)?;
    if args.delta_islands {
        config.need_values(&["pack.island", "pack.islandCore"])?;
        if settings.name_hash == NameHashVersion::ByPath {
            error_line!(call, "warning: cannot use --delta-islands with --path-walk");
            settings.name_hash = NameHashVersion::V1;
        }
    }
    if !args.stdout && (args.write_bitmap_index || args.write_bitmap_index_quiet) {
        hash_as_bitmaps(call, &mut settings);
    }
    settings.reuse_deltas = !args.no_reuse_delta && !args.no_reuse_object;
    settings.reuse_objects = !args.no_reuse_object;
    settings.sparse = args.sparse.unwrap_or(settings.sparse);
    match args.compression {
        None => {}
        Some(level @ -1..=9) => settings.compression = level as i32,
        Some(level) => return Err(Fatal::new(format!("bad pack compression level {level}"))),
    }
    Ok(settings)
}

/// Whether this mode of `--stdin-packs` adds what the objects of listed packs reach.
pub(crate) fn follows(mode: &str) -> Result<bool, Fatal> {
    match mode {
        "" => Ok(false),
        "follow" => Ok(true),
        other => Err(Fatal::new(format!("invalid value for 'stdin-packs': '{other}'"))),
    }
}

/// What `--missing` asks for.
pub(crate) fn gaps_of(missing: Option<&str>) -> Result<MissingObjects, Fatal> {
    match missing {
        None | Some("error") => Ok(MissingObjects::Errors),
        Some("allow-any") => Ok(MissingObjects::Any),
        Some("allow-promisor") => Ok(MissingObjects::Promised),
        Some(other) => Err(Fatal::new(format!("invalid value for '--missing': '{other}'"))),
    }
}

/// The format of `--index-version`.
pub(crate) fn pack_index_version(text: &str) -> Result<pack_index::Version, Fatal> {
    let number = text.split(',').next().unwrap_or_default().parse::<i64>();
    match (index_version(text), number) {
        // `index-pack` takes a comma with nothing behind it.
        (Some(version), _) if !text.ends_with(',') => Ok(version),
        (None, Ok(..0 | 3..)) => Err(Fatal::new(format!("unsupported index version {text}"))),
        _ => Err(Fatal::new(format!("bad index version '{text}'"))),
    }
}
