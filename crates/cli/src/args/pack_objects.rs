use std::path::PathBuf;

use packrace_commands::options::PackObjectsOptions;
use packrace_commands::{numbers, option_values};

use super::chosen;
use super::packing::Packing;

#[derive(Debug, Default, clap::Args)]
#[command(args = super::taken_back(&[
    "revs", "stdin_packs", "incremental", "local", "honor_pack_keep", "keep_pack", "thin", "shallow",
    "include_tag", "filter", "exclude_promisor_objects", "exclude_promisor_objects_best_effort",
    "uri_protocol", "keep_unreachable", "pack_loose_unreachable", "unpack_unreachable", "non_empty",
    "keep_true_parents", "delta_base_offset", "delta_islands", "write_bitmap_index",
    "all_progress_implied", "stdout", "no_reuse_delta", "no_reuse_object",
]))]
pub struct PackObjects {
    /// Read revisions from standard input, one per line, and pack the objects that they reach.
    #[arg(long)]
    pub revs: bool,
    /// Read pack names from standard input and pack their objects, except those in packs marked with ^; =follow: and objects of other packs that they reach, also through packs marked with !.
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = option_values::packs_mode)]
    pub stdin_packs: Option<String>,
    /// Pack all objects reachable from refs; implies --revs.
    #[arg(long)]
    pub all: bool,
    /// Pack all objects reachable from reflog entries; implies --revs.
    #[arg(long)]
    pub reflog: bool,
    /// Pack all objects in the indexes of work trees; implies --revs.
    #[arg(long)]
    pub indexed_objects: bool,
    /// Omit objects that are in a pack; implies --revs. With --stdin-packs, add loose objects.
    #[arg(long)]
    pub unpacked: bool,
    /// Omit objects that are in a pack, including packs of alternates.
    #[arg(long)]
    pub incremental: bool,
    /// Omit objects of alternates.
    #[arg(long)]
    pub local: bool,
    /// Omit objects of packs with a .keep file.
    #[arg(long)]
    pub honor_pack_keep: bool,
    /// Omit objects of this pack, as if it had a .keep file.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub keep_pack: Vec<String>,
    /// Create a thin pack: omit delta bases that the receiver has; needs --stdout, implies --revs.
    #[arg(long)]
    pub thin: bool,
    /// Accepted for compatibility: with --revs, `--shallow OBJECT` lines on standard input name the receiver's shallow commits.
    #[arg(long)]
    pub shallow: bool,
    /// Pack annotated tags of packed objects.
    #[arg(long)]
    pub include_tag: bool,
    /// Omit objects that this filter omits; of several filters, those that any omits.
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true, value_parser = option_values::filter)]
    pub filter: Vec<String>,
    /// How to handle missing objects: error (the default), allow-any or allow-promisor.
    #[arg(long, value_name = "ACTION", allow_hyphen_values = true, value_parser = option_values::missing_action)]
    pub missing: Option<String>,
    /// Omit objects of promisor packs, and objects that only they reach.
    #[arg(long)]
    pub exclude_promisor_objects: bool,
    /// The same, but keep promised commits and tags that are named, or that what is packed refers to; implies --revs.
    #[arg(long)]
    pub exclude_promisor_objects_best_effort: bool,
    /// Omit objects that uploadpack.blobPackfileUri offers over this protocol, and print the URIs of their packs.
    #[arg(long, value_name = "PROTOCOL", allow_hyphen_values = true)]
    pub uri_protocol: Vec<String>,
    /// Add unreachable objects that are in packs; implies --revs.
    #[arg(long)]
    pub keep_unreachable: bool,
    /// Add unreachable loose objects; implies --revs.
    #[arg(long)]
    pub pack_loose_unreachable: bool,
    /// Make packed objects loose that are not packed now; with --all, --reflog and --indexed-objects, drop those older than WHEN; implies --revs.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub unpack_unreachable: Option<String>,
    /// Create a cruft pack: objects that are loose or in packs marked with - on standard input, and in no other pack.
    #[arg(long, overrides_with_all = ["no_cruft", "no_cruft_expiration"])]
    pub cruft: bool,
    /// Like --cruft, without objects older than WHEN.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "never")]
    #[arg(overrides_with_all = ["no_cruft", "no_cruft_expiration"])]
    pub cruft_expiration: Option<String>,
    #[arg(long, hide = true)]
    pub no_cruft: bool,
    #[arg(long, hide = true)]
    pub no_cruft_expiration: bool,
    /// Create no empty pack.
    #[arg(long)]
    pub non_empty: bool,
    /// Accepted for compatibility: no effect.
    #[arg(long)]
    pub keep_true_parents: bool,
    #[command(flatten)]
    pub packing: Packing,
    /// Compression level, 0 to 9; -1: the default of zlib.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::integer, overrides_with = "no_compression")]
    pub compression: Option<i64>,
    #[arg(long, hide = true)]
    pub no_compression: bool,
    /// Compute all deltas again.
    #[arg(long)]
    pub no_reuse_delta: bool,
    /// Compress all objects again.
    #[arg(long)]
    pub no_reuse_object: bool,
    /// Store delta bases as offsets, which are shorter than object IDs.
    #[arg(long)]
    pub delta_base_offset: bool,
    /// Restrict deltas to objects of the same islands (pack.island).
    #[arg(long)]
    pub delta_islands: bool,
    /// Version of the index, and the offset from which it uses 64-bit offsets.
    #[arg(long, value_name = "VERSION[,OFFSET]", allow_hyphen_values = true, value_parser = option_values::stored_index_version)]
    pub index_version: Option<String>,
    /// With --all, write a reachability bitmap.
    #[arg(long, overrides_with_all = ["no_write_bitmap_index", "write_bitmap_index_quiet"])]
    pub write_bitmap_index: bool,
    #[arg(long, hide = true, overrides_with_all = ["no_write_bitmap_index", "write_bitmap_index"])]
    pub write_bitmap_index_quiet: bool,
    #[arg(long, hide = true, overrides_with_all = ["write_bitmap_index", "write_bitmap_index_quiet"])]
    pub no_write_bitmap_index_quiet: bool,
    /// Use bitmaps if available (default: pack.useBitmaps).
    #[arg(long, overrides_with = "no_use_bitmap_index")]
    pub use_bitmap_index: bool,
    /// Do not use bitmaps.
    #[arg(long)]
    pub no_use_bitmap_index: bool,
    /// Show no progress.
    #[arg(short = 'q', long, overrides_with_all = ["progress", "no_progress", "all_progress"])]
    pub quiet: bool,
    /// Show progress even if standard error is not a terminal; with --stdout, except while the pack is written.
    #[arg(long, alias = "no-quiet", overrides_with_all = ["quiet", "no_progress", "all_progress"])]
    pub progress: bool,
    #[arg(long, hide = true, alias = "no-all-progress", overrides_with_all = ["quiet", "progress", "all_progress"])]
    pub no_progress: bool,
    /// Like --progress, also while the pack is written.
    #[arg(long, overrides_with_all = ["quiet", "progress", "no_progress"])]
    pub all_progress: bool,
    /// If progress is shown, show it as with --all-progress.
    #[arg(long)]
    pub all_progress_implied: bool,
    /// Of what the receiver has, visit only the paths of new objects (default: pack.useSparse, which is true).
    #[arg(long, overrides_with = "no_sparse")]
    pub sparse: bool,
    /// Visit all trees where the receiver's history begins, so that moved objects are not sent again.
    #[arg(long, overrides_with = "sparse")]
    pub no_sparse: bool,
    /// Write the pack to standard output.
    #[arg(long)]
    pub stdout: bool,
    /// Prefix of the names of the written files.
    pub base_name: Option<PathBuf>,
}

impl From<PackObjects> for PackObjectsOptions {
    fn from(args: PackObjects) -> Self {
        PackObjectsOptions {
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
            exclude_promisor_objects_best_effort: args.exclude_promisor_objects_best_effort,
            uri_protocol: args.uri_protocol,
            keep_unreachable: args.keep_unreachable,
            pack_loose_unreachable: args.pack_loose_unreachable,
            unpack_unreachable: args.unpack_unreachable,
            cruft: args.cruft,
            cruft_expiration: args.cruft_expiration,
            non_empty: args.non_empty,
            packing: args.packing.with_zeros().into(),
            compression: if args.no_compression { Some(0) } else { args.compression },
            no_reuse_delta: args.no_reuse_delta,
            no_reuse_object: args.no_reuse_object,
            delta_base_offset: args.delta_base_offset,
            delta_islands: args.delta_islands,
            index_version: args.index_version,
            write_bitmap_index: args.write_bitmap_index,
            write_bitmap_index_quiet: args.write_bitmap_index_quiet,
            no_use_bitmap_index: args.no_use_bitmap_index,
            sparse: chosen(args.sparse, args.no_sparse),
            quiet: args.quiet,
            progress: chosen(args.progress, args.no_progress),
            all_progress: args.all_progress,
            all_progress_implied: args.all_progress_implied,
            stdout: args.stdout,
            base_name: args.base_name,
        }
    }
}
