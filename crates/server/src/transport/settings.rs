//! What a server is told. Plain data, which the cli fills in.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use packrace_store::OpenOptions;
use packrace_store::init::InitOptions;

use crate::admission::AdmissionSettings;
use crate::engine::Committer;

/// What is served, and where. Plain data.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where HTTP is served.
    pub http: Option<SocketAddr>,
    /// Where git:// is served.
    pub git: Option<SocketAddr>,
    /// How repositories are opened.
    pub open: OpenOptions,
    /// The namespace whose refs are served; empty for none.
    pub namespace: String,
    /// What `agent=` says.
    pub agent: String,
    /// What clients may take.
    pub limits: Limits,
    /// How clones are let in.
    pub admission: AdmissionSettings,
    /// Variables that `uploadpack.packObjectsHook` gets beside those of this process.
    pub hook_environment: Vec<(OsString, OsString)>,
    /// What may be pushed.
    pub pushing: Pushing,
}

/// What clients may take: connections, bytes and time. Plain data.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections over git:// at the same time, as `--max-connections` of git's daemon.
    pub max_git_connections: usize,
    /// Connections over HTTP at the same time.
    pub max_http_connections: usize,
    /// Longest upload request over HTTP, inflated or not; `http.maxRequestBuffer`.
    pub max_request_bytes: usize,
    /// Memory for the bodies of all requests that are read or answered at a moment; room for one of the largest size,
    /// twice (as it came, and inflated), there is always.
    pub body_memory_bytes: usize,
    /// How long a client may take to say what it wants: the first packet of git://, the head of an HTTP request.
    pub request_time: Duration,
    /// How long a client may take for the body of an HTTP request.
    pub body_time: Duration,
    /// How long a client of git:// may be silent while it is its turn.
    pub idle_time: Duration,
    /// How long a client may take nothing of what is sent to it, or send nothing of a push.
    pub stall_time: Duration,
    /// How long running requests may go on after the server was told to stop.
    pub drain_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_git_connections: 32,
            max_http_connections: 256,
            max_request_bytes: 10 << 20,
            body_memory_bytes: 256 << 20,
            request_time: Duration::from_secs(30),
            body_time: Duration::from_secs(120),
            idle_time: Duration::from_secs(600),
            stall_time: Duration::from_secs(300),
            drain_time: Duration::from_secs(10),
        }
    }
}

/// What may be pushed, and how. Plain data.
#[derive(Debug, Clone)]
pub struct Pushing {
    /// Everybody may, where the configuration of a repository says nothing else.
    pub is_allowed: bool,
    /// What is made where a push finds nothing.
    pub new_repositories: Option<NewRepositories>,
    /// Who stands in reflogs.
    pub committer: Committer,
    /// Variables that hooks get beside those of this process, and those of them that no door may set.
    pub hook_environment: Vec<(OsString, OsString)>,
    /// Where files go that nobody keeps.
    pub temporary_dir: PathBuf,
}

/// Repositories that pushes make.
#[derive(Debug, Clone)]
pub struct NewRepositories {
    /// What is made; the place comes with the push.
    pub options: InitOptions,
    /// What `HEAD` stands for.
    pub head: Vec<u8>,
}
