//! Options of commands that read or write one pack.

use std::path::PathBuf;

/// What pack `index-pack` takes, and what comes of it.
#[derive(Debug, Clone, Default)]
pub struct IndexPackOptions {
    /// Say how far the work is.
    pub verbose: bool,
    /// With `verbose`, what is said of objects that come in; one at most.
    pub progress_title: Vec<String>,
    /// Say how far the resolving of deltas is.
    pub show_resolving_progress: bool,
    /// Read the pack from the input, and put it where `pack` says, or into the repository.
    pub stdin: bool,
    /// Complete a pack that lacks bases which the repository has.
    pub fix_thin: bool,
    /// Where the index goes; to one place at most.
    pub output: Vec<PathBuf>,
    /// Write a .keep, so that no repack takes the pack away, with this text.
    pub keep: Option<String>,
    /// Mark the pack as one of a promisor, with this text.
    pub promisor: Option<String>,
    /// Write a reverse index, or write none; if nothing is said, as pack.writeReverseIndex has it.
    pub rev_index: Option<bool>,
    /// Which objects are refused.
    pub fsck: FsckOptions,
    /// Exit with 1 where a link leaves the pack.
    pub check_self_contained_and_connected: bool,
    /// Compare the pack with its index.
    pub verify: bool,
    /// The same, and say of every object what it takes.
    pub verify_stat: bool,
    /// The same, and say how long delta chains are.
    pub verify_stat_only: bool,
    /// Threads that resolve deltas; 0: one a processor.
    pub threads: Option<u32>,
    /// The longest pack that is taken, in bytes; 0: any.
    pub max_input_size: Option<u64>,
    /// Version of the index, and from which offset on it has eight bytes for one.
    pub index_version: Option<String>,
    /// The hash of the pack's objects: sha1 or sha256.
    pub object_format: Option<String>,
    /// The header of the pack, which the input does not have any more.
    pub pack_header: Option<String>,
    /// Write a NUL to the error output when the pack was read.
    pub report_end_of_input: bool,
    /// The pack.
    pub pack: Option<PathBuf>,
}

/// What `verify-pack` compares.
#[derive(Debug, Clone, Default)]
pub struct VerifyPackOptions {
    /// Say of every object what it takes.
    pub verbose: bool,
    /// Say how long delta chains are.
    pub stat_only: bool,
    /// The hash of the packs' objects: sha1 or sha256.
    pub object_format: Option<String>,
    /// Indexes of packs.
    pub packs: Vec<PathBuf>,
}

/// How `unpack-objects` stores objects.
#[derive(Debug, Clone, Default)]
pub struct UnpackObjectsOptions {
    /// Store nothing; only look whether the pack is whole.
    pub dry_run: bool,
    /// Say nothing of how far the work is.
    pub quiet: bool,
    /// Store what can be read of a damaged pack.
    pub recover: bool,
    /// Refuse broken objects, and links to objects that are not there. All settings count.
    pub strict: Vec<String>,
    /// The header of the pack, which the input does not have any more.
    pub pack_header: Option<String>,
    /// The longest pack that is taken, in bytes; 0: any.
    pub max_input_size: Option<u64>,
}

/// How packs are made.
#[derive(Debug, Clone, Default)]
pub struct PackingOptions {
    /// How many objects a delta base is looked for in.
    pub window: Option<i64>,
    /// Bytes of the objects in the window of one thread; k, m and g multiply.
    pub window_memory: Option<u64>,
    /// Longest delta chain.
    pub depth: Option<i64>,
    /// Threads for the walk and the delta search; 0: one a processor.
    pub threads: Option<i64>,
    /// How paths are hashed for the delta search: 2 parts files of one name by their directories.
    pub name_hash_version: Option<i64>,
    /// Longest pack, in bytes, at least 1 MiB; others follow it. k, m and g multiply.
    pub max_pack_size: Option<u64>,
}

/// What `pack-objects` packs, and how.
#[derive(Debug, Clone, Default)]
pub struct PackObjectsOptions {
    /// Read revisions from the input, one a line, and pack what they reach.
    pub revs: bool,
    /// Read names of packs from the input and pack what is in them, but not what is in a pack with a ^ before it.
    pub stdin_packs: bool,
    /// Pack what the refs reach; implies `revs`.
    pub all: bool,
    /// Pack what the reflogs name and reach; implies `revs`.
    pub reflog: bool,
    /// Pack what the indexes of work trees name; implies `revs`.
    pub indexed_objects: bool,
    /// Leave out what is in a pack; implies `revs`, or with `stdin_packs`, adds loose objects.
    pub unpacked: bool,
    /// Leave out what is in a pack already, also in one of an alternate.
    pub incremental: bool,
    /// Leave out what an alternate has.
    pub local: bool,
    /// Leave out what is in a pack with a .keep.
    pub honor_pack_keep: bool,
    /// Leave out what is in this pack, as if it had a .keep.
    pub keep_pack: Vec<String>,
    /// Deltas may refer to bases that only the receiver has; needs `stdout`.
    pub thin: bool,
    /// Pack annotated tags with what they tag.
    pub include_tag: bool,
    /// Leave out what this filter leaves out; of several, what any leaves out.
    pub filter: Vec<String>,
    /// What happens when objects are missing: error, allow-any or allow-promisor.
    pub missing: Option<String>,
    /// Leave out what is in a pack of a promisor, and what only that reaches.
    pub exclude_promisor_objects: bool,
    /// Leave out objects that uploadpack.blobPackfileUri offers by this protocol, and say where their packs are.
    pub uri_protocol: Vec<String>,
    /// Add what is in packs and not reached; implies `revs`.
    pub keep_unreachable: bool,
    /// Add what is loose and not reached; implies `revs`.
    pub pack_loose_unreachable: bool,
    /// Make loose what is in packs and not packed now; with `all`, `reflog` and `indexed_objects` unless it is
    /// older than this moment. Implies `revs`.
    pub unpack_unreachable: Option<String>,
    /// Pack what is loose or in packs that the input names with a -, and in no other pack.
    pub cruft: bool,
    /// The same, without what is older than this moment.
    pub cruft_expiration: Option<String>,
    /// Make no pack without objects.
    pub non_empty: bool,
    /// How packs are made.
    pub packing: PackingOptions,
    /// Level of zlib, -1 for its default.
    pub compression: Option<i64>,
    /// Find every delta anew.
    pub no_reuse_delta: bool,
    /// Deflate every object anew.
    pub no_reuse_object: bool,
    /// Name delta bases by distance, which is shorter.
    pub delta_base_offset: bool,
    /// Make no delta that crosses the shores of the islands that pack.island names.
    pub delta_islands: bool,
    /// Version of the index, 1 or 2.
    pub index_version: Option<String>,
    /// With `all`, write a bitmap beside the pack.
    pub write_bitmap_index: bool,
    /// The same, and say nothing where there can be none.
    pub write_bitmap_index_quiet: bool,
    /// Find everything by walking.
    pub no_use_bitmap_index: bool,
    /// Say nothing while it is done.
    pub quiet: bool,
    /// Say what is done, with `stdout` not how the pack is written; or say nothing. If nothing is said, it depends on
    /// whether the error output is a terminal.
    pub progress: Option<bool>,
    /// The same, also how the pack is written.
    pub all_progress: bool,
    /// Let progress, where there is any, be as with `all_progress`.
    pub all_progress_implied: bool,
    /// Write the pack to the output.
    pub stdout: bool,
    /// The beginning of the names of the files that are written.
    pub base_name: Option<PathBuf>,
}

/// How strictly objects of packs are checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FsckOptions {
    /// Whether objects are checked and links must lead somewhere.
    pub strict: bool,
    /// What is set, if objects are checked at all. The settings of both options add up in the order in which they were typed.
    pub settings: Option<String>,
}
