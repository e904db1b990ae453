//! `packrace repo`.

use std::ffi::OsString;
use std::path::PathBuf;

/// Make, list, delete, rename and describe the repositories of a folder that `packrace serve` serves.
#[derive(Debug, clap::Args)]
#[command(after_long_help = REPO_HELP)]
pub struct Repo {
    #[command(subcommand)]
    pub command: RepoCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum RepoCommand {
    /// Make an empty bare repository, and print its name.
    Create(RepoCreate),
    /// Print the names of all repositories, a line each.
    List(RepoList),
    /// Move a repository into the trash, and print where it lies there.
    Delete(RepoDelete),
    /// Give a repository another name, and print it.
    Rename(RepoRename),
    /// Print what a repository is about, or say it. Ends with 1 if nobody has said it.
    Describe(RepoDescribe),
}

#[derive(Debug, clap::Args)]
pub struct RepoCreate {
    /// Name objects by this hash: sha1 (the default) or sha256.
    #[arg(long, value_name = "FORMAT")]
    pub object_format: Option<String>,
    /// Store refs in this way: files (the default) or reftable.
    #[arg(long, value_name = "FORMAT")]
    pub ref_format: Option<String>,
    /// Name the branch that HEAD stands for.
    #[arg(long, short = 'b', value_name = "BRANCH-NAME", allow_hyphen_values = true)]
    pub initial_branch: Option<String>,
    /// Say in a line what it is about.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub description: Option<String>,
    /// The served folder.
    pub root: PathBuf,
    /// The path below it; .git is added where it is missing, and so are folders.
    pub name: String,
}

#[derive(Debug, clap::Args)]
pub struct RepoList {
    /// The served folder.
    pub root: PathBuf,
    /// End each name with a zero byte instead of a newline.
    #[arg(short = 'z')]
    pub zero: bool,
}

#[derive(Debug, clap::Args)]
pub struct RepoDelete {
    /// The served folder.
    pub root: PathBuf,
    /// The path below it, with .git or without.
    pub name: OsString,
}

#[derive(Debug, clap::Args)]
pub struct RepoRename {
    /// The served folder.
    pub root: PathBuf,
    /// The path below it, with .git or without.
    pub old: OsString,
    /// The new path below it; .git is added where it is missing, and so are folders.
    pub new: String,
}

#[derive(Debug, clap::Args)]
pub struct RepoDescribe {
    /// The served folder.
    pub root: PathBuf,
    /// The path below it, with .git or without.
    pub name: OsString,
    /// One line; without it, what was said is printed.
    #[arg(allow_hyphen_values = true)]
    pub text: Option<String>,
}

/// How it works, behind the help.
const REPO_HELP: &str = "\
A server of the folder may run meanwhile, and need not be told. A repository appears when it is complete; of two who want one name, \
one gets it.

Deleted repositories lie in ROOT/.packrace-trash, each in a folder with the time of its deletion, and are not served. Moved back, \
they are there again; for good go those that are removed:

    mv ROOT/.packrace-trash/2026-11-23T134505Z/team/tool.git ROOT/team/tool.git
    find ROOT/.packrace-trash -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} +

Ends with 1 where there is no such repository, or the name is taken.

With access rules, requests do the same: /-/api/v1/repositories.";
