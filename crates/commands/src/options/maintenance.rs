//! Options of commands that keep a repository fast.

use std::path::PathBuf;

use super::packs::PackingOptions;

/// What `repack` puts into packs.
#[derive(Debug, Clone, Default)]
pub struct RepackOptions {
    /// Pack everything that is referenced into a single pack.
    pub all: bool,
    /// As `all` (`-A`); with `delete`, what nothing refers to becomes loose.
    pub all_and_loosen: bool,
    /// As `all`; with `delete`, what nothing refers to goes into a cruft pack.
    pub cruft: bool,
    /// With `cruft`, leave out objects that nothing refers to and that are older than this moment, as git reads it.
    pub cruft_expiration: Option<String>,
    /// Longest cruft pack, in bytes, if not that of `packing.max_pack_size`.
    pub max_cruft_size: Option<u64>,
    /// Then remove packs and loose objects that have become redundant.
    pub delete: bool,
    /// Find every delta anew.
    pub no_reuse_delta: bool,
    /// Deflate every object anew.
    pub no_reuse_object: bool,
    /// Do not update the files that the dumb HTTP protocol needs.
    pub no_update_server_info: bool,
    /// Say nothing while it is done.
    pub quiet: bool,
    /// Leave out what an alternate has.
    pub local: bool,
    /// Write a reachability bitmap, or write none; if nothing is said, as repack.writeBitmaps has it.
    pub write_bitmap_index: Option<bool>,
    /// Make no delta that crosses the shores of the islands that pack.island names, or do; if nothing is said, as
    /// repack.useDeltaIslands has it.
    pub delta_islands: Option<bool>,
    /// With `all_and_loosen`, drop what nothing refers to and is older than this moment.
    pub unpack_unreachable: Option<String>,
    /// With `all` and `delete`, append what nothing refers to to the pack.
    pub keep_unreachable: bool,
    /// How packs are made.
    pub packing: PackingOptions,
    /// With `all`, put what this filter leaves out into a pack of its own; of several, what any leaves out.
    pub filter: Vec<String>,
    /// Where that pack goes, as the beginning of the names of its files.
    pub filter_to: Option<PathBuf>,
    /// Pack the objects of packs with a .keep too, or do not; if nothing is said, as repack.packKeptObjects has it. The
    /// packs themselves stay.
    pub pack_kept_objects: Option<bool>,
    /// Leave this pack alone, as if it had a .keep.
    pub keep_pack: Vec<String>,
    /// Roll up small packs, so that each has this many times the objects of the next smaller one.
    pub geometric: Option<i64>,
    /// Write a multi-pack-index of the packs that stay.
    pub write_midx: bool,
    /// With `cruft` and `delete`, where what expires is put, as the beginning of the names of a pack's files.
    pub expire_to: Option<PathBuf>,
}

/// What `commit-graph write` writes.
#[derive(Debug, Clone)]
pub struct CommitGraphWriteOptions {
    /// The object directory that it belongs to: the repository's own or one that it borrows from.
    pub object_dir: Option<PathBuf>,
    /// Start from all refs.
    pub reachable: bool,
    /// Start from the commits in the packs whose indexes are named on the input.
    pub stdin_packs: bool,
    /// Start from the objects named on the input.
    pub stdin_commits: bool,
    /// Keep every commit of the present commit-graph.
    pub append: bool,
    /// Write a chain of files; with `no-merge` always one more, with `replace` one for all.
    pub split: Option<String>,
    /// Take in the file below if it has at most this many times the commits of the new one.
    pub size_multiple: i64,
    /// Take in the file below if the new one has more commits than this; 0 is any number.
    pub max_commits: i64,
    /// Delete files that no chain names and that are older than this moment; now, if nothing is said.
    pub expire_time: Option<String>,
    /// Say what is done, or say nothing; if nothing is said, it depends on whether the error output is a terminal.
    pub progress: Option<bool>,
}

impl Default for CommitGraphWriteOptions {
    fn default() -> Self {
        CommitGraphWriteOptions {
            object_dir: None,
            reachable: false,
            stdin_packs: false,
            stdin_commits: false,
            append: false,
            split: None,
            size_multiple: 2,
            max_commits: 0,
            expire_time: None,
            progress: None,
        }
    }
}

/// What `commit-graph verify` checks.
#[derive(Debug, Clone, Default)]
pub struct CommitGraphVerifyOptions {
    /// The object directory that it belongs to: the repository's own or one that it borrows from.
    pub object_dir: Option<PathBuf>,
    /// Of a chain, check only the newest file.
    pub shallow: bool,
    /// Say how far it is, or say nothing; if nothing is said, it depends on whether the error output is a terminal.
    pub progress: Option<bool>,
}

/// What `multi-pack-index write` covers.
#[derive(Debug, Clone, Default)]
pub struct MultiPackIndexWriteOptions {
    /// The pack whose copies are read wherever there are several.
    pub preferred_pack: Option<String>,
    /// Cover the packs whose indexes are named on the input, and no others.
    pub stdin_packs: bool,
    /// Write reachability bitmaps.
    pub bitmap: bool,
    /// With `bitmap`, a list of the objects that refs point at; a line that begins with + is preferred.
    pub refs_snapshot: Option<PathBuf>,
}

/// What `commit-graph` does.
#[derive(Debug, Clone)]
pub enum CommitGraphOptions {
    /// Writes a commit-graph of the commits in packs, or of those that are asked for.
    Write(Box<CommitGraphWriteOptions>),
    /// Compares the commit-graph with the commits.
    Verify(CommitGraphVerifyOptions),
}

/// What `multi-pack-index` does, and where.
#[derive(Debug, Clone)]
pub struct MultiPackIndexOptions {
    /// The object directory that the multi-pack-index belongs to: the repository's own or one that it borrows from.
    pub object_dir: Option<PathBuf>,
    /// Say what is done, or say nothing; if nothing is said, it depends on whether the error output is a terminal.
    pub progress: Option<bool>,
    /// What it does.
    pub action: MultiPackIndexAction,
}

/// What `multi-pack-index` does.
#[derive(Debug, Clone)]
pub enum MultiPackIndexAction {
    /// Writes a multi-pack-index of all packs, or of those that are asked for.
    Write(MultiPackIndexWriteOptions),
    /// Compares the multi-pack-index with the packs' own indexes.
    Verify,
    /// Deletes packs that the multi-pack-index takes no object from.
    Expire,
    /// Puts the objects of small packs into one, so that [`MultiPackIndexAction::Expire`] can delete those.
    Repack {
        /// Takes packs from the oldest on, of which less than this is used each, until as much is used of them; 0 takes all.
        batch_size: u64,
    },
}

/// What `maintenance` does.
#[derive(Debug, Clone)]
pub enum MaintenanceOptions {
    /// Does what the repository needs.
    Run(MaintenanceRunOptions),
    /// Says what that is, and why.
    Plan {
        /// Only what is worth it by itself, as [`MaintenanceRunOptions::auto`].
        auto: bool,
        /// As [`MaintenanceRunOptions::tasks`].
        tasks: Vec<String>,
    },
    /// Says by its exit code whether there is anything.
    IsNeeded {
        /// As for a plan.
        auto: bool,
        /// As [`MaintenanceRunOptions::tasks`].
        tasks: Vec<String>,
    },
    /// Says how the repository is.
    Status,
}

/// What `maintenance run` does.
#[derive(Debug, Clone, Default)]
pub struct MaintenanceRunOptions {
    /// Only do what is worth it by git's thresholds.
    pub auto: bool,
    /// Say nothing, or say what is done; if nothing is said, it depends on whether the error output is a terminal.
    pub quiet: Option<bool>,
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// Do these tasks, in this order; none: what is needed.
    pub tasks: Vec<String>,
    /// Have it done by this program, `packrace`, and do not wait for it (`--detach`).
    pub detached_program: Option<PathBuf>,
}
