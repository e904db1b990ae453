use packrace_commands::Fatal;
use packrace_commands::options::{CommitGraphOptions, CommitGraphVerifyOptions, CommitGraphWriteOptions};
use packrace_commands::{numbers, option_values};

use super::chosen;
use super::multi_pack_index::{MultiPackIndexCommon, maybe_empty};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub struct CommitGraphArgs {
    /// Object directory of the commit-graph: the repository's own or an alternate.
    #[arg(long, value_name = "DIR", allow_hyphen_values = true, overrides_with = "no_object_dir")]
    #[arg(value_parser = maybe_empty())]
    pub object_dir: Option<PathBuf>,
    #[arg(long, hide = true)]
    pub no_object_dir: bool,
    #[command(subcommand)]
    pub command: CommitGraphCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum CommitGraphCommand {
    /// Write a commit-graph of all packed commits, or of selected commits.
    Write(Box<CommitGraphWrite>),
    /// Verify the commit-graph against the commits.
    Verify(CommitGraphVerify),
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&[
    "reachable", "stdin_packs", "stdin_commits", "append", "size_multiple", "max_commits",
    "expire_time",
]))]
pub struct CommitGraphWrite {
    #[command(flatten)]
    pub common: MultiPackIndexCommon,
    /// Start from all refs.
    #[arg(long)]
    pub reachable: bool,
    /// Start from the commits in the packs whose indexes are named on standard input.
    #[arg(long)]
    pub stdin_packs: bool,
    /// Start from the objects named on standard input.
    #[arg(long)]
    pub stdin_commits: bool,
    /// Keep all commits of the existing commit-graph.
    #[arg(long)]
    pub append: bool,
    /// Write filters of the paths that each commit changes (default: as commitGraph.changedPaths says, or if
    /// the existing commit-graph has them).
    #[arg(long, overrides_with = "no_changed_paths")]
    pub changed_paths: bool,
    /// Write no changed-path filters.
    #[arg(long)]
    pub no_changed_paths: bool,
    /// Compute at most N new filters; -1: no limit (default: commitGraph.maxNewFilters).
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::decimal, overrides_with = "no_max_new_filters")]
    pub max_new_filters: Option<i64>,
    #[arg(long, hide = true)]
    pub no_max_new_filters: bool,
    /// Write a chain of files: `no-merge` always adds a file, `replace` replaces all by one.
    #[arg(long, value_name = "STRATEGY", num_args = 0..=1, require_equals = true, value_parser = option_values::split_strategy)]
    pub split: Option<Option<String>>,
    /// With --split, merge the file below if it has at most X times the commits of the new one.
    #[arg(long, value_name = "X", default_value = "2", default_value_if("no_size_multiple", "true", "0"))]
    #[arg(allow_hyphen_values = true, value_parser = numbers::integer)]
    pub size_multiple: i64,
    /// With --split, merge the file below if the new one has more than M commits; 0: no limit.
    #[arg(long, value_name = "M", default_value = "0", allow_hyphen_values = true, value_parser = numbers::integer)]
    pub max_commits: i64,
    /// Delete files that belong to no chain and are older than WHEN (default: now).
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true, value_parser = option_values::graph_expiry)]
    pub expire_time: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["shallow"]))]
pub struct CommitGraphVerify {
    #[command(flatten)]
    pub common: MultiPackIndexCommon,
    /// Check only the newest file of a chain.
    #[arg(long)]
    pub shallow: bool,
}

impl From<CommitGraphWrite> for CommitGraphWriteOptions {
    fn from(args: CommitGraphWrite) -> Self {
        CommitGraphWriteOptions {
            object_dir: args.common.object_dir,
            reachable: args.reachable,
            stdin_packs: args.stdin_packs,
            stdin_commits: args.stdin_commits,
            append: args.append,
            changed_paths: chosen(args.changed_paths, args.no_changed_paths),
            max_new_filters: if args.no_max_new_filters { Some(-1) } else { args.max_new_filters },
            split: args.split,
            size_multiple: args.size_multiple,
            max_commits: args.max_commits,
            expire_time: args.expire_time,
            progress: chosen(args.common.progress, args.common.no_progress),
        }
    }
}

impl From<CommitGraphVerify> for CommitGraphVerifyOptions {
    fn from(args: CommitGraphVerify) -> Self {
        CommitGraphVerifyOptions {
            object_dir: args.common.object_dir,
            shallow: args.shallow,
            progress: chosen(args.common.progress, args.common.no_progress),
        }
    }
}

impl TryFrom<CommitGraphArgs> for CommitGraphOptions {
    type Error = Fatal;

    fn try_from(args: CommitGraphArgs) -> Result<Self, Fatal> {
        match args.command {
            CommitGraphCommand::Write(mut write) => {
                write.common.or_before(args.object_dir);
                Ok(CommitGraphOptions::Write(Box::new((*write).into())))
            }
            CommitGraphCommand::Verify(mut verify) => {
                verify.common.or_before(args.object_dir);
                Ok(CommitGraphOptions::Verify(verify.into()))
            }
        }
    }
}
