use std::path::PathBuf;

use packrace_commands::options::RepackOptions;

use super::chosen;
use super::packing::{Packing, parse_bytes};

#[derive(Debug, Default, clap::Args)]
pub struct Repack {
    /// Pack everything that is referenced into a single pack.
    #[arg(short = 'a')]
    pub all: bool,
    /// As -a; with -d, what nothing refers to becomes loose.
    #[arg(short = 'A')]
    pub all_and_loosen: bool,
    /// As -a; with -d, what nothing refers to goes into a cruft pack.
    #[arg(long, overrides_with = "no_cruft")]
    pub cruft: bool,
    #[arg(long, hide = true)]
    pub no_cruft: bool,
    /// With --cruft, leave out objects that nothing refers to and that are older than WHEN.
    #[arg(long, value_name = "WHEN")]
    pub cruft_expiration: Option<String>,
    /// Longest cruft pack, in bytes, if not that of --max-pack-size.
    #[arg(long, value_name = "N", value_parser = parse_bytes)]
    pub max_cruft_size: Option<u64>,
    /// Then remove packs and loose objects that have become redundant.
    #[arg(short = 'd')]
    pub delete: bool,
    /// Find every delta anew.
    #[arg(short = 'f')]
    pub no_reuse_delta: bool,
    /// Deflate every object anew.
    #[arg(short = 'F')]
    pub no_reuse_object: bool,
    /// Do not update the files that the dumb HTTP protocol needs.
    #[arg(short = 'n')]
    pub no_update_server_info: bool,
    /// Say nothing while it is done.
    #[arg(short = 'q', long, overrides_with = "no_quiet")]
    pub quiet: bool,
    #[arg(long, hide = true)]
    pub no_quiet: bool,
    /// Leave out what an alternate has.
    #[arg(short = 'l', long, overrides_with = "no_local")]
    pub local: bool,
    #[arg(long, hide = true)]
    pub no_local: bool,
    /// Write a reachability bitmap.
    #[arg(short = 'b', long, overrides_with = "no_write_bitmap_index")]
    pub write_bitmap_index: bool,
    /// Write no bitmap, whatever the configuration says.
    #[arg(long)]
    pub no_write_bitmap_index: bool,
    /// Make no delta that crosses the shores of the islands that pack.island names.
    #[arg(short = 'i', long, overrides_with = "no_delta_islands")]
    pub delta_islands: bool,
    #[arg(long, hide = true)]
    pub no_delta_islands: bool,
    /// With -A, drop what nothing refers to and is older than WHEN.
    #[arg(long, value_name = "WHEN", overrides_with = "no_unpack_unreachable")]
    pub unpack_unreachable: Option<String>,
    #[arg(long, hide = true)]
    pub no_unpack_unreachable: bool,
    /// With -a and -d, append what nothing refers to to the pack.
    #[arg(short = 'k', long, overrides_with = "no_keep_unreachable")]
    pub keep_unreachable: bool,
    #[arg(long, hide = true)]
    pub no_keep_unreachable: bool,
    #[command(flatten)]
    pub packing: Packing,
    /// With -a, put what this filter leaves out into a pack of its own; of several, what any leaves out.
    #[arg(long, value_name = "SPEC")]
    pub filter: Vec<String>,
    /// Where that pack goes, as the beginning of the names of its files.
    #[arg(long, value_name = "PREFIX")]
    pub filter_to: Option<PathBuf>,
    /// Pack the objects of packs with a .keep too; the packs themselves stay.
    #[arg(long, overrides_with = "no_pack_kept_objects")]
    pub pack_kept_objects: bool,
    #[arg(long, hide = true)]
    pub no_pack_kept_objects: bool,
    /// Leave this pack alone, as if it had a .keep.
    #[arg(long, value_name = "NAME")]
    pub keep_pack: Vec<String>,
    /// Roll up small packs, so that each has FACTOR times the objects of the next smaller one.
    #[arg(short = 'g', long, value_name = "FACTOR", allow_negative_numbers = true)]
    pub geometric: Option<i64>,
    /// Write a multi-pack-index of the packs that stay.
    #[arg(short = 'm', long, overrides_with = "no_write_midx")]
    pub write_midx: bool,
    #[arg(long, hide = true)]
    pub no_write_midx: bool,
    /// With --cruft and -d, where what expires is put, as the beginning of the names of a pack's files.
    #[arg(long, value_name = "PREFIX")]
    pub expire_to: Option<PathBuf>,
    /// What is no option is not looked at, as in git.
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
