//! Options of commands that change the index.

use std::ffi::OsString;

/// What `add` puts into the index.
#[derive(Debug, Clone, Default)]
pub struct AddOptions {
    /// Change nothing; only say what would be.
    pub dry_run: bool,
    /// Say what is added and removed.
    pub verbose: bool,
    /// Add ignored files, too.
    pub force: bool,
    /// Change and remove what the index has, and add nothing new.
    pub update: bool,
    /// Convert the line endings of all files in the index anew; implies `update`.
    pub renormalize: bool,
    /// Say of new files only that they are going to be added.
    pub intent_to_add: bool,
    /// Take all changes, removals too, without paths those of the whole work tree; or remove nothing. If nothing is said,
    /// removals are taken where paths are given.
    pub all: Option<bool>,
    /// Add nothing; only look at files anew.
    pub refresh: bool,
    /// Go on where a file cannot be read, or do not; if nothing is said, as add.ignoreErrors has it.
    pub ignore_errors: Option<bool>,
    /// With `dry_run`: look whether paths would be ignored, also where nothing is.
    pub ignore_missing: bool,
    /// Change paths outside of a sparse checkout, too.
    pub sparse: bool,
    /// Say nothing of repositories that are added as if they were submodules.
    pub no_warn_embedded_repo: bool,
    /// Say in the index that files may be run, or may not.
    pub chmod: Option<String>,
    /// Read pathspecs from this file, or from the input where it is `-`.
    pub pathspec_from_file: Option<OsString>,
    /// With `pathspec_from_file`: they end with NUL.
    pub pathspec_file_nul: bool,
    /// What to add.
    pub pathspecs: Vec<OsString>,
}

/// What `update-index` is asked for.
#[derive(Debug, Clone, Default)]
pub struct UpdateIndexOptions {
    /// In order.
    pub steps: Vec<Step>,
}

/// One step of `update-index`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// An option that is on from here, or off.
    Set(Switch, bool),
    /// `--chmod=+x`, or `-x`.
    Chmod(bool),
    /// Looks at all files.
    Refresh {
        /// Those that the user promises not to change, too.
        really: bool,
    },
    /// `<mode>,<object>,<path>`, or the same in three arguments, which have NUL between them here.
    CacheInfo(Vec<u8>),
    /// A path to be updated.
    Path(OsString),
    /// Paths from the input.
    Stdin,
    /// Entries from the input.
    IndexInfo,
    /// What follows are paths that are to be in conflict again.
    Unresolve,
    /// What follows limits the paths that are updated again.
    Again,
    /// Forgets how conflicts were resolved.
    ClearResolveUndo,
    /// The version to write.
    Version(i64),
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
