use packrace_commands::Fatal;
use packrace_commands::options::{CommitGraphOptions, CommitGraphVerifyOptions, CommitGraphWriteOptions};

use super::chosen;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub struct CommitGraphArgs {
    /// The object directory that the commit-graph belongs to: the repository's own or one that it borrows from.
    #[arg(long, value_name = "DIR")]
    pub object_dir: Option<PathBuf>,
    #[command(subcommand)]
    pub command: CommitGraphCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum CommitGraphCommand {
    /// Write a commit-graph of the commits in packs, or of those that are asked for.
    Write(Box<CommitGraphWrite>),
    /// Compare the commit-graph with the commits.
    Verify(CommitGraphVerify),
}

#[derive(Debug, clap::Args)]
pub struct CommitGraphWrite {
    /// The object directory, as before `write`.
    #[arg(long, value_name = "DIR")]
    pub object_dir: Option<PathBuf>,
    /// Start from all refs.
    #[arg(long, overrides_with = "no_reachable")]
    pub reachable: bool,
    #[arg(long, hide = true)]
    pub no_reachable: bool,
    /// Start from the commits in the packs whose indexes are named on standard input.
    #[arg(long, overrides_with = "no_stdin_packs")]
    pub stdin_packs: bool,
    #[arg(long, hide = true)]
    pub no_stdin_packs: bool,
    /// Start from the objects named on standard input.
    #[arg(long, overrides_with = "no_stdin_commits")]
    pub stdin_commits: bool,
    #[arg(long, hide = true)]
    pub no_stdin_commits: bool,
    /// Keep every commit of the present commit-graph.
    #[arg(long, overrides_with = "no_append")]
    pub append: bool,
    #[arg(long, hide = true)]
    pub no_append: bool,
    /// Not offered: changed-path filters cannot be written.
    #[arg(long, overrides_with = "no_changed_paths")]
    pub changed_paths: bool,
    /// Write no changed-path filters (the default).
    #[arg(long)]
    pub no_changed_paths: bool,
    /// Write a chain of files; with `no-merge` always one more, with `replace` one for all.
    #[arg(long, value_name = "STRATEGY", num_args = 0..=1, require_equals = true, default_missing_value = "", overrides_with = "no_split")]
    pub split: Option<String>,
    #[arg(long, hide = true)]
    pub no_split: bool,
    /// Take in the file below if it has at most X times the commits of the new one.
    #[arg(long, value_name = "X", default_value_t = 2, allow_negative_numbers = true)]
    pub size_multiple: i64,
    /// Take in the file below if the new one has more commits than M.
    #[arg(long, value_name = "M", default_value_t = 0, allow_negative_numbers = true)]
    pub max_commits: i64,
    /// Delete files that no chain names and that are older than WHEN (default: now).
    #[arg(long, value_name = "WHEN")]
    pub expire_time: Option<String>,
    /// Say what is done, also where standard error is no terminal.
    #[arg(long, overrides_with = "no_progress")]
    pub progress: bool,
    /// Say nothing while it is done.
    #[arg(long)]
    pub no_progress: bool,
}

#[derive(Debug, clap::Args)]
pub struct CommitGraphVerify {
    /// The object directory, as before `verify`.
    #[arg(long, value_name = "DIR")]
    pub object_dir: Option<PathBuf>,
    /// Of a chain, check only the newest file.
    #[arg(long, overrides_with = "no_shallow")]
    pub shallow: bool,
    #[arg(long, hide = true)]
    pub no_shallow: bool,
    /// Say how far it is, also where standard error is no terminal.
    #[arg(long, overrides_with = "no_progress")]
    pub progress: bool,
    /// Say nothing while it runs.
    #[arg(long)]
    pub no_progress: bool,
}

impl From<CommitGraphWrite> for CommitGraphWriteOptions {
    fn from(args: CommitGraphWrite) -> Self {
        CommitGraphWriteOptions {
            object_dir: args.object_dir,
            reachable: args.reachable,
            stdin_packs: args.stdin_packs,
            stdin_commits: args.stdin_commits,
            append: args.append,
            split: args.split,
            size_multiple: args.size_multiple,
            max_commits: args.max_commits,
            expire_time: args.expire_time,
            progress: chosen(args.progress, args.no_progress),
        }
    }
}

impl From<CommitGraphVerify> for CommitGraphVerifyOptions {
    fn from(args: CommitGraphVerify) -> Self {
        CommitGraphVerifyOptions {
            object_dir: args.object_dir,
            shallow: args.shallow,
            progress: chosen(args.progress, args.no_progress),
        }
    }
}

impl TryFrom<CommitGraphArgs> for CommitGraphOptions {
    type Error = Fatal;

    fn try_from(args: CommitGraphArgs) -> Result<Self, Fatal> {
        match args.command {
            CommitGraphCommand::Write(write) if write.changed_paths => {
                Err(Fatal::usage("option `changed-paths' is not supported"))
            }
            CommitGraphCommand::Write(mut write) => {
                write.object_dir = write.object_dir.or(args.object_dir);
                Ok(CommitGraphOptions::Write(Box::new((*write).into())))
            }
            CommitGraphCommand::Verify(mut verify) => {
                verify.object_dir = verify.object_dir.or(args.object_dir);
                Ok(CommitGraphOptions::Verify(verify.into()))
            }
        }
    }
}
