//! Options of `stash`.

use std::ffi::OsString;

/// What `stash` keeps, and what stays.
#[derive(Debug, Clone, Default)]
pub struct StashKeepOptions {
    /// Leave what is staged in the index and the work tree.
    pub keep_index: bool,
    /// Keep only what is staged.
    pub staged: bool,
    /// Keep files that git does not know, too.
    pub include_untracked: bool,
    /// And those that are ignored.
    pub all: bool,
    /// Say nothing of it.
    pub quiet: bool,
}

/// What `stash push` keeps.
#[derive(Debug, Clone, Default)]
pub struct StashPushOptions {
    /// What is kept, and what stays.
    pub options: StashKeepOptions,
    /// What the list says of it.
    pub message: Option<OsString>,
    /// Read pathspecs from a file; from the input if it is `-`.
    pub pathspec_from_file: Option<OsString>,
    /// They end in NUL there.
    pub pathspec_file_nul: bool,
    /// Keep only what matches.
    pub pathspecs: Vec<OsString>,
}

/// What `stash apply` and `stash pop` bring back.
#[derive(Debug, Clone, Default)]
pub struct StashApplyOptions {
    /// Stage what was staged.
    pub index: bool,
    /// Do not say how the work tree is then.
    pub quiet: bool,
    /// The entry: stash@{N}, or N.
    pub entries: Vec<OsString>,
}

/// What `stash show` shows.
#[derive(Debug, Clone, Default)]
pub struct StashShowOptions {
    /// Show files that git did not know, too, or do not; if nothing is said, as stash.showIncludeUntracked has it.
    pub include_untracked: Option<bool>,
    /// Show only them.
    pub only_untracked: bool,
    /// The changes themselves.
    pub patch: bool,
    /// How many lines of each file change (the default).
    pub stat: bool,
    /// The same, to be read by a program.
    pub numstat: bool,
    /// Only how many there are of all.
    pub shortstat: bool,
    /// Only which files change.
    pub name_only: bool,
    /// Which files change, and how.
    pub name_status: bool,
    /// The entry: stash@{N}, or N.
    pub entries: Vec<OsString>,
}

/// What `stash` does.
#[derive(Debug, Clone)]
pub enum StashOptions {
    /// Keeps what differs from HEAD, and takes it out of the index and the work tree.
    Push(StashPushOptions),
    /// The same, with a message in place of paths.
    Save {
        /// What is kept, and what stays.
        options: StashKeepOptions,
        /// The message.
        words: Vec<OsString>,
    },
    /// Lists what is kept.
    List {
        /// So many entries at most.
        max_count: Option<usize>,
    },
    /// Shows what an entry changes.
    Show(StashShowOptions),
    /// Brings an entry back, and keeps it.
    Apply(StashApplyOptions),
    /// Brings an entry back, and drops it if all went well.
    Pop(StashApplyOptions),
    /// Drops an entry.
    Drop {
        /// Say nothing of it.
        quiet: bool,
        /// The entry: stash@{N}, or N.
        entries: Vec<OsString>,
    },
    /// Drops all entries.
    Clear {
        /// What was said beside options; nothing may be.
        arguments: Vec<OsString>,
    },
    /// Makes an entry without keeping it, and says its name.
    Create {
        /// The message.
        words: Vec<OsString>,
    },
    /// Keeps an entry that [`StashOptions::Create`] has made.
    Store {
        /// What the list says of it.
        message: Option<OsString>,
        /// Complain of nothing.
        quiet: bool,
        /// The entry.
        commits: Vec<OsString>,
    },
    /// Makes a branch where an entry was made, brings it back there, and drops it.
    Branch {
        /// The branch, and the entry.
        arguments: Vec<OsString>,
    },
}
