//! Options of commands that change the index.

use std::ffi::OsString;

/// What `add` puts into the index.
#[derive(Debug, Clone, Default)]
pub struct AddOptions {
    /// Change nothing; only report what would change.
    pub dry_run: bool,
    /// Report added and removed paths.
    pub verbose: bool,
    /// Add ignored files too.
    pub force: bool,
    /// Update and remove tracked files only; add no new files.
    pub update: bool,
    /// Normalize the line endings of all tracked files again; implies `update`.
    pub renormalize: bool,
    /// Only record that new files will be added later.
    pub intent_to_add: bool,
    /// `Some(true)`: all changes and removals, by default of the whole work tree; `Some(false)`: no removals;
    /// `None`: removals only if paths are given.
    pub all: Option<bool>,
    /// Add nothing; only refresh stat data.
    pub refresh: bool,
    /// Continue after a file that cannot be read; if not given, `add.ignoreErrors`.
    pub ignore_errors: Option<bool>,
    /// With `dry_run`: check whether paths would be ignored, even if they do not exist.
    pub ignore_missing: bool,
    /// Also change paths outside the sparse checkout.
    pub sparse: bool,
    /// Do not warn about embedded repositories.
    pub no_warn_embedded_repo: bool,
    /// Set or clear the executable bit in the index.
    pub chmod: Option<String>,
    /// Read pathspecs from this file; `-` is the input.
    pub pathspec_from_file: Option<OsString>,
    /// With `pathspec_from_file`: pathspecs end with NUL.
    pub pathspec_file_nul: bool,
    /// The paths to add.
    pub pathspecs: Vec<OsString>,
}

/// The arguments of `update-index`.
#[derive(Debug, Clone, Default)]
pub struct UpdateIndexOptions {
    /// In command-line order.
    pub steps: Vec<Step>,
}

/// One step of `update-index`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Turns an option on or off from here.
    Set(Switch, bool),
    /// `--chmod=+x`, or `-x`.
    Chmod(bool),
    /// Refreshes all entries.
    Refresh {
        /// Also entries marked assume-unchanged.
        really: bool,
    },
    /// `<mode>,<object>,<path>`; three separate arguments are joined with NUL.
    CacheInfo(Vec<u8>),
    /// A path to update.
    Path(OsString),
    /// Paths from the input.
    Stdin,
    /// Entries from the input.
    IndexInfo,
    /// Restores the conflicts of the following paths.
    Unresolve,
    /// Updates changed paths again; the following paths limit them.
    Again,
    /// Forgets how conflicts were resolved.
    ClearResolveUndo,
    /// The index version to write.
    Version(i64),
    /// Whether to write the index split.
    Split(bool),
    /// What to do about the untracked cache.
    UntrackedCache(UntrackedCache),
    /// Whether a file system monitor is to be used.
    FsMonitor(bool),
}

/// `--untracked-cache` and the like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UntrackedCache {
    /// Add one; the same as `--force-untracked-cache`.
    On,
    /// Remove it.
    Off,
    /// Only test whether directories have the times that it needs.
    Test,
}

/// Options that are on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// `-q`
    Quiet,
    /// `--ignore-submodules`
    IgnoreSubmodules,
    /// `--add`
    Add,
    /// `--replace`
    Replace,
    /// `--remove`
    Remove,
    /// `--unmerged`
    Unmerged,
    /// `--assume-unchanged`: set, or unset by its opposite.
    AssumeUnchanged,
    /// `--skip-worktree`: set, or unset by its opposite.
    SkipWorktree,
    /// `--fsmonitor-valid`, or its opposite.
    FsMonitorValid,
    /// `--ignore-skip-worktree-entries`
    IgnoreSkipWorktree,
    /// `--info-only`
    InfoOnly,
    /// `--force-remove`
    ForceRemove,
    /// `-z`
    Nul,
    /// `--ignore-missing`
    IgnoreMissing,
    /// `--verbose`
    Verbose,
    /// `--show-index-version`
    ShowVersion,
    /// `--force-write-index`
    ForceWrite,
}
