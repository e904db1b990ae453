//! How packs are made, by options and configuration.

use packrace_os::process::available_threads;
use packrace_pack::{NameHashVersion, Settings};
use packrace_store::Repository;

use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::options::PackObjectsOptions;
use crate::packs::settings::hash_as_bitmaps;

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
