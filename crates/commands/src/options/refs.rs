//! Options of commands about refs.

use std::ffi::OsString;

/// The refs that `update-ref` changes.
#[derive(Debug, Clone, Default)]
pub struct UpdateRefOptions {
    /// The reason, for the reflog.
    pub message: Option<String>,
    /// Delete the ref.
    pub delete: bool,
    /// Change the ref itself, not the target of a symbolic ref.
    pub no_deref: bool,
    /// Read changes from the input, and apply all of them or none.
    pub stdin: bool,
    /// The input is terminated by NUL instead of newlines.
    pub nul: bool,
    /// Apply the changes that are possible, and report the rejected ones.
    pub batch_updates: bool,
    /// Create a reflog even if the configuration does not ask for it.
    pub create_reflog: bool,
    /// The ref, its new value and its expected old value.
    pub arguments: Vec<OsString>,
}

/// The ref that `symbolic-ref` reads or changes.
#[derive(Debug, Clone, Default)]
pub struct SymbolicRefOptions {
    /// Do not report a ref that is not symbolic; only exit with 1.
    pub quiet: bool,
    /// Delete the symbolic ref.
    pub delete: bool,
    /// Shorten the output, such as refs/heads/main to main.
    pub short: bool,
    /// Follow only one symbolic ref.
    pub no_recurse: bool,
    /// The reason, for the reflog.
    pub message: Option<String>,
    /// The symbolic ref, and its new target.
    pub arguments: Vec<OsString>,
}

/// The refs that `show-ref` lists.
#[derive(Debug, Clone, Default)]
pub struct ShowRefOptions {
    /// Show only tags.
    pub tags: bool,
    /// Show only branches.
    pub branches: bool,
    /// Tell by the exit code whether a ref exists, without resolving it.
    pub exists: bool,
    /// Accept only full names, and report missing refs.
    pub verify: bool,
    /// Also show HEAD, regardless of filters.
    pub head: bool,
    /// Also show the objects that tags point at.
    pub dereference: bool,
    /// Show only object names, with at least this many digits; all if it is 0.
    pub hash: Option<i64>,
    /// Abbreviate object names to at least this many digits: `i64::MIN` is the usual number.
    pub abbrev: Option<i64>,
    /// Print nothing.
    pub quiet: bool,
    /// Print the input lines whose refs start with this and do not exist.
    pub exclude_existing: Option<OsString>,
    /// Last components of names; with `verify` and `exists`, full names.
    pub patterns: Vec<OsString>,
}

/// The refs that `pack-refs` packs.
#[derive(Debug, Clone, Default)]
pub struct PackRefsOptions {
    /// Pack all refs, not only tags.
    pub all: bool,
    /// Keep loose refs that were packed.
    pub no_prune: bool,
    /// Pack only if it is worthwhile.
    pub auto: bool,
    /// Pack refs that match these patterns, instead of tags.
    pub include: Vec<OsString>,
    /// Do not pack refs that match these patterns.
    pub exclude: Vec<OsString>,
}

/// The refs that `for-each-ref` lists, and the format.
#[derive(Debug, Clone, Default)]
pub struct ForEachRefOptions {
    /// Quote values for a shell.
    pub shell: bool,
    /// Quote values for Perl.
    pub perl: bool,
    /// Quote values for Python.
    pub python: bool,
    /// Quote values for Tcl.
    pub tcl: bool,
    /// Print no line for a ref whose formatted text is empty.
    pub omit_empty: bool,
    /// Show at most this many refs; 0: all.
    pub count: Option<i64>,
    /// The format of a line, with fields as `%(…)`.
    pub format: Option<OsString>,
    /// When to use colours of the format: always, never or auto.
    pub color: Option<OsString>,
    /// Omit refs that match one of these patterns.
    pub exclude: Vec<OsString>,
    /// Sort by these fields, with - in descending order; the last one given is the primary key.
    pub sort: Vec<OsString>,
    /// Only refs that point at one of these objects.
    pub points_at: Vec<OsString>,
    /// Only refs that one of these commits reaches.
    pub merged: Vec<OsString>,
    /// Only refs that none of these commits reaches.
    pub no_merged: Vec<OsString>,
    /// Only refs that reach one of these commits.
    pub contains: Vec<OsString>,
    /// Only refs that reach none of these commits.
    pub no_contains: Vec<OsString>,
    /// Ignore case in sorting and filtering.
    pub ignore_case: bool,
    /// Read patterns from the input, one per line.
    pub stdin: bool,
    /// Also show HEAD and other refs outside refs/.
    pub include_root_refs: bool,
    /// List only refs whose names come after this.
    pub start_after: Option<OsString>,
    /// Refs to show: a full name, a directory, or a pattern with wildcards.
    pub pattern: Vec<OsString>,
}

/// The target of `refs migrate`.
#[derive(Debug, Clone, Default)]
pub struct RefsMigrateOptions {
    /// The new format: files or reftable.
    pub ref_format: Option<String>,
    /// Only write the refs to a directory, and print its name.
    pub dry_run: bool,
    /// Do not migrate reflogs.
    pub no_reflog: bool,
    /// Arguments besides options; none are allowed.
    pub arguments: Vec<OsString>,
}

/// How `refs verify` checks refs.
#[derive(Debug, Clone, Default)]
pub struct RefsVerifyOptions {
    /// Treat warnings as errors.
    pub strict: bool,
    /// Print what is checked.
    pub verbose: bool,
}

/// The entries that `reflog show` prints.
#[derive(Debug, Clone, Default)]
pub struct ReflogShowOptions {
    /// Which entries, and how.
    pub log: LogOptions,
    /// The refs; if empty, HEAD.
    pub names: Vec<OsString>,
}

/// Options of `git log` for entries of reflogs.
#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// Show at most this many entries.
    pub max_count: Option<usize>,
    /// Leave out this many of the newest.
    pub skip: usize,
    /// Show only entries that are not older than this.
    pub since: Option<String>,
    /// Show only entries that are not newer than this.
    pub until: Option<String>,
    /// The format of dates; entries are then named by date.
    pub date: Option<String>,
    /// The format of an entry.
    pub format: Option<OsString>,
    /// Abbreviate the object names of `oneline`, or do not.
    pub abbrev_commit: Option<bool>,
    /// Show full object names.
    pub no_abbrev: bool,
    /// Abbreviate object names to at least this many digits.
    pub abbrev: Option<usize>,
}

/// Shared options of `reflog delete` and `reflog expire`.
#[derive(Debug, Clone, Default)]
pub struct ReflogChangeOptions {
    /// Change nothing; with `verbose`, print what would change.
    pub dry_run: bool,
    /// Set the old object of each entry to the new object of the remaining entry before it.
    pub rewrite: bool,
    /// Set the ref to the new object of its last entry.
    pub updateref: bool,
    /// Print what happens to each entry.
    pub verbose: bool,
}

/// The entries that `reflog delete` deletes.
#[derive(Debug, Clone, Default)]
pub struct ReflogDeleteOptions {
    /// The shared options.
    pub change: ReflogChangeOptions,
    /// The entries: REF@{N}.
    pub entries: Vec<OsString>,
}

/// The reflogs that `reflog drop` deletes.
#[derive(Debug, Clone, Default)]
pub struct ReflogDropOptions {
    /// The reflogs of all refs, in all work trees.
    pub all: bool,
    /// With `all`, only the reflogs of this work tree and the shared ones.
    pub single_worktree: bool,
    /// The refs.
    pub names: Vec<OsString>,
}

/// The entries that `reflog expire` deletes.
#[derive(Debug, Clone, Default)]
pub struct ReflogExpireOptions {
    /// The shared options.
    pub change: ReflogChangeOptions,
    /// Delete entries older than this date.
    pub expire: Option<String>,
    /// Delete entries older than this date that the ref does not reach.
    pub expire_unreachable: Option<String>,
    /// Also delete entries that name anything but a complete commit.
    pub stale_fix: bool,
    /// The reflogs of all refs, in all work trees.
    pub all: bool,
    /// With `all`, only the reflogs of this work tree and the shared ones.
    pub single_worktree: bool,
    /// The refs.
    pub names: Vec<OsString>,
}

/// The changes that `refs` makes to one ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefChangeKind {
    /// Creates a ref; fails if it exists.
    Create,
    /// Deletes a ref.
    Delete,
    /// Sets a ref to a new value.
    Update,
    /// Renames a ref, with its reflog.
    Rename,
}

/// How `refs create`, `delete`, `update` and `rename` change a ref.
#[derive(Debug, Clone, Default)]
pub struct RefsChangeOptions {
    /// The reason, for the reflog.
    pub message: Option<String>,
    /// Change the ref itself, not the target of a symbolic ref.
    pub no_deref: bool,
    /// Create a reflog even if the configuration does not ask for it.
    pub create_reflog: bool,
    /// The ref, then its new and expected old value as far as the change takes them; for a rename, both names.
    pub arguments: Vec<OsString>,
}

/// The actions of `refs`.
#[derive(Debug, Clone)]
pub enum RefsOptions {
    /// Tells by the exit code whether a ref exists: 2 if not.
    Exists {
        /// The full name; exactly one.
        names: Vec<OsString>,
    },
    /// Lists refs, as for-each-ref does.
    List(Box<ForEachRefOptions>),
    /// Packs refs, as pack-refs does.
    Optimize(PackRefsOptions),
    /// Changes one ref.
    Change {
        /// The change.
        kind: RefChangeKind,
        /// How it is made.
        options: RefsChangeOptions,
    },
    /// Migrates refs to another format.
    Migrate(RefsMigrateOptions),
    /// Checks stored refs.
    Verify(RefsVerifyOptions),
}

/// The actions of `reflog`.
#[derive(Debug, Clone)]
pub enum ReflogOptions {
    /// Shows entries of a reflog.
    Show(ReflogShowOptions),
    /// Lists the refs that have a reflog.
    List {
        /// Arguments besides options; none are allowed.
        arguments: Vec<String>,
    },
    /// Tells by the exit code whether a ref has a reflog.
    Exists {
        /// The full name.
        names: Vec<OsString>,
    },
    /// Adds an entry.
    Write {
        /// The full name, the old and the new object, and the message.
        arguments: Vec<OsString>,
    },
    /// Deletes single entries.
    Delete(ReflogDeleteOptions),
    /// Deletes whole reflogs.
    Drop(ReflogDropOptions),
    /// Deletes old entries.
    Expire(ReflogExpireOptions),
}
