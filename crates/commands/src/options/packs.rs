//! Options of commands that read or write one pack.

use std::path::PathBuf;

/// The pack that `index-pack` indexes, and the files that it writes.
#[derive(Debug, Clone, Default)]
pub struct IndexPackOptions {
    /// Show progress.
    pub verbose: bool,
    /// With `verbose`, the progress title for received objects; at most one.
    pub progress_title: Vec<String>,
    /// Show progress of resolving deltas.
    pub show_resolving_progress: bool,
    /// Read the pack from the input, and store it at `pack` or in the repository.
    pub stdin: bool,
    /// Complete a thin pack with bases from the repository.
    pub fix_thin: bool,
    /// The path of the index; at most one.
    pub output: Vec<PathBuf>,
    /// Write a .keep file with this text, so that repack keeps the pack.
    pub keep: Option<String>,
    /// Mark the pack as a promisor pack, with this text.
    pub promisor: Option<String>,
    /// Write a reverse index, or none; if not given, `pack.writeReverseIndex`.
    pub rev_index: Option<bool>,
    /// The objects to refuse.
    pub fsck: FsckOptions,
    /// Exit with 1 if a link leaves the pack.
    pub check_self_contained_and_connected: bool,
    /// Compare the pack with its index.
    pub verify: bool,
    /// The same, with one line per object.
    pub verify_stat: bool,
    /// The same, with only the lengths of delta chains.
    pub verify_stat_only: bool,
    /// Threads that resolve deltas; 0: one per processor.
    pub threads: Option<String>,
    /// Largest accepted pack in bytes; 0: no limit.
    pub max_input_size: Option<u64>,
    /// Version of the index, and the offset from which it uses eight bytes per offset.
    pub index_version: Option<String>,
    /// The hash of the pack's objects: sha1 or sha256.
    pub object_format: Vec<String>,
    /// The header of the pack, which was already read from the input.
    pub pack_header: Option<String>,
    /// Write a NUL to the error output after the pack was read.
    pub report_end_of_input: bool,
    /// The pack.
    pub pack: Option<PathBuf>,
}

/// The packs that `verify-pack` compares with their indexes.
#[derive(Debug, Clone, Default)]
pub struct VerifyPackOptions {
    /// Print one line per object.
    pub verbose: bool,
    /// Print the lengths of delta chains.
    pub stat_only: bool,
    /// The hash of the packs' objects: sha1 or sha256.
    pub object_format: Option<String>,
    /// The packs' index files.
    pub packs: Vec<PathBuf>,
}

/// How `unpack-objects` stores objects.
#[derive(Debug, Clone, Default)]
pub struct UnpackObjectsOptions {
    /// Store nothing; only check whether the pack is complete.
    pub dry_run: bool,
    /// Print no progress.
    pub quiet: bool,
    /// Store the readable objects of a damaged pack.
    pub recover: bool,
    /// Refuse broken objects and links to missing objects. All settings count.
    pub strict: Vec<String>,
    /// The header of the pack, which was already read from the input.
    pub pack_header: Option<String>,
    /// Largest accepted pack in bytes; 0: no limit.
    pub max_input_size: Option<u64>,
}

/// Settings of new packs.
#[derive(Debug, Clone, Default)]
pub struct PackingOptions {
    /// Number of objects among which a delta base is searched.
    pub window: Option<i64>,
    /// Bytes of objects in each thread's window; suffixes k, m and g.
    pub window_memory: Option<u64>,
    /// Longest delta chain.
    pub depth: Option<i64>,
    /// Threads for the walk and the delta search; 0: one per processor.
    pub threads: Option<i64>,
    /// The path hash for the delta search; 2 separates equal file names in different directories.
    pub name_hash_version: Option<i64>,
    /// Compare objects with those of the same path first; if not given, `pack.usePathWalk` decides.
    pub path_walk: Option<bool>,
    /// Longest pack in bytes, at least 1 MiB; larger output is split. Suffixes k, m and g.
    pub max_pack_size: Option<u64>,
}

/// The objects that `pack-objects` packs, and how.
#[derive(Debug, Clone, Default)]
pub struct PackObjectsOptions {
    /// Read revisions from the input, one per line, and pack what they reach.
    pub revs: bool,
    /// Read pack names from the input and pack their objects, without the objects of packs marked with ^. If `follow`,
    /// also what they reach, as git-pack-objects says; otherwise the text is empty.
    pub stdin_packs: Option<String>,
    /// Pack everything that refs reach; implies `revs`.
    pub all: bool,
    /// Pack everything that reflogs reach; implies `revs`.
    pub reflog: bool,
    /// Pack objects in the indexes of work trees; implies `revs`.
    pub indexed_objects: bool,
    /// Omit packed objects; implies `revs`, or with `stdin_packs`, adds loose objects.
    pub unpacked: bool,
    /// Omit objects that are already in a pack, also in an alternate's.
    pub incremental: bool,
    /// Omit objects of alternates.
    pub local: bool,
    /// Omit objects of packs with a .keep file.
    pub honor_pack_keep: bool,
    /// Omit objects of this pack, as if it had a .keep file.
    pub keep_pack: Vec<String>,
    /// Allow delta bases that only the receiver has; needs `stdout`.
    pub thin: bool,
    /// Pack annotated tags together with the objects that they tag.
    pub include_tag: bool,
    /// Omit objects that any of these filters omits.
    pub filter: Vec<String>,
    /// How to handle missing objects: error, allow-any or allow-promisor.
    pub missing: Option<String>,
    /// Omit objects of promisor packs, and objects that only those reach.
    pub exclude_promisor_objects: bool,
    /// The same, but keep promised commits and tags that are named, or that what is packed refers to; implies `revs`.
    pub exclude_promisor_objects_best_effort: bool,
    /// Omit objects that uploadpack.blobPackfileUri offers by this protocol, and print where their packs are.
    pub uri_protocol: Vec<String>,
    /// Add unreachable packed objects; implies `revs`.
    pub keep_unreachable: bool,
    /// Add unreachable loose objects; implies `revs`.
    pub pack_loose_unreachable: bool,
    /// Make packed objects loose if they are not packed now; with `all`, `reflog` and `indexed_objects` only
    /// those that are not older than this date. Implies `revs`.
    pub unpack_unreachable: Option<String>,
    /// Pack objects that are loose or in packs marked with -, and in no other pack.
    pub cruft: bool,
    /// The same, without objects older than this date.
    pub cruft_expiration: Option<String>,
    /// Write no empty pack.
    pub non_empty: bool,
    /// Settings of new packs.
    pub packing: PackingOptions,
    /// zlib level; -1 for its default.
    pub compression: Option<i64>,
    /// Compute all deltas again.
    pub no_reuse_delta: bool,
    /// Compress all objects again.
    pub no_reuse_object: bool,
    /// Store delta bases as offsets, which are shorter.
    pub delta_base_offset: bool,
    /// Make no delta across the islands of `pack.island`.
    pub delta_islands: bool,
    /// Version of the index, and the offset from which it uses eight bytes per offset.
    pub index_version: Option<String>,
    /// With `all`, write a bitmap for the pack.
    pub write_bitmap_index: bool,
    /// The same, without a warning if it cannot be written.
    pub write_bitmap_index_quiet: bool,
    /// Do not use bitmaps for the walk.
    pub no_use_bitmap_index: bool,
    /// Whether only the paths of new objects are visited in what the receiver has.
    pub sparse: Option<bool>,
    /// Print no progress.
    pub quiet: bool,
    /// Show progress, with `stdout` except writing the pack, or show none. If not given, only if the error
    /// output is a terminal.
    pub progress: Option<bool>,
    /// The same, including writing the pack.
    pub all_progress: bool,
    /// If progress is shown, show it as with `all_progress`.
    pub all_progress_implied: bool,
    /// Write the pack to the output.
    pub stdout: bool,
    /// Path prefix of the written files.
    pub base_name: Option<PathBuf>,
}

/// How strictly objects of packs are checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FsckOptions {
    /// Whether to check objects, and that links lead to existing objects.
    pub strict: bool,
    /// Settings of the checks, if objects are checked. Settings of both options add up in command-line order.
    pub settings: Option<String>,
}
