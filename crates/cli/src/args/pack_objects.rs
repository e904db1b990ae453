use std::path::PathBuf;

use packrace_commands::Fatal;
use packrace_commands::options::PackObjectsOptions;

use super::chosen;
use super::packing::Packing;

#[derive(Debug, Default, clap::Args)]
pub struct PackObjects {
    /// Read revisions from standard input, one a line, and pack what they reach.
    #[arg(long, overrides_with = "no_revs")]
    pub revs: bool,
    #[arg(long, hide = true)]
    pub no_revs: bool,
    /// Read names of packs from standard input and pack what is in them, but not what is in a pack with a ^ before it.
    #[arg(long, overrides_with = "no_stdin_packs")]
    pub stdin_packs: bool,
    #[arg(long, hide = true)]
    pub no_stdin_packs: bool,
    /// Pack what the refs reach; implies --revs.
    #[arg(long)]
    pub all: bool,
    /// Pack what the reflogs name and reach; implies --revs.
    #[arg(long)]
    pub reflog: bool,
    /// Pack what the indexes of work trees name; implies --revs.
    #[arg(long)]
    pub indexed_objects: bool,
    /// Leave out what is in a pack; implies --revs, or with --stdin-packs, adds loose objects.
    #[arg(long)]
    pub unpacked: bool,
    /// Leave out what is in a pack already, also in one of an alternate.
    #[arg(long, overrides_with = "no_incremental")]
    pub incremental: bool,
    #[arg(long, hide = true)]
    pub no_incremental: bool,
    /// Leave out what an alternate has.
    #[arg(long, overrides_with = "no_local")]
    pub local: bool,
    #[arg(long, hide = true)]
    pub no_local: bool,
    /// Leave out what is in a pack with a .keep.
    #[arg(long, overrides_with = "no_honor_pack_keep")]
    pub honor_pack_keep: bool,
    #[arg(long, hide = true)]
    pub no_honor_pack_keep: bool,
    /// Leave out what is in this pack, as if it had a .keep.
    #[arg(long, value_name = "NAME", overrides_with = "no_keep_pack")]
    pub keep_pack: Vec<String>,
    #[arg(long, hide = true, overrides_with = "keep_pack")]
    pub no_keep_pack: bool,
    /// Deltas may refer to bases that only the receiver has; needs --stdout.
    #[arg(long, overrides_with = "no_thin")]
    pub thin: bool,
    #[arg(long, hide = true)]
    pub no_thin: bool,
    /// Make a pack for a receiver whose history is cut; where, is on standard input.
    #[arg(long, overrides_with = "no_shallow")]
    pub shallow: bool,
    #[arg(long, hide = true)]
    pub no_shallow: bool,
    /// Pack annotated tags with what they tag.
    #[arg(long, overrides_with = "no_include_tag")]
    pub include_tag: bool,
    #[arg(long, hide = true)]
    pub no_include_tag: bool,
    /// Leave out what this filter leaves out; of several, what any leaves out.
    #[arg(long, value_name = "SPEC", overrides_with = "no_filter")]
    pub filter: Vec<String>,
    #[arg(long, hide = true)]
    pub no_filter: bool,
    /// What happens when objects are missing: error, allow-any or allow-promisor.
    #[arg(long, value_name = "ACTION")]
    pub missing: Option<String>,
    /// Leave out what is in a pack of a promisor, and what only that reaches.
    #[arg(long, overrides_with = "no_exclude_promisor_objects")]
    pub exclude_promisor_objects: bool,
    #[arg(long, hide = true)]
    pub no_exclude_promisor_objects: bool,
    /// Leave out objects that uploadpack.blobPackfileUri offers by this protocol, and say where their packs are.
    #[arg(long, value_name = "PROTOCOL")]
    pub uri_protocol: Vec<String>,
    /// Add what is in packs and not reached; implies --revs.
    #[arg(long, overrides_with = "no_keep_unreachable")]
    pub keep_unreachable: bool,
    #[arg(long, hide = true)]
    pub no_keep_unreachable: bool,
    /// Add what is loose and not reached; implies --revs.
    #[arg(long, overrides_with = "no_pack_loose_unreachable")]
    pub pack_loose_unreachable: bool,
    #[arg(long, hide = true)]
    pub no_pack_loose_unreachable: bool,
    /// Make loose what is in packs and not packed now; with --all, --reflog and --indexed-objects unless it is older
    /// than WHEN. Implies --revs.
    #[arg(
        long,
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        overrides_with = "no_unpack_unreachable"
    )]
    pub unpack_unreachable: Option<String>,
    #[arg(long, hide = true)]
    pub no_unpack_unreachable: bool,
    /// Pack what is loose or in packs that standard input names with a -, and in no other pack.
    #[arg(long, overrides_with = "no_cruft")]
    pub cruft: bool,
    #[arg(long, hide = true)]
    pub no_cruft: bool,
    /// The same, without what is older than WHEN.
    #[arg(long, value_name = "WHEN", overrides_with = "no_cruft_expiration")]
    pub cruft_expiration: Option<String>,
    #[arg(long, hide = true)]
    pub no_cruft_expiration: bool,
    /// Make no pack without objects.
    #[arg(long, overrides_with = "no_non_empty")]
    pub non_empty: bool,
    #[arg(long, hide = true)]
    pub no_non_empty: bool,
    /// Taken for compatibility: grafts hide no parents here.
    #[arg(long)]
    pub keep_true_parents: bool,
    #[command(flatten)]
    pub packing: Packing,
    /// Level of zlib, -1 for its default.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub compression: Option<i64>,
    /// Find every delta anew.
    #[arg(long, overrides_with = "reuse_delta")]
    pub no_reuse_delta: bool,
    #[arg(long, hide = true)]
    pub reuse_delta: bool,
    /// Deflate every object anew.
    #[arg(long, overrides_with = "reuse_object")]
    pub no_reuse_object: bool,
    #[arg(long, hide = true)]
    pub reuse_object: bool,
    /// Name delta bases by distance, which is shorter.
    #[arg(long, overrides_with = "no_delta_base_offset")]
    pub delta_base_offset: bool,
    #[arg(long, hide = true)]
    pub no_delta_base_offset: bool,
    /// Make no delta that crosses the shores of the islands that pack.island names.
    #[arg(long, overrides_with = "no_delta_islands")]
    pub delta_islands: bool,
    #[arg(long, hide = true)]
    pub no_delta_islands: bool,
    /// Version of the index, 1 or 2.
    #[arg(long, value_name = "VERSION")]
    pub index_version: Option<String>,
    /// With --all, write a bitmap beside the pack.
    #[arg(long, overrides_with_all = ["no_write_bitmap_index", "write_bitmap_index_quiet"])]
    pub write_bitmap_index: bool,
    #[arg(long, hide = true, overrides_with_all = ["no_write_bitmap_index", "write_bitmap_index"])]
    pub write_bitmap_index_quiet: bool,
    #[arg(long, hide = true)]
    pub no_write_bitmap_index: bool,
    /// Use bitmaps where there are any (the default, unless pack.useBitmaps says otherwise).
    #[arg(long, overrides_with = "no_use_bitmap_index")]
    pub use_bitmap_index: bool,
    /// Find everything by walking.
    #[arg(long)]
    pub no_use_bitmap_index: bool,
    /// Say nothing while it is done.
    #[arg(short = 'q', long, overrides_with_all = ["no_quiet", "progress", "no_progress", "all_progress"])]
    pub quiet: bool,
    #[arg(long, hide = true, overrides_with = "quiet")]
    pub no_quiet: bool,
    /// Say what is done, also where standard error is no terminal; with --stdout not how the pack is written.
    #[arg(long, overrides_with_all = ["quiet", "no_progress", "all_progress"])]
    pub progress: bool,
    #[arg(long, hide = true, overrides_with_all = ["quiet", "progress", "all_progress"])]
    pub no_progress: bool,
    /// The same, also how the pack is written.
    #[arg(long, overrides_with_all = ["quiet", "progress", "no_progress"])]
    pub all_progress: bool,
    /// Let progress, where there is any, be as with --all-progress.
    #[arg(long)]
    pub all_progress_implied: bool,
    /// Taken for compatibility: the same objects are found with and without.
    #[arg(long)]
    pub sparse: bool,
    #[arg(long, hide = true)]
    pub no_sparse: bool,
    /// Write the pack to standard output.
    #[arg(long, overrides_with = "no_stdout")]
    pub stdout: bool,
    #[arg(long, hide = true)]
    pub no_stdout: bool,
    /// The beginning of the names of the files that are written.
    pub base_name: Option<PathBuf>,
    #[command(flatten)]
    pub missing_options: NotOffered,
}

// Options of git pack-objects that are known so that they can be refused by their name.
#[derive(Debug, Default, clap::Args)]
pub struct NotOffered {
    #[arg(long, hide = true)]
    pub path_walk: bool,
}

impl TryFrom<PackObjects> for PackObjectsOptions {
    type Error = Fatal;

    fn try_from(args: PackObjects) -> Result<Self, Fatal> {
        if args.missing_options.path_walk {
            return Err(Fatal::usage("option `path-walk' is not supported"));
        }
        Ok(PackObjectsOptions {
            revs: args.revs,
            stdin_packs: args.stdin_packs,
            all: args.all,
            reflog: args.reflog,
            indexed_objects: args.indexed_objects,
            unpacked: args.unpacked,
            incremental: args.incremental,
            local: args.local,
            honor_pack_keep: args.honor_pack_keep,
            keep_pack: args.keep_pack,
            thin: args.thin,
            include_tag: args.include_tag,
            filter: args.filter,
            missing: args.missing,
            exclude_promisor_objects: args.exclude_promisor_objects,
            uri_protocol: args.uri_protocol,
            keep_unreachable: args.keep_unreachable,
            pack_loose_unreachable: args.pack_loose_unreachable,
            unpack_unreachable: args.unpack_unreachable,
            cruft: args.cruft,
            cruft_expiration: args.cruft_expiration,
            non_empty: args.non_empty,
            packing: args.packing.into(),
            compression: args.compression,
            no_reuse_delta: args.no_reuse_delta,
            no_reuse_object: args.no_reuse_object,
            delta_base_offset: args.delta_base_offset,
            delta_islands: args.delta_islands,
            index_version: args.index_version,
            write_bitmap_index: args.write_bitmap_index,
            write_bitmap_index_quiet: args.write_bitmap_index_quiet,
            no_use_bitmap_index: args.no_use_bitmap_index,
            quiet: args.quiet,
            progress: chosen(args.progress, args.no_progress),
            all_progress: args.all_progress,
            all_progress_implied: args.all_progress_implied,
            stdout: args.stdout,
            base_name: args.base_name,
        })
    }
}
