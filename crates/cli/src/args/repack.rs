use std::path::PathBuf;

use packrace_commands::options::RepackOptions;
use packrace_commands::{numbers, option_values};

use super::chosen;
use super::multi_pack_index::maybe_empty;
use super::packing::Packing;

#[derive(Debug, Default, clap::Args)]
#[command(args = super::taken_back(&[
    "cruft", "cruft_expiration", "quiet", "local", "unpack_unreachable", "keep_unreachable", "filter",
    "filter_to", "keep_pack", "geometric", "write_midx", "expire_to", "window_memory",
]))]
pub struct Repack {
    /// Pack all reachable objects into a single pack.
    #[arg(short = 'a')]
    pub all: bool,
    /// Like -a; with -d, unreachable objects become loose.
    #[arg(short = 'A')]
    pub all_and_loosen: bool,
    /// Like -a; with -d, unreachable objects go into a cruft pack.
    #[arg(long)]
    pub cruft: bool,
    /// With --cruft, drop unreachable objects older than WHEN.
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub cruft_expiration: Option<String>,
    /// Split cruft packs at N bytes, with k, m or g as units (default: --max-pack-size).
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::bytes)]
    pub max_cruft_size: Option<u64>,
    /// With --cruft, leave cruft packs alone that have N or more bytes, unless objects expire; units as above.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::bytes)]
    pub combine_cruft_below_size: Option<u64>,
    /// Delete redundant packs and loose objects afterwards.
    #[arg(short = 'd')]
    pub delete: bool,
    /// Compute all deltas again.
    #[arg(short = 'f')]
    pub no_reuse_delta: bool,
    /// Compress all objects again.
    #[arg(short = 'F')]
    pub no_reuse_object: bool,
    /// Do not update the files that the dumb HTTP protocol needs.
    #[arg(short = 'n')]
    pub no_update_server_info: bool,
    /// Print only errors and warnings.
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Omit objects of alternates.
    #[arg(short = 'l', long)]
    pub local: bool,
    /// Write a reachability bitmap.
    #[arg(short = 'b', long, overrides_with = "no_write_bitmap_index")]
    pub write_bitmap_index: bool,
    /// Write no bitmap, whatever repack.writeBitmaps says.
    #[arg(long)]
    pub no_write_bitmap_index: bool,
    /// Restrict deltas to objects of the same islands (pack.island).
    #[arg(short = 'i', long, overrides_with = "no_delta_islands")]
    pub delta_islands: bool,
    #[arg(long, hide = true)]
    pub no_delta_islands: bool,
    /// With -A, drop unreachable objects older than WHEN.
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub unpack_unreachable: Option<String>,
    /// With -a and -d, add unreachable objects to the pack.
    #[arg(short = 'k', long)]
    pub keep_unreachable: bool,
    #[command(flatten)]
    pub packing: Packing,
    /// Write packed objects that this filter omits to a separate pack; of several filters, those that any omits.
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true, value_parser = option_values::filter)]
    pub filter: Vec<String>,
    /// With --filter, prefix of the file names of the separate pack.
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true, value_parser = maybe_empty())]
    pub filter_to: Option<PathBuf>,
    /// Also pack objects of packs with a .keep file; these packs stay.
    #[arg(long, overrides_with = "no_pack_kept_objects")]
    pub pack_kept_objects: bool,
    #[arg(long, hide = true)]
    pub no_pack_kept_objects: bool,
    /// Keep this pack, as if it had a .keep file; may be repeated.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub keep_pack: Vec<String>,
    /// Combine small packs until each pack has at least FACTOR times the objects of the next smaller one.
    #[arg(short = 'g', long, value_name = "FACTOR", allow_hyphen_values = true, value_parser = numbers::integer)]
    pub geometric: Option<i64>,
    /// Write a multi-pack-index of the remaining packs; with `incremental`, a file of a chain of them.
    #[arg(short = 'm', long, value_name = "MODE")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "default", value_parser = option_values::midx_mode)]
    pub write_midx: Option<String>,
    /// With --cruft and -d, write expired objects to a pack with this file name prefix.
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true, value_parser = maybe_empty())]
    pub expire_to: Option<PathBuf>,
    /// Ignored, as in git.
    #[arg(hide = true)]
    pub ignored: Vec<String>,
}

impl From<Repack> for RepackOptions {
    fn from(args: Repack) -> Self {
        RepackOptions {
            all: args.all,
            all_and_loosen: args.all_and_loosen,
            cruft: args.cruft,
            cruft_expiration: args.cruft_expiration,
            max_cruft_size: args.max_cruft_size,
            combine_cruft_below_size: args.combine_cruft_below_size,
            delete: args.delete,
            no_reuse_delta: args.no_reuse_delta,
            no_reuse_object: args.no_reuse_object,
            no_update_server_info: args.no_update_server_info,
            quiet: args.quiet,
            local: args.local,
            write_bitmap_index: chosen(args.write_bitmap_index, args.no_write_bitmap_index),
            delta_islands: chosen(args.delta_islands, args.no_delta_islands),
            unpack_unreachable: args.unpack_unreachable,
            keep_unreachable: args.keep_unreachable,
            packing: args.packing.into(),
            filter: args.filter,
            filter_to: args.filter_to,
            pack_kept_objects: chosen(args.pack_kept_objects, args.no_pack_kept_objects),
            keep_pack: args.keep_pack,
            geometric: args.geometric,
            write_midx: args.write_midx,
            expire_to: args.expire_to,
        }
    }
}
