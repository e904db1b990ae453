//! Options of `stash`.

use std::ffi::OsString;

use super::LogOptions;

/// What `stash` saves, and what stays.
#[derive(Debug, Clone, Default)]
pub struct StashKeepOptions {
    /// Keep staged changes in the index and the work tree.
    pub keep_index: bool,
    /// Stash only staged changes.
    pub staged: bool,
    /// Also stash untracked files.
    pub include_untracked: bool,
    /// Also stash ignored files.
    pub all: bool,
    /// Print nothing.
    pub quiet: bool,
}

/// What `stash push` saves.
#[derive(Debug, Clone, Default)]
pub struct StashPushOptions {
    /// What to save, and what stays.
    pub options: StashKeepOptions,
    /// The message of the entry.
    pub message: Option<OsString>,
    /// Read pathspecs from a file; `-` is the input.
    pub pathspec_from_file: Option<OsString>,
    /// Pathspecs in the file end with NUL.
    pub pathspec_file_nul: bool,
    /// Stash only matching paths.
    pub pathspecs: Vec<OsString>,
}

/// What `stash apply` and `stash pop` restore.
#[derive(Debug, Clone, Default)]
pub struct StashApplyOptions {
    /// Also restore the index or not; if not given, `stash.index`.
    pub index: Option<bool>,
    /// Do not print the resulting status.
    pub quiet: bool,
    /// The name of the common base in conflicts.
    pub label_base: Option<OsString>,
    /// The name of the side that changes are applied to.
    pub label_ours: Option<OsString>,
    /// The name of the side that changes come from.
    pub label_theirs: Option<OsString>,
    /// The entry: stash@{N}, or N.
    pub entries: Vec<OsString>,
}

/// What `stash show` shows.
#[derive(Debug, Clone, Default)]
pub struct StashShowOptions {
    /// Show untracked files of the entry or not; if not given, `stash.showIncludeUntracked`.
    pub include_untracked: Option<bool>,
    /// Show only untracked files.
    pub only_untracked: bool,
    /// Show a patch.
    pub patch: bool,
    /// Show changed lines per file (the default).
    pub stat: bool,
    /// The same in a machine-readable format.
    pub numstat: bool,
    /// Show only the totals.
    pub shortstat: bool,
    /// Show only names of changed files.
    pub name_only: bool,
    /// Show names of changed files, and the kind of change.
    pub name_status: bool,
    /// The entry: stash@{N}, or N.
    pub entries: Vec<OsString>,
}

/// The actions of `stash`.
#[derive(Debug, Clone)]
pub enum StashOptions {
    /// Saves changes since HEAD, and removes them from the index and the work tree.
    Push(StashPushOptions),
    /// The same, with a message instead of paths.
    Save {
        /// What to save, and what stays.
        options: StashKeepOptions,
        /// The message.
        words: Vec<OsString>,
    },
    /// Lists the entries.
    List(LogOptions),
    /// Shows what an entry changes.
    Show(StashShowOptions),
    /// Applies an entry, and keeps it.
    Apply(StashApplyOptions),
    /// Applies an entry, and drops it on success.
    Pop(StashApplyOptions),
    /// Drops an entry.
    Drop {
        /// Print nothing.
        quiet: bool,
        /// The entry: stash@{N}, or N.
        entries: Vec<OsString>,
    },
    /// Drops all entries.
    Clear {
        /// Arguments besides options; none are allowed.
        arguments: Vec<OsString>,
    },
    /// Creates an entry without storing it, and prints its name.
    Create {
        /// The message.
        words: Vec<OsString>,
    },
    /// Stores an entry that [`StashOptions::Create`] made.
    Store {
        /// The message of the entry.
        message: Option<OsString>,
        /// Print no errors.
        quiet: bool,
        /// The entry.
        commits: Vec<OsString>,
    },
    /// Creates a branch at the entry's base commit, applies the entry there, and drops it.
    Branch {
        /// The branch, and the entry.
        arguments: Vec<OsString>,
    },
    /// Makes commits of entries that can be fetched and pushed.
    Export {
        /// Print the name of the last one.
        print: bool,
        /// Make this ref point at it.
        to_ref: Option<OsString>,
        /// The entries; all if there are none.
        stashes: Vec<OsString>,
    },
    /// Appends exported entries to the list.
    Import {
        /// The last commit of the export.
        commits: Vec<OsString>,
    },
}
