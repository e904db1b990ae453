//! Options of commands that create or serve a repository.

use std::ffi::OsString;
use std::path::PathBuf;

/// The repository that `init` creates.
#[derive(Debug, Clone, Default)]
pub struct InitOptions {
    /// Print only errors.
    pub quiet: bool,
    /// Create a repository without a work tree.
    pub bare: bool,
    /// Copy files from this directory; an empty path: none.
    pub template: Option<OsString>,
    /// Create the repository there, and in the work tree only a file that points to it.
    pub separate_git_dir: Option<OsString>,
    /// The hash of object names: sha1 (the default) or sha256.
    pub object_format: Option<String>,
    /// The ref format: files (the default) or reftable.
    pub ref_format: Option<String>,
    /// The initial branch that HEAD points to.
    pub initial_branch: Option<OsString>,
    /// Permissions for other users: false, umask, true, group, all, world, everybody, or a mode as 0640.
    pub shared: Option<OsString>,
    /// The target directory; default: the current one.
    pub directory: Option<OsString>,
}

/// The repository that `clone` copies, and its target.
#[derive(Debug, Clone, Default)]
pub struct CloneOptions {
    /// Print only errors.
    pub quiet: bool,
    /// Print more about the connection.
    pub verbose: bool,
    /// Show progress or not; if not given, only if the error output is a terminal.
    pub progress: Option<bool>,
    /// Create a repository without a work tree, with the branches and tags of the server.
    pub bare: bool,
    /// The same with all refs, which later fetches overwrite.
    pub mirror: bool,
    /// Fetch no tags, now and later.
    pub no_tags: bool,
    /// Only addresses of IPv6, or only those of IPv4; all if not given.
    pub ipv6: Option<bool>,
    /// The branch that HEAD points to, or a tag for a detached HEAD.
    pub branch: Option<OsString>,
    /// The name of the remote (default: clone.defaultRemoteName, else origin).
    pub origin: Option<OsString>,
    /// The ref format: files (the default) or reftable.
    pub ref_format: Option<String>,
    /// The URL of the repository: http://, https:// or git://.
    pub repository: Option<OsString>,
    /// The target directory; default: a name from the URL.
    pub directory: Option<OsString>,
}

/// How `upload-pack` answers.
#[derive(Debug, Clone, Default)]
pub struct UploadPackOptions {
    /// Take the directory as it is: do not try `.git` inside it or after its name.
    pub strict: bool,
    /// End the transfer after this many seconds without input from the client; 0: never.
    pub timeout: u64,
    /// Answer one request and end, as HTTP needs it.
    pub stateless_rpc: bool,
    /// Only advertise refs, as HTTP needs it.
    pub http_backend_info_refs: bool,
    /// The repository.
    pub directory: Option<PathBuf>,
}

/// How `receive-pack` answers.
#[derive(Debug, Clone, Default)]
pub struct ReceivePackOptions {
    /// Show no progress.
    pub quiet: bool,
    /// Do not check that new tips reach only existing objects: for hosts that check it otherwise.
    pub skip_connectivity_check: bool,
    /// Refuse thin packs, unless they become loose objects: for tests.
    pub reject_thin_packs: bool,
    /// The program that maintains the repository if needed (`receive.autogc`): `packrace`. None: no
    /// maintenance.
    pub maintenance_program: Option<PathBuf>,
    /// Answer one request and end, as HTTP needs it.
    pub stateless_rpc: bool,
    /// Only advertise refs, as HTTP needs it.
    pub http_backend_info_refs: bool,
    /// The repository.
    pub directory: Option<PathBuf>,
}
