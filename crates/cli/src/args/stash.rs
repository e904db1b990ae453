use packrace_commands::options::{
    self, StashApplyOptions, StashKeepOptions, StashPushOptions, StashShowOptions,
};

use super::reflog::LogArgs;
use super::{Interaction, chosen};
use std::ffi::OsString;

#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub struct Stash {
    #[command(subcommand)]
    pub command: StashCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum StashCommand {
    /// Stash changes of the index and the work tree, and reset both to HEAD (the default).
    Push(StashPush),
    /// Like push, with a message instead of paths.
    #[command(args = super::taken_back(&["message"]))]
    Save {
        #[command(flatten)]
        options: StashOptions,
        #[command(flatten)]
        interaction: Interaction,
        /// The message, unless words follow.
        #[arg(long, short = 'm', allow_hyphen_values = true)]
        message: Option<OsString>,
        /// The message.
        #[arg(value_name = "MESSAGE")]
        words: Vec<OsString>,
    },
    /// List the entries.
    List(LogArgs),
    /// Show the changes of an entry.
    Show(StashShow),
    /// Apply an entry, and keep it.
    Apply(StashApply),
    /// Apply an entry, and drop it if there are no conflicts.
    Pop(StashPop),
    /// Drop an entry.
    #[command(args = super::taken_back(&["quiet"]))]
    Drop {
        /// Print only errors.
        #[arg(long, short = 'q')]
        quiet: bool,
        /// The entry: stash@{N}, stash@{DATE} or N (default: the newest).
        #[arg(value_name = "STASH")]
        entries: Vec<OsString>,
    },
    /// Drop all entries.
    Clear {
        #[arg(hide = true)]
        arguments: Vec<OsString>,
    },
    /// Create an entry without storing it, and print its object ID.
    #[command(disable_help_flag = true)]
    Create {
        /// The message.
        #[arg(value_name = "MESSAGE", allow_hyphen_values = true, trailing_var_arg = true)]
        words: Vec<OsString>,
    },
    /// Store an entry that create has made.
    #[command(args = super::taken_back(&["message", "quiet"]))]
    Store {
        /// Message of the entry.
        #[arg(long, short = 'm', allow_hyphen_values = true)]
        message: Option<OsString>,
        /// Print no errors.
        #[arg(long, short = 'q')]
        quiet: bool,
        /// The commit that create has printed.
        #[arg(value_name = "COMMIT")]
        commits: Vec<OsString>,
    },
    /// Create a branch at the commit of an entry, apply the entry there, and drop it.
    Branch {
        /// The new branch, and the entry (default: the newest).
        #[arg(value_name = "BRANCH [STASH]")]
        arguments: Vec<OsString>,
    },
    /// Make commits of entries that can be fetched and pushed.
    #[command(args = super::taken_back(&["to_ref"]))]
    Export {
        /// Print the object ID of the last commit.
        #[arg(long)]
        print: bool,
        /// Make REF point at the last commit.
        #[arg(long, value_name = "REF", allow_hyphen_values = true)]
        to_ref: Option<OsString>,
        /// The entries (default: all).
        #[arg(value_name = "STASH")]
        stashes: Vec<OsString>,
    },
    /// Append exported entries to the list.
    Import {
        /// The last commit that export has made.
        #[arg(value_name = "COMMIT")]
        commits: Vec<OsString>,
    },
}

impl Stash {
    /// Whether the user is to choose what to stash.
    pub fn is_interactive(&self) -> bool {
        match &self.command {
            StashCommand::Push(args) => args.interaction.is_asked(),
            StashCommand::Save { interaction, .. } => interaction.is_asked(),
            _ => false,
        }
    }
}

/// What is kept, and what stays.
#[derive(Debug, Clone, clap::Args)]
#[command(args = super::taken_back(&["staged", "all", "quiet"]))]
pub struct StashOptions {
    /// Leave staged changes in the index and the work tree.
    #[arg(long, short = 'k', overrides_with = "no_keep_index")]
    pub keep_index: bool,
    /// Stash and remove staged changes (the default).
    #[arg(long, overrides_with = "keep_index")]
    pub no_keep_index: bool,
    /// Stash only staged changes.
    #[arg(long, short = 'S')]
    pub staged: bool,
    /// Also stash untracked files.
    #[arg(long, short = 'u', overrides_with_all = ["no_include_untracked", "all", "no_all"])]
    pub include_untracked: bool,
    #[arg(long, hide = true, overrides_with_all = ["all", "no_all"])]
    pub no_include_untracked: bool,
    /// Also stash untracked and ignored files.
    #[arg(long, short = 'a')]
    pub all: bool,
    /// Print only errors.
    #[arg(long, short = 'q')]
    pub quiet: bool,
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["message", "pathspec_from_file", "pathspec_file_nul"]))]
pub struct StashPush {
    #[command(flatten)]
    pub options: StashOptions,
    #[command(flatten)]
    pub interaction: Interaction,
    /// Message of the entry.
    #[arg(long, short = 'm', value_name = "MESSAGE", allow_hyphen_values = true)]
    pub message: Option<OsString>,
    /// Read pathspecs from FILE, one per line; - is standard input.
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    pub pathspec_from_file: Option<OsString>,
    /// With --pathspec-from-file, pathspecs end with NUL.
    #[arg(long)]
    pub pathspec_file_nul: bool,
    /// Stash only changes of matching paths.
    #[arg(value_name = "PATHSPEC")]
    pub pathspecs: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["quiet"]))]
pub struct StashPop {
    /// Also restore the index (stash.index).
    #[arg(long, overrides_with = "no_index")]
    pub index: bool,
    #[arg(long, hide = true, overrides_with = "index")]
    pub no_index: bool,
    /// Do not print the status of the work tree.
    #[arg(long, short = 'q')]
    pub quiet: bool,
    /// The entry: stash@{N}, stash@{DATE} or N (default: the newest).
    #[arg(value_name = "STASH")]
    pub entries: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["label_ours", "label_theirs", "label_base"]))]
pub struct StashApply {
    #[command(flatten)]
    pub common: StashPop,
    /// Name of our side in conflicts.
    #[arg(long, value_name = "LABEL", allow_hyphen_values = true)]
    pub label_ours: Option<OsString>,
    /// Name of the side of the entry in conflicts.
    #[arg(long, value_name = "LABEL", allow_hyphen_values = true)]
    pub label_theirs: Option<OsString>,
    /// Name of the common base in conflicts.
    #[arg(long, value_name = "LABEL", allow_hyphen_values = true)]
    pub label_base: Option<OsString>,
}

#[derive(Debug, clap::Args)]
pub struct StashShow {
    /// Also show untracked files of the entry.
    #[arg(long, short = 'u', overrides_with_all = ["no_include_untracked", "only_untracked"])]
    pub include_untracked: bool,
    /// Do not show untracked files, whatever stash.showIncludeUntracked says.
    #[arg(long, overrides_with_all = ["include_untracked", "only_untracked"])]
    pub no_include_untracked: bool,
    /// Show only untracked files of the entry.
    #[arg(long, overrides_with_all = ["include_untracked", "no_include_untracked"])]
    pub only_untracked: bool,
    /// Show a patch.
    #[arg(long, short = 'p')]
    pub patch: bool,
    /// Show the number of changed lines per file (the default).
    #[arg(long)]
    pub stat: bool,
    /// Like --stat, for programs.
    #[arg(long)]
    pub numstat: bool,
    /// Show only the total numbers of files and lines.
    #[arg(long)]
    pub shortstat: bool,
    /// Show only the names of changed files.
    #[arg(long)]
    pub name_only: bool,
    /// Show the names and status of changed files.
    #[arg(long)]
    pub name_status: bool,
    /// The entry: stash@{N}, stash@{DATE} or N (default: the newest).
    #[arg(value_name = "STASH")]
    pub entries: Vec<OsString>,
}

impl From<StashOptions> for StashKeepOptions {
    fn from(args: StashOptions) -> Self {
        StashKeepOptions {
            keep_index: args.keep_index,
            staged: args.staged,
            include_untracked: args.include_untracked,
            all: args.all,
            quiet: args.quiet,
        }
    }
}

impl From<StashPush> for StashPushOptions {
    fn from(args: StashPush) -> Self {
        StashPushOptions {
            options: args.options.into(),
            message: args.message,
            pathspec_from_file: args.pathspec_from_file,
            pathspec_file_nul: args.pathspec_file_nul,
            pathspecs: args.pathspecs,
        }
    }
}

impl From<StashPop> for StashApplyOptions {
    fn from(args: StashPop) -> Self {
        let StashPop { quiet, entries, .. } = args;
        StashApplyOptions { index: chosen(args.index, args.no_index), quiet, entries, ..Self::default() }
    }
}

impl From<StashApply> for StashApplyOptions {
    fn from(args: StashApply) -> Self {
        let StashApply { common, label_ours, label_theirs, label_base } = args;
        StashApplyOptions { label_ours, label_theirs, label_base, ..common.into() }
    }
}

impl From<StashShow> for StashShowOptions {
    fn from(args: StashShow) -> Self {
        StashShowOptions {
            include_untracked: chosen(args.include_untracked, args.no_include_untracked),
            only_untracked: args.only_untracked,
            patch: args.patch,
            stat: args.stat,
            numstat: args.numstat,
            shortstat: args.shortstat,
            name_only: args.name_only,
            name_status: args.name_status,
            entries: args.entries,
        }
    }
}

impl From<Stash> for options::StashOptions {
    fn from(args: Stash) -> Self {
        match args.command {
            StashCommand::Push(args) => Self::Push(args.into()),
            StashCommand::Save { options, message, words, .. } => {
                let words = if words.is_empty() { message.into_iter().collect() } else { words };
                Self::Save { options: options.into(), words }
            }
            StashCommand::List(args) => Self::List(args.into()),
            StashCommand::Show(args) => Self::Show(args.into()),
            StashCommand::Apply(args) => Self::Apply(args.into()),
            StashCommand::Pop(args) => Self::Pop(args.into()),
            StashCommand::Drop { quiet, entries, .. } => Self::Drop { quiet, entries },
            StashCommand::Clear { arguments } => Self::Clear { arguments },
            StashCommand::Create { words } => Self::Create { words },
            StashCommand::Store { message, quiet, commits, .. } => Self::Store { message, quiet, commits },
            StashCommand::Branch { arguments } => Self::Branch { arguments },
            StashCommand::Export { print, to_ref, stashes } => Self::Export { print, to_ref, stashes },
            StashCommand::Import { commits } => Self::Import { commits },
        }
    }
}
