//! Options of commands that make repositories or talk of one.

use std::ffi::OsString;
use std::path::PathBuf;

/// What `init` makes.
#[derive(Debug, Clone, Default)]
pub struct InitOptions {
    /// Say only what goes wrong.
    pub quiet: bool,
    /// Make a repository without a work tree.
    pub bare: bool,
    /// Copy what is in this directory; nothing, if it is empty.
    pub template: Option<OsString>,
    /// Keep the repository there, and leave only a file in the work tree that leads to it.
    pub separate_git_dir: Option<OsString>,
    /// Name objects by this hash: sha1 (the default) or sha256.
    pub object_format: Option<String>,
    /// Store refs in this way: files (the default) or reftable.
    pub ref_format: Option<String>,
    /// Name the branch that HEAD stands for.
    pub initial_branch: Option<OsString>,
    /// Let others write, too: false, umask, true, group, all, world, everybody, or a mode as 0640.
    pub shared: Option<OsString>,
    /// Where to; here, if nothing is said.
    pub directory: Option<OsString>,
}

/// What `clone` copies, and to where.
#[derive(Debug, Clone, Default)]
pub struct CloneOptions {
    /// Say only what goes wrong.
    pub quiet: bool,
    /// Say more of the connection.
    pub verbose: bool,
    /// Show progress, or show none; if nothing is said, it depends on whether the error output is a terminal.
    pub progress: Option<bool>,
    /// Make a repository without a work tree, with the branches and tags of the other one.
    pub bare: bool,
    /// The same with all refs, which later fetches overwrite.
    pub mirror: bool,
    /// Take no tags, now and in later fetches.
    pub no_tags: bool,
    /// The branch that HEAD stands for, or the tag that it leads to.
    pub branch: Option<OsString>,
    /// What the other repository is called here (origin, or what clone.defaultRemoteName says).
    pub origin: Option<OsString>,
    /// Store refs in this way: files (the default) or reftable.
    pub ref_format: Option<String>,
    /// The other repository: http:// or git://.
    pub repository: Option<OsString>,
    /// Where to; a name is taken from the URL, if nothing is said.
    pub directory: Option<OsString>,
}

/// How `upload-pack` answers.
#[derive(Debug, Clone, Default)]
pub struct UploadPackOptions {
    /// Take the directory as it is: do not look for `.git` in it, or behind its name.
    pub strict: bool,
    /// End the transfer after so many seconds without a word from the client; 0 is never.
    pub timeout: u64,
    /// Answer one request and end, as HTTP needs it.
    pub stateless_rpc: bool,
    /// Only say which refs there are, as HTTP needs it.
    pub http_backend_info_refs: bool,
    /// The repository.
    pub directory: Option<PathBuf>,
}

/// How `receive-pack` answers.
#[derive(Debug, Clone, Default)]
pub struct ReceivePackOptions {
    /// No progress.
    pub quiet: bool,
    /// Take it that all objects are there which new tips lead to: for hosts that make sure of it in another way.
    pub skip_connectivity_check: bool,
    /// The program that looks after the repository when it needs that (`receive.autogc`): `packrace`. None: nobody does.
    pub maintenance_program: Option<PathBuf>,
    /// Answer one request and end, as HTTP needs it.
    pub stateless_rpc: bool,
    /// Only say which refs there are, as HTTP needs it.
    pub http_backend_info_refs: bool,
    /// The repository.
    pub directory: Option<PathBuf>,
}
