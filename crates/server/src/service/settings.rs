//! What a server is told. Plain data, which the cli fills in.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use packrace_os::child::Confinement;
use packrace_os::pace::Pace;
use packrace_store::init::InitOptions;
use packrace_store::{HooksFrom, OpenOptions};

pub use crate::address::AddressRange;
use crate::admission::AdmissionSettings;
use crate::engine::{Committer, PushBudget};
use crate::pack_cache::CacheSettings;
use crate::warm::WarmSettings;

/// What is served, and where. Plain data.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where HTTP is served.
    pub http: Option<SocketAddr>,
    /// Where git:// is served.
    pub git: Option<SocketAddr>,
    /// Where the server can be looked at.
    pub admin: Admin,
    /// How repositories are opened.
    pub open: OpenOptions,
    /// The namespace whose refs are served; empty for none.
    pub namespace: String,
    /// What `agent=` says.
    pub agent: String,
    /// Names this process in logs; the ids of its calls begin with it. That of git's trace2, where there is one.
    pub session_id: String,
    /// What clients may take.
    pub limits: Limits,
    /// How clones are let in.
    pub admission: AdmissionSettings,
    /// What is kept of packs, to send it again.
    pub cache: CacheSettings,
    /// What is kept of repositories between calls.
    pub warm: WarmSettings,
    /// Variables that `uploadpack.packObjectsHook` gets beside those of this process.
    pub hook_environment: Vec<(OsString, OsString)>,
    /// What may be pushed.
    pub pushing: Pushing,
    /// What hooks and other programs may do and take.
    pub confinement: Confinement,
    /// Which repositories are served, and what they may decide.
    pub rules: ServeRules,
    /// By which names HTTP is served.
    pub hosts: Hosts,
}

/// Which repositories below the folder are served, and what they may decide. Plain data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServeRules {
    /// Nobody pushes, whatever else is said, also by a repository.
    pub read_only: bool,
    /// Only repositories with a file `git-daemon-export-ok` are served.
    pub require_export_ok: bool,
    /// Folders outside of the served one into which links and alternates may lead. Counted at the start only.
    pub allowed_paths: Vec<PathBuf>,
    /// Which hooks are run.
    pub hooks: HooksFrom,
}

/// By which names browsers may ask over HTTP: an attacker may give any other name the address of this server (DNS
/// rebinding).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Hosts {
    /// Loopback's names and addresses where a connection comes over loopback; any where it does not.
    #[default]
    Auto,
    /// Any.
    Any,
    /// These, without a port; and those of loopback over loopback.
    Named(Vec<String>),
}

/// Where a server can be looked at while it runs: the routes below `/-/`.
///
/// Whether it lives (`healthz`) and is ready (`readyz`) is told over HTTP unless it is told nowhere. `metrics` and the
/// page are where this says; the page names clients and repositories only at an address of its own, because who may
/// reach the door for repositories need not know who else does, nor what is served there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admin {
    /// On the door for repositories, without names.
    #[default]
    OnHttp,
    /// At this address, with names.
    At(SocketAddr),
    /// Not at all.
    Nowhere,
}

/// What clients may take: connections, requests, bytes and time. Plain data.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections that are open at the same time, at all doors; also no more than three quarters of the descriptors that
    /// the process may have. One that asks for nothing costs a task of some kilobytes and a descriptor. Beyond: HTTP 503 with
    /// `Retry-After`, `ERR` over git://.
    pub max_connections: usize,
    /// Requests that run at the same time, at all doors; also no more than a sixteenth of the descriptors that the
    /// process may have. Each has a thread, for which no other waits: 2 MiB of addresses, and the pages of them that it
    /// touches. Beyond: HTTP 503 with `Retry-After`, `ERR` over git://.
    pub max_requests: usize,
    /// Connections that one client has open at the same time: one IPv4 address, or one /64 of IPv6. Beyond: HTTP 429 with
    /// `Retry-After`, `ERR` over git://.
    pub max_connections_per_address: usize,
    /// Requests of one client that run at the same time. Beyond: as for connections.
    pub max_requests_per_address: usize,
    /// Clients whose connections and requests are not limited by address, as those that come through a proxy:
    /// loopback by default.
    pub exempt_addresses: Vec<AddressRange>,
    /// Longest upload request over HTTP in bytes, inflated or not; `http.maxRequestBuffer`.
    pub max_request_bytes: usize,
    /// Memory for the bodies of all requests that are read or answered at a moment; room for one of the largest size,
    /// twice (as it came, and inflated), there is always. It is claimed as bytes come. Beyond: the body goes that has held the
    /// most for the longest time without coming on; where there is none, HTTP 503.
    pub body_memory_bytes: usize,
    /// What the bodies of one client may take of it. Beyond: the same among the bodies of this client; where there is
    /// none, HTTP 429.
    pub body_memory_bytes_per_address: usize,
    /// How long a client may take to say what it wants: the first packet of git://, the head of an HTTP request. So long,
    /// and at most twice as long, an HTTP connection is also kept between requests.
    pub request_time: Duration,
    /// How long a client may take for the body of an HTTP request, but that of a push.
    pub body_time: Duration,
    /// How long a client of git:// may be silent while it is its turn. In as much waiting it must send `stall_bytes`, or
    /// all that it has to say.
    pub idle_time: Duration,
    /// In this time, a client must take `stall_bytes` of what waits for it, or all that waits; and of a push over HTTP send as
    /// many, or the rest. Else it is cut.
    pub stall_time: Duration,
    /// See `stall_time`.
    pub stall_bytes: usize,
    /// How long the server listens on after it was told to stop, so that balancers of load notice that it is not ready;
    /// clones that come in this time are refused (HTTP 503 with `Retry-After`, `ERR` over git://), other requests served.
    pub grace_time: Duration,
    /// How long running requests may go on after that.
    pub drain_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_connections: 16_384,
            max_requests: 1024,
            max_connections_per_address: 4096,
            max_requests_per_address: 512,
            exempt_addresses: AddressRange::loopback(),
            max_request_bytes: 10 << 20,
            body_memory_bytes: 256 << 20,
            body_memory_bytes_per_address: 64 << 20,
            request_time: Duration::from_secs(30),
            body_time: Duration::from_secs(120),
            idle_time: Duration::from_secs(600),
            stall_time: Duration::from_secs(300),
            stall_bytes: 4096,
            grace_time: Duration::ZERO,
            drain_time: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// How fast a client must take what waits for it, or send the rest of a push.
    pub(super) fn stall_pace(&self) -> Pace {
        Pace { time: self.stall_time, bytes: self.stall_bytes }
    }

    /// How fast a client of git:// must say what it has to say.
    pub(super) fn idle_pace(&self) -> Pace {
        Pace { time: self.idle_time, bytes: self.stall_bytes }
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
    /// What one push may cost.
    pub budget: PushBudget,
    /// What the commands of all pushes may take.
    pub memory: PushMemory,
}

/// Memory for what pushes ask for: commands with their names, certificates, options. By estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushMemory {
    /// For all pushes. Beyond: HTTP 503 with `Retry-After`, `ERR` over git://.
    pub bytes: usize,
    /// For those of one client. Beyond: the same.
    pub bytes_per_address: usize,
}

impl Default for PushMemory {
    /// A push of a million refs takes some 500 MB.
    fn default() -> Self {
        PushMemory { bytes: 2 << 30, bytes_per_address: 1 << 30 }
    }
}

impl Pushing {
    /// What hooks get, where a door says more.
    pub(super) fn for_hooks_with(&self, variables: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
        // What the environment of this process says of the committer stays as it is.
        let is_new = |name: &OsString| self.hook_environment.iter().all(|(other, _)| other != name);
        let new = variables.into_iter().filter(|(name, _)| is_new(name));
        self.hook_environment.iter().cloned().chain(new).collect()
    }
}

/// Repositories that pushes make.
#[derive(Debug, Clone)]
pub struct NewRepositories {
    /// What is made; the place comes with the push.
    pub options: InitOptions,
    /// What `HEAD` stands for.
    pub head: Vec<u8>,
}
