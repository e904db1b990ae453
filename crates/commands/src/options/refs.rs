//! Options of commands about refs.

use std::ffi::OsString;

/// What `update-ref` changes.
#[derive(Debug, Clone, Default)]
pub struct UpdateRefOptions {
    /// Why, for the reflog.
    pub message: Option<String>,
    /// Delete the ref.
    pub delete: bool,
    /// Change the ref itself, not the one that it stands for.
    pub no_deref: bool,
    /// Read changes from the input, and make all of them or none.
    pub stdin: bool,
    /// What is read has NUL in place of ends of lines.
    pub nul: bool,
    /// Make those that can be made, and say which were rejected.
    pub batch_updates: bool,
    /// Begin a reflog where the configuration would not.
    pub create_reflog: bool,
    /// The ref, and what it shall and must point at.
    pub arguments: Vec<OsString>,
}

/// What `symbolic-ref` reads or changes.
#[derive(Debug, Clone, Default)]
pub struct SymbolicRefOptions {
    /// Do not complain of a ref that is not symbolic; only exit with 1.
    pub quiet: bool,
    /// Delete the symbolic ref.
    pub delete: bool,
    /// Shorten what is written, as refs/heads/main to main.
    pub short: bool,
    /// Follow one symbolic ref only.
    pub no_recurse: bool,
    /// Why, for the reflog.
    pub message: Option<String>,
    /// The symbolic ref, and what it shall stand for.
    pub arguments: Vec<OsString>,
}

/// What `show-ref` lists.
#[derive(Debug, Clone, Default)]
pub struct ShowRefOptions {
    /// How it is used.
    /// Show only tags.
    pub tags: bool,
    /// Show only branches.
    pub branches: bool,
    /// Say with the exit code whether a ref exists, without resolving it.
    pub exists: bool,
    /// Take full names only, and complain of those that are not there.
    pub verify: bool,
    /// Show HEAD, whatever is asked for.
    pub head: bool,
    /// Show what tags point at, too.
    pub dereference: bool,
    /// Show only names of objects, with at least so many digits.
    pub hash: Option<i64>,
    /// Shorten names of objects, to at least so many digits.
    pub abbrev: Option<i64>,
    /// Show nothing.
    pub quiet: bool,
    /// Show those lines of the input whose refs do not exist, and begin with this.
    pub exclude_existing: Option<OsString>,
    /// Ends of names, whole words each; with `verify` and `exists`, full names.
    pub patterns: Vec<OsString>,
}

/// Which refs `pack-refs` packs.
#[derive(Debug, Clone, Default)]
pub struct PackRefsOptions {
    /// Pack all refs, not only tags.
    pub all: bool,
    /// Leave loose refs that were packed.
    pub no_prune: bool,
    /// Do only as much as is worth it.
    pub auto: bool,
    /// Pack refs that match, instead of tags.
    pub include: Vec<OsString>,
    /// Pack no refs that match.
    pub exclude: Vec<OsString>,
}

/// What `for-each-ref` lists, and how.
#[derive(Debug, Clone, Default)]
pub struct ForEachRefOptions {
    /// Quote values as a shell reads them.
    pub shell: bool,
    /// Quote values as Perl reads them.
    pub perl: bool,
    /// Quote values as Python reads them.
    pub python: bool,
    /// Quote values as Tcl reads them.
    pub tcl: bool,
    /// Write no line for a ref of which the format leaves nothing.
    pub omit_empty: bool,
    /// Show so many refs at most; 0 is all.
    pub count: Option<i64>,
    /// What to write of each ref, with `%(…)` for fields.
    pub format: Option<OsString>,
    /// Heed colours in the format: always, never or auto.
    pub color: Option<OsString>,
    /// Leave out refs that match one of these patterns.
    pub exclude: Vec<OsString>,
    /// Sort by this field, with a - before it downwards; the last of several counts first.
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
    /// Sort and filter without regard to case.
    pub ignore_case: bool,
    /// Read patterns from the input, one a line.
    pub stdin: bool,
    /// Show HEAD and the other refs outside refs/ too.
    pub include_root_refs: bool,
    /// Refs to show: all of a name, all below it, or by wildcards.
    pub pattern: Vec<OsString>,
}

/// Where `refs migrate` moves refs to.
#[derive(Debug, Clone, Default)]
pub struct RefsMigrateOptions {
    /// The format that they have afterwards: files or reftable.
    pub ref_format: Option<String>,
    /// Only write the refs into a directory, and say which.
    pub dry_run: bool,
    /// Drop reflogs.
    pub no_reflog: bool,
    /// What was said beside options; nothing may be.
    pub arguments: Vec<OsString>,
}

/// How `refs verify` checks refs.
#[derive(Debug, Clone, Default)]
pub struct RefsVerifyOptions {
    /// Take warnings for errors.
    pub strict: bool,
    /// Say what is checked.
    pub verbose: bool,
}

/// What `reflog show` shows.
#[derive(Debug, Clone, Default)]
pub struct ReflogShowOptions {
    /// Show so many entries at most.
    pub max_count: Option<usize>,
    /// Show whole names of objects.
    pub no_abbrev: bool,
    /// Shorten names of objects, to at least so many digits.
    pub abbrev: Option<usize>,
    /// The refs; HEAD if there is none.
    pub names: Vec<OsString>,
}

/// What `reflog delete` and `reflog expire` have in common.
#[derive(Debug, Clone, Default)]
pub struct ReflogChangeOptions {
    /// Change nothing; with `verbose`, say what would be.
    pub dry_run: bool,
    /// Let each entry begin where the one before it that is left ends.
    pub rewrite: bool,
    /// Let the ref point where its last entry ends.
    pub updateref: bool,
    /// Say what becomes of each entry.
    pub verbose: bool,
}

/// Which entries `reflog delete` deletes.
#[derive(Debug, Clone, Default)]
pub struct ReflogDeleteOptions {
    /// What they have in common.
    pub change: ReflogChangeOptions,
    /// The entries: REF@{N}.
    pub entries: Vec<OsString>,
}

/// Which reflogs `reflog drop` deletes.
#[derive(Debug, Clone, Default)]
pub struct ReflogDropOptions {
    /// Those of all refs.
    pub all: bool,
    /// The refs.
    pub names: Vec<OsString>,
}

/// Which entries `reflog expire` deletes.
#[derive(Debug, Clone, Default)]
pub struct ReflogExpireOptions {
    /// What they have in common.
    pub change: ReflogChangeOptions,
    /// Delete what is older than this moment.
    pub expire: Option<String>,
    /// Delete what is older than this moment and that the ref does not reach.
    pub expire_unreachable: Option<String>,
    /// Those of all refs.
    pub all: bool,
    /// The refs.
    pub names: Vec<OsString>,
}

/// What `refs` does.
#[derive(Debug, Clone)]
pub enum RefsOptions {
    /// Says with the exit code whether a ref exists: 2 if not.
    Exists {
        /// The full name, of which there is one.
        names: Vec<OsString>,
    },
    /// Lists refs, as for-each-ref does.
    List(Box<ForEachRefOptions>),
    /// Packs refs, as pack-refs does.
    Optimize(PackRefsOptions),
    /// Moves refs to another format.
    Migrate(RefsMigrateOptions),
    /// Checks that refs are stored as they must be.
    Verify(RefsVerifyOptions),
}

/// What `reflog` does.
#[derive(Debug, Clone)]
pub enum ReflogOptions {
    /// Shows what a reflog tells.
    Show(ReflogShowOptions),
    /// Lists the refs that have a reflog.
    List {
        /// What was said beside options; nothing may be.
        arguments: Vec<String>,
    },
    /// Says with the exit code whether a ref has a reflog.
    Exists {
        /// The full name.
        names: Vec<OsString>,
    },
    /// Adds an entry.
    Write {
        /// The full name, the old and the new object, and why.
        arguments: Vec<OsString>,
    },
    /// Deletes single entries.
    Delete(ReflogDeleteOptions),
    /// Deletes whole reflogs.
    Drop(ReflogDropOptions),
    /// Deletes entries that are too old.
    Expire(ReflogExpireOptions),
}
