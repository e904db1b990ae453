use packrace_commands::options::{
    self, StashApplyOptions, StashKeepOptions, StashPushOptions, StashShowOptions,
};

use super::chosen;
use std::ffi::OsString;

/// Options of the whole command that have a value in the next argument.
const WITH_VALUE: [&str; 6] = ["-C", "-c", "--git-dir", "--shallow-file", "--attr-source", "--namespace"];

/// What may follow `stash`.
const COMMANDS: [&str; 11] =
    ["push", "save", "list", "show", "apply", "pop", "drop", "clear", "create", "store", "branch"];

#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    disable_help_subcommand = true,
    override_usage = "packrace stash [push [OPTIONS] [--] [PATHSPEC]...]\n       packrace stash COMMAND [OPTIONS]"
)]
pub struct Stash {
    #[command(subcommand)]
    pub command: StashCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum StashCommand {
    /// Keep what differs from HEAD, and take it out of the index and the work tree (the default).
    Push(StashPush),
    /// The same, with a message in place of paths.
    Save {
        #[command(flatten)]
        options: StashOptions,
        /// The message.
        #[arg(value_name = "MESSAGE")]
        words: Vec<OsString>,
    },
    /// List what is kept.
    List {
        /// Show so many entries at most.
        #[arg(long, short = 'n', value_name = "N")]
        max_count: Option<usize>,
    },
    /// Show what an entry changes.
    Show(StashShow),
    /// Bring an entry back, and keep it.
    Apply(StashApply),
    /// Bring an entry back, and drop it if all went well.
    Pop(StashApply),
    /// Drop an entry.
    Drop {
        /// Say nothing of it.
        #[arg(long, short = 'q', overrides_with = "no_quiet")]
        quiet: bool,
        #[arg(long, hide = true)]
        no_quiet: bool,
        /// The entry: stash@{N}, or N.
        #[arg(value_name = "STASH")]
        entries: Vec<OsString>,
    },
    /// Drop all entries.
    Clear {
        #[arg(hide = true)]
        arguments: Vec<OsString>,
    },
    /// Make an entry without keeping it, and say its name.
    Create {
        /// The message.
        #[arg(value_name = "MESSAGE", allow_hyphen_values = true, trailing_var_arg = true)]
        words: Vec<OsString>,
    },
    /// Keep an entry that create has made.
    Store {
        /// What the list says of it.
        #[arg(long, short = 'm', value_name = "MESSAGE", overrides_with = "no_message")]
        message: Option<OsString>,
        #[arg(long, hide = true, overrides_with = "message")]
        no_message: bool,
        /// Complain of nothing.
        #[arg(long, short = 'q', overrides_with = "no_quiet")]
        quiet: bool,
        #[arg(long, hide = true)]
        no_quiet: bool,
        /// The entry.
        #[arg(value_name = "COMMIT")]
        commits: Vec<OsString>,
    },
    /// Make a branch where an entry was made, bring it back there, and drop it.
    Branch {
        /// The branch, and the entry.
        #[arg(value_name = "BRANCH [STASH]")]
        arguments: Vec<OsString>,
    },
}

/// What is kept, and what stays.
#[derive(Debug, Clone, clap::Args)]
pub struct StashOptions {
    /// Leave what is staged in the index and the work tree.
    #[arg(long, short = 'k', overrides_with = "no_keep_index")]
    pub keep_index: bool,
    /// Take it out (the default).
    #[arg(long, overrides_with = "keep_index")]
    pub no_keep_index: bool,
    /// Keep only what is staged.
    #[arg(long, short = 'S', overrides_with = "no_staged")]
    pub staged: bool,
    #[arg(long, hide = true)]
    pub no_staged: bool,
    /// Keep files that git does not know, too.
    #[arg(long, short = 'u', overrides_with = "no_include_untracked")]
    pub include_untracked: bool,
    #[arg(long, hide = true)]
    pub no_include_untracked: bool,
    /// And those that are ignored.
    #[arg(long, short = 'a', overrides_with = "no_all")]
    pub all: bool,
    #[arg(long, hide = true)]
    pub no_all: bool,
    /// Say nothing of it.
    #[arg(long, short = 'q', overrides_with = "no_quiet")]
    pub quiet: bool,
    #[arg(long, hide = true)]
    pub no_quiet: bool,
}

#[derive(Debug, clap::Args)]
pub struct StashPush {
    #[command(flatten)]
    pub options: StashOptions,
    /// What the list says of it.
    #[arg(long, short = 'm', value_name = "MESSAGE", overrides_with = "no_message")]
    pub message: Option<OsString>,
    #[arg(long, hide = true, overrides_with = "message")]
    pub no_message: bool,
    /// Read pathspecs from a file; from standard input if it is -.
    #[arg(long, value_name = "FILE", overrides_with = "no_pathspec_from_file")]
    pub pathspec_from_file: Option<OsString>,
    #[arg(long, hide = true, overrides_with = "pathspec_from_file")]
    pub no_pathspec_from_file: bool,
    /// They end in NUL there.
    #[arg(long, overrides_with = "no_pathspec_file_nul")]
    pub pathspec_file_nul: bool,
    #[arg(long, hide = true)]
    pub no_pathspec_file_nul: bool,
    /// Keep only what matches.
    #[arg(value_name = "PATHSPEC")]
    pub pathspecs: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub struct StashApply {
    /// Stage what was staged.
    #[arg(long, overrides_with = "no_index")]
    pub index: bool,
    #[arg(long, hide = true)]
    pub no_index: bool,
    /// Do not say how the work tree is then.
    #[arg(long, short = 'q', overrides_with = "no_quiet")]
    pub quiet: bool,
    #[arg(long, hide = true)]
    pub no_quiet: bool,
    /// The entry: stash@{N}, or N.
    #[arg(value_name = "STASH")]
    pub entries: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub struct StashShow {
    /// Show files that git did not know, too.
    #[arg(long, short = 'u', overrides_with_all = ["no_include_untracked", "only_untracked"])]
    pub include_untracked: bool,
    /// Do not show them, whatever is configured.
    #[arg(long, overrides_with_all = ["include_untracked", "only_untracked"])]
    pub no_include_untracked: bool,
    /// Show only them.
    #[arg(long, overrides_with_all = ["include_untracked", "no_include_untracked"])]
    pub only_untracked: bool,
    /// The changes themselves.
    #[arg(long, short = 'p')]
    pub patch: bool,
    /// How many lines of each file change (the default).
    #[arg(long)]
    pub stat: bool,
    /// The same, to be read by a program.
    #[arg(long)]
    pub numstat: bool,
    /// Only how many there are of all.
    #[arg(long)]
    pub shortstat: bool,
    /// Only which files change.
    #[arg(long)]
    pub name_only: bool,
    /// Which files change, and how.
    #[arg(long)]
    pub name_status: bool,
    /// The entry: stash@{N}, or N.
    #[arg(value_name = "STASH")]
    pub entries: Vec<OsString>,
}

/// `stash` alone means `stash push`, but then paths stand behind `--`, so that no command that is spelled wrongly is taken for a
/// path. Gives what stands elsewhere.
pub(super) fn add_default_command(argv: &mut Vec<OsString>) -> Result<(), OsString> {
    let mut at = 1;
    while let Some(argument) = argv.get(at) {
        if WITH_VALUE.iter().any(|option| argument == option) {
            at += 1;
        } else if !argument.as_encoded_bytes().starts_with(b"-") {
            break;
        }
        at += 1;
    }
    if argv.get(at).is_none_or(|command| command != "stash") {
        return Ok(());
    }
    let at = at + 1;
    match argv.get(at) {
        Some(next) if COMMANDS.iter().any(|command| next == command) => return Ok(()),
        Some(next) if next == "-h" || next == "--help" => return Ok(()),
        _ => {}
    }
    let mut rest = argv[at..].iter();
    while let Some(argument) = rest.next() {
        let text = argument.as_encoded_bytes();
        match text {
            b"--" => break,
            b"--message" | b"--pathspec-from-file" => drop(rest.next()),
            // A message follows, in this argument or in the next.
            [b'-', switches @ ..] if !switches.starts_with(b"-") && switches.contains(&b'm') => {
                if switches.ends_with(b"m") && switches.iter().filter(|switch| **switch == b'm').count() == 1
                {
                    rest.next();
                }
            }
            [b'-', ..] => {}
            _ => return Err(argument.clone()),
        }
    }
    argv.insert(at, "push".into());
    Ok(())
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

impl From<StashApply> for StashApplyOptions {
    fn from(args: StashApply) -> Self {
        StashApplyOptions { index: args.index, quiet: args.quiet, entries: args.entries }
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
            StashCommand::Save { options, words } => Self::Save { options: options.into(), words },
            StashCommand::List { max_count } => Self::List { max_count },
            StashCommand::Show(args) => Self::Show(args.into()),
            StashCommand::Apply(args) => Self::Apply(args.into()),
            StashCommand::Pop(args) => Self::Pop(args.into()),
            StashCommand::Drop { quiet, entries, .. } => Self::Drop { quiet, entries },
            StashCommand::Clear { arguments } => Self::Clear { arguments },
            StashCommand::Create { words } => Self::Create { words },
            StashCommand::Store { message, quiet, commits, .. } => Self::Store { message, quiet, commits },
            StashCommand::Branch { arguments } => Self::Branch { arguments },
        }
    }
}
