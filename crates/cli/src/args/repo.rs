//! `packrace repo`.

use std::ffi::OsString;
use std::path::PathBuf;

/// Create, list, delete, rename and describe repositories of a served folder.
#[derive(Debug, clap::Args)]
#[command(after_long_help = REPO_HELP)]
pub struct Repo {
    #[command(subcommand)]
    pub command: RepoCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum RepoCommand {
    /// Create an empty bare repository, and print its name.
    Create(RepoCreate),
    /// Print the names of all repositories, one per line.
    List(RepoList),
    /// Move a repository to the trash, and print its path there.
    Delete(RepoDelete),
    /// Rename a repository, and print its new name.
    Rename(RepoRename),
    /// Print or set the description of a repository; exit with 1 if it has none.
    Describe(RepoDescribe),
}

#[derive(Debug, clap::Args)]
pub struct RepoCreate {
    /// Hash of object IDs: sha1 (the default) or sha256.
    #[arg(long, value_name = "FORMAT")]
    pub object_format: Option<String>,
    /// Ref format: files (the default) or reftable.
    #[arg(long, value_name = "FORMAT")]
    pub ref_format: Option<String>,
    /// Name of the initial branch.
    #[arg(long, short = 'b', value_name = "BRANCH-NAME", allow_hyphen_values = true)]
    pub initial_branch: Option<String>,
    /// Set the description: one line.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub description: Option<String>,
    /// The served folder.
    pub root: PathBuf,
    /// Path below the served folder; .git and parent directories are added if missing.
    pub name: String,
}

#[derive(Debug, clap::Args)]
pub struct RepoList {
    /// The served folder.
    pub root: PathBuf,
    /// Terminate names with NUL instead of newline.
    #[arg(short = 'z')]
    pub zero: bool,
}

#[derive(Debug, clap::Args)]
pub struct RepoDelete {
    /// The served folder.
    pub root: PathBuf,
    /// Path below the served folder, with or without .git.
    pub name: OsString,
}

#[derive(Debug, clap::Args)]
pub struct RepoRename {
    /// The served folder.
    pub root: PathBuf,
    /// Path below the served folder, with or without .git.
    pub old: OsString,
    /// The new path below the served folder; .git and parent directories are added if missing.
    pub new: String,
}

#[derive(Debug, clap::Args)]
pub struct RepoDescribe {
    /// The served folder.
    pub root: PathBuf,
    /// Path below the served folder, with or without .git.
    pub name: OsString,
    /// The new description, one line; without it, the description is printed.
    #[arg(allow_hyphen_values = true)]
    pub text: Option<String>,
}

/// How it works; shown after the help.
const REPO_HELP: &str = "\
A server can run meanwhile and needs no notification. A new repository appears only when it is complete. If two commands create the \
same name at once, one of them fails.

Deleted repositories are in ROOT/.packrace-trash, in directories named after the time of deletion, and are not served. To restore a \
repository, move it back; to delete repositories permanently, remove them:

    mv ROOT/.packrace-trash/2026-11-23T134505Z/team/tool.git ROOT/team/tool.git
    find ROOT/.packrace-trash -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} +

The exit code is 1 if there is no such repository or the name is taken, and 128 for other errors, such as an invalid name.

With access rules, HTTP requests can do the same: /-/api/v1/repositories.";
