//! Options of commands that keep a repository fast.

use std::path::PathBuf;

use super::packs::PackingOptions;

/// The objects that `repack` packs, and how.
#[derive(Debug, Clone, Default)]
pub struct RepackOptions {
    /// Pack everything that is referenced into a single pack.
    pub all: bool,
    /// As `all` (`-A`); with `delete`, unreachable objects become loose.
    pub all_and_loosen: bool,
    /// As `all`; with `delete`, unreachable objects go into a cruft pack.
    pub cruft: bool,
    /// With `cruft`, omit unreachable objects older than this date, in git's syntax.
    pub cruft_expiration: Option<String>,
    /// Longest cruft pack in bytes, if it differs from `packing.max_pack_size`.
    pub max_cruft_size: Option<u64>,
    /// With `cruft`, cruft packs from this length on stay as they are, unless objects expire.
    pub combine_cruft_below_size: Option<u64>,
    /// Then delete redundant packs and loose objects.
    pub delete: bool,
    /// Compute all deltas again.
    pub no_reuse_delta: bool,
    /// Compress all objects again.
    pub no_reuse_object: bool,
    /// Do not update the files that the dumb HTTP protocol needs.
    pub no_update_server_info: bool,
    /// Print no progress.
    pub quiet: bool,
    /// Omit objects of alternates.
    pub local: bool,
    /// Write a reachability bitmap, or none; if not given, `repack.writeBitmaps`.
    pub write_bitmap_index: Option<bool>,
    /// Make no delta across the islands of `pack.island`; if not given, `repack.useDeltaIslands`.
    pub delta_islands: Option<bool>,
    /// With `all_and_loosen`, drop unreachable objects older than this date.
    pub unpack_unreachable: Option<String>,
    /// With `all` and `delete`, append unreachable objects to the pack.
    pub keep_unreachable: bool,
    /// Settings of new packs.
    pub packing: PackingOptions,
    /// With `all`, put objects that any of these filters omits into a separate pack.
    pub filter: Vec<String>,
    /// Path prefix of the files of that pack.
    pub filter_to: Option<PathBuf>,
    /// Also pack objects of packs with a .keep file; if not given, `repack.packKeptObjects`. The packs
    /// themselves stay.
    pub pack_kept_objects: Option<bool>,
    /// Keep these packs, as if they had a .keep file.
    pub keep_pack: Vec<String>,
    /// Combine small packs until each has at least this many times the objects of the next smaller one.
    pub geometric: Option<i64>,
    /// Write a multi-pack-index of the remaining packs: `default`, or `incremental` for one on top of a chain.
    pub write_midx: Option<String>,
    /// With `cruft` and `delete`, path prefix of a pack for expired objects.
    pub expire_to: Option<PathBuf>,
}

/// The commits and files of `commit-graph write`.
#[derive(Debug, Clone)]
pub struct CommitGraphWriteOptions {
    /// The object directory: the repository's own or an alternate.
    pub object_dir: Option<PathBuf>,
    /// Start from all refs.
    pub reachable: bool,
    /// Start from commits in the packs whose indexes are named on the input.
    pub stdin_packs: bool,
    /// Start from the objects named on the input.
    pub stdin_commits: bool,
    /// Keep all commits of the existing commit-graph.
    pub append: bool,
    /// Write changed-path filters or not; if not given: as configured, or if the existing commit-graph has
    /// them.
    pub changed_paths: Option<bool>,
    /// Compute at most this many of them; negative: no limit; if not given: as configured.
    pub max_new_filters: Option<i64>,
    /// Write a chain of files; `no-merge` always adds one file, `replace` writes a single new one, without a word files are
    /// merged.
    pub split: Option<Option<String>>,
    /// Merge with the file below if it has at most this many times the commits of the new one.
    pub size_multiple: i64,
    /// Merge with the file below if the new one has more commits than this; 0 means no limit.
    pub max_commits: i64,
    /// Delete files outside all chains that are older than this date; default: now.
    pub expire_time: Option<String>,
    /// Show progress or not; if not given, only if the error output is a terminal.
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
            changed_paths: None,
            max_new_filters: None,
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
    /// The object directory: the repository's own or an alternate.
    pub object_dir: Option<PathBuf>,
    /// Check only the newest file of a chain.
    pub shallow: bool,
    /// Show progress or not; if not given, only if the error output is a terminal.
    pub progress: Option<bool>,
}

/// The packs that `multi-pack-index write` covers.
#[derive(Debug, Clone, Default)]
pub struct MultiPackIndexWriteOptions {
    /// The pack to prefer for objects with several copies.
    pub preferred_pack: Option<String>,
    /// Cover only the packs whose indexes are named on the input.
    pub stdin_packs: bool,
    /// Write reachability bitmaps.
    pub bitmap: bool,
    /// With `bitmap`, a list of the refs' objects; lines with a `+` are preferred.
    pub refs_snapshot: Option<PathBuf>,
    /// Whether to write a file of a chain.
    pub layer: MultiPackIndexLayerOptions,
}

/// How `multi-pack-index` writes a file of a chain.
#[derive(Debug, Clone, Default)]
pub struct MultiPackIndexLayerOptions {
    /// Write a file of a chain, and not the single file.
    pub incremental: bool,
    /// Leave the chain as it is, and print the checksum of the new file.
    pub no_write_chain_file: bool,
    /// The checksum of the file below the new one, or `none`; if not given, that on top of the chain.
    pub base: Option<String>,
}

/// What `multi-pack-index compact` makes into one file.
#[derive(Debug, Clone, Default)]
pub struct MultiPackIndexCompactOptions {
    /// The checksum of the lowest file.
    pub from: String,
    /// The checksum of the topmost one.
    pub to: String,
    /// Write reachability bitmaps.
    pub bitmap: bool,
    /// Whether the new file is part of a chain.
    pub layer: MultiPackIndexLayerOptions,
}

/// The actions of `commit-graph`.
#[derive(Debug, Clone)]
pub enum CommitGraphOptions {
    /// Writes a commit-graph of the commits in packs, or of selected commits.
    Write(Box<CommitGraphWriteOptions>),
    /// Compares the commit-graph with the commits.
    Verify(CommitGraphVerifyOptions),
}

/// The action of `multi-pack-index`, and the object directory.
#[derive(Debug, Clone)]
pub struct MultiPackIndexOptions {
    /// The object directory: the repository's own or an alternate.
    pub object_dir: Option<PathBuf>,
    /// Show progress or not; if not given, only if the error output is a terminal.
    pub progress: Option<bool>,
    /// The action.
    pub action: MultiPackIndexAction,
}

/// The actions of `multi-pack-index`.
#[derive(Debug, Clone)]
pub enum MultiPackIndexAction {
    /// Writes a multi-pack-index of all packs, or of selected packs.
    Write(MultiPackIndexWriteOptions),
    /// Makes one file of several of a chain.
    Compact(MultiPackIndexCompactOptions),
    /// Compares the multi-pack-index with the packs' own indexes.
    Verify,
    /// Deletes packs from which the multi-pack-index uses no object.
    Expire,
    /// Combines small packs, so that [`MultiPackIndexAction::Expire`] can delete them.
    Repack {
        /// Combine packs, oldest first, whose used size is below this, until the sum reaches it; 0 combines
        /// all.
        batch_size: u64,
    },
}

/// The actions of `maintenance`.
#[derive(Debug, Clone)]
pub enum MaintenanceOptions {
    /// Runs the tasks that the repository needs.
    Run(MaintenanceRunOptions),
    /// Shows these tasks, and why.
    Plan {
        /// Only worthwhile tasks, as [`MaintenanceRunOptions::auto`].
        auto: bool,
        /// As [`MaintenanceRunOptions::tasks`].
        tasks: Vec<String>,
    },
    /// Tells by its exit code whether a task is needed.
    IsNeeded {
        /// As for `Plan`.
        auto: bool,
        /// As [`MaintenanceRunOptions::tasks`].
        tasks: Vec<String>,
    },
    /// Shows the state of the repository.
    Status,
}

/// How `maintenance run` works.
#[derive(Debug, Clone, Default)]
pub struct MaintenanceRunOptions {
    /// Run only tasks that git's thresholds make worthwhile.
    pub auto: bool,
    /// Print nothing or print progress; if not given, progress only if the error output is a terminal.
    pub quiet: Option<bool>,
    /// Show what would be done, and do nothing.
    pub dry_run: bool,
    /// Run these tasks in this order; if empty, the needed tasks.
    pub tasks: Vec<String>,
    /// Run it with this program, `packrace`, and do not wait (`--detach`).
    pub detached_program: Option<PathBuf>,
}
