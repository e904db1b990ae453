use std::ffi::OsString;

use packrace_commands::option_values;
use packrace_commands::options::{
    LogOptions, ReflogChangeOptions, ReflogDeleteOptions, ReflogDropOptions, ReflogExpireOptions,
    ReflogOptions, ReflogShowOptions,
};

use super::chosen;

#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true, args_conflicts_with_subcommands = true)]
pub struct Reflog {
    #[command(subcommand)]
    pub command: Option<ReflogCommand>,
    #[command(flatten)]
    pub show: ReflogShow,
}

#[derive(Debug, clap::Subcommand)]
pub enum ReflogCommand {
    /// Show the entries of a reflog (the default).
    Show(ReflogShow),
    /// List the refs that have a reflog.
    List {
        #[arg(hide = true)]
        arguments: Vec<String>,
    },
    /// Exit with 0 if a ref has a reflog, and with 1 if not.
    Exists {
        /// The full name of the ref.
        #[arg(value_name = "REF")]
        names: Vec<OsString>,
    },
    /// Add an entry.
    Write {
        /// The full name of the ref, the old and the new object ID, and the message.
        #[arg(value_name = "REF OLD NEW MESSAGE")]
        arguments: Vec<OsString>,
    },
    /// Delete entries.
    Delete(ReflogDelete),
    /// Delete whole reflogs.
    Drop(ReflogDrop),
    /// Delete old entries.
    Expire(ReflogExpire),
}

// Options of git log. No documentation: clap would take it for that of the command.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct LogArgs {
    /// Show at most N entries.
    #[arg(long, short = 'n', value_name = "N", allow_hyphen_values = true)]
    pub max_count: Option<usize>,
    /// Leave out the newest N entries.
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value_t = 0)]
    pub skip: usize,
    /// Show only entries that are not older than TIME.
    #[arg(long, visible_alias = "after", value_name = "TIME", allow_hyphen_values = true)]
    pub since: Option<String>,
    /// Show only entries that are not newer than TIME.
    #[arg(long, visible_alias = "before", value_name = "TIME", allow_hyphen_values = true)]
    pub until: Option<String>,
    /// Name entries by date, and show dates in this format.
    #[arg(long, value_name = "FORMAT", allow_hyphen_values = true)]
    pub date: Option<String>,
    /// Show entries in this format: oneline, or text with placeholders of git log.
    #[arg(long, visible_alias = "pretty", value_name = "FORMAT", overrides_with = "oneline")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "medium")]
    pub format: Option<OsString>,
    /// Like --format=oneline --abbrev-commit.
    #[arg(long)]
    pub oneline: bool,
    /// Abbreviate the object IDs of --format=oneline.
    #[arg(long, overrides_with = "no_abbrev_commit")]
    pub abbrev_commit: bool,
    /// Show full object IDs in lines of --format=oneline.
    #[arg(long)]
    pub no_abbrev_commit: bool,
    /// Show full object IDs.
    #[arg(long)]
    pub no_abbrev: bool,
    /// Abbreviate object IDs to at least N digits.
    #[arg(long, value_name = "N", require_equals = true)]
    pub abbrev: Option<usize>,
    /// Accepted for compatibility: reflogs are always shown, and refs never beside them.
    #[arg(long, short = 'g', alias = "no-decorate", hide = true)]
    pub walk_reflogs: bool,
}

#[derive(Debug, Clone, clap::Args)]
pub struct ReflogShow {
    #[command(flatten)]
    pub log: LogArgs,
    /// The refs (default: HEAD).
    #[arg(value_name = "REF")]
    pub names: Vec<OsString>,
}

/// What `delete` and `expire` have in common.
#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["dry_run", "rewrite", "updateref", "verbose"]))]
pub struct ReflogChange {
    /// Change nothing; with --verbose, print what would change.
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Set the old object of each remaining entry to the new object of the one before it.
    #[arg(long)]
    pub rewrite: bool,
    /// Set the ref to the new object of its last entry.
    #[arg(long)]
    pub updateref: bool,
    /// Print what happens to each entry.
    #[arg(long)]
    pub verbose: bool,
}

#[derive(Debug, clap::Args)]
pub struct ReflogDelete {
    #[command(flatten)]
    pub change: ReflogChange,
    /// The entries: REF@{N}.
    #[arg(value_name = "ENTRY")]
    pub entries: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["all", "single_worktree"]))]
pub struct ReflogDrop {
    /// Process the reflogs of all refs, in all work trees.
    #[arg(long)]
    pub all: bool,
    /// With --all, leave out the reflogs of other work trees.
    #[arg(long)]
    pub single_worktree: bool,
    /// The refs.
    #[arg(value_name = "REF")]
    pub names: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["stale_fix", "all", "single_worktree"]))]
pub struct ReflogExpire {
    #[command(flatten)]
    pub change: ReflogChange,
    /// Delete entries older than TIME (default: gc.reflogExpire, else 90 days).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = option_values::expire)]
    pub expire: Option<String>,
    /// Delete entries older than TIME that the ref does not reach (default: gc.reflogExpireUnreachable, else 30 days).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = option_values::expire_unreachable)]
    pub expire_unreachable: Option<String>,
    /// Also delete entries that name anything but a commit, or a commit that no ref reaches and that lacks objects.
    #[arg(long)]
    pub stale_fix: bool,
    /// Process the reflogs of all refs, in all work trees.
    #[arg(long)]
    pub all: bool,
    /// With --all, leave out the reflogs of other work trees.
    #[arg(long)]
    pub single_worktree: bool,
    /// The refs.
    #[arg(value_name = "REF")]
    pub names: Vec<OsString>,
}

impl From<LogArgs> for LogOptions {
    fn from(args: LogArgs) -> Self {
        let format = if args.oneline { Some("oneline".into()) } else { args.format };
        LogOptions {
            max_count: args.max_count,
            skip: args.skip,
            since: args.since,
            until: args.until,
            date: args.date,
            format,
            abbrev_commit: chosen(
                args.abbrev_commit || args.oneline && !args.no_abbrev_commit,
                args.no_abbrev_commit,
            ),
            no_abbrev: args.no_abbrev,
            abbrev: args.abbrev,
        }
    }
}

impl From<ReflogShow> for ReflogShowOptions {
    fn from(args: ReflogShow) -> Self {
        ReflogShowOptions { log: args.log.into(), names: args.names }
    }
}

impl From<ReflogChange> for ReflogChangeOptions {
    fn from(args: ReflogChange) -> Self {
        ReflogChangeOptions {
            dry_run: args.dry_run,
            rewrite: args.rewrite,
            updateref: args.updateref,
            verbose: args.verbose,
        }
    }
}

impl From<ReflogDelete> for ReflogDeleteOptions {
    fn from(args: ReflogDelete) -> Self {
        ReflogDeleteOptions { change: args.change.into(), entries: args.entries }
    }
}

impl From<ReflogDrop> for ReflogDropOptions {
    fn from(args: ReflogDrop) -> Self {
        ReflogDropOptions { all: args.all, single_worktree: args.single_worktree, names: args.names }
    }
}

impl From<ReflogExpire> for ReflogExpireOptions {
    fn from(args: ReflogExpire) -> Self {
        ReflogExpireOptions {
            change: args.change.into(),
            expire: args.expire,
            expire_unreachable: args.expire_unreachable,
            stale_fix: args.stale_fix,
            all: args.all,
            single_worktree: args.single_worktree,
            names: args.names,
        }
    }
}

impl From<Reflog> for ReflogOptions {
    fn from(args: Reflog) -> Self {
        match args.command {
            None => ReflogOptions::Show(args.show.into()),
            Some(ReflogCommand::Show(args)) => ReflogOptions::Show(args.into()),
            Some(ReflogCommand::List { arguments }) => ReflogOptions::List { arguments },
            Some(ReflogCommand::Exists { names }) => ReflogOptions::Exists { names },
            Some(ReflogCommand::Write { arguments }) => ReflogOptions::Write { arguments },
            Some(ReflogCommand::Delete(args)) => ReflogOptions::Delete(args.into()),
            Some(ReflogCommand::Drop(args)) => ReflogOptions::Drop(args.into()),
            Some(ReflogCommand::Expire(args)) => ReflogOptions::Expire(args.into()),
        }
    }
}
