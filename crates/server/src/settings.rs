//! The settings of a server. Plain data, which the cli fills in.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use packrace_os::child::Confinement;
use packrace_remote::bucket::s3::S3Options;
use packrace_store::init::InitOptions;
use packrace_store::{HooksFrom, OpenOptions};

use crate::access::{AccessPolicy, AuditLog, TrustedProxies};
use crate::auto_maintenance::AutoMaintenance;
use crate::bundles::BundleRules;
use crate::events::EventSettings;
use crate::limits::Limits;
use crate::limits::admission::AdmissionSettings;
use crate::maintenance::MaintenanceRules;
use crate::program::ProgramHooks;
use crate::receive::{Committer, PushBudget};
use crate::repository_cache::RepositoryCacheSettings;
use crate::send::pack_cache::CacheSettings;
use crate::ssh_keys::Ssh;
use crate::tls::Tls;
use crate::webhooks::Webhooks;

/// What is served, and where. Plain data.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where HTTP is served.
    pub http: Option<SocketAddr>,
    /// Where HTTPS is served. Without [`Settings::tls`], all connections are refused.
    pub https: Option<SocketAddr>,
    /// Certificates and keys; open connections keep those that they began with.
    pub tls: Option<Tls>,
    /// Where SSH is served. Without [`Settings::ssh_keys`], all logins fail.
    pub ssh: Option<SocketAddr>,
    /// Keys of the host and of users; open connections keep those that they began with.
    pub ssh_keys: Option<Ssh>,
    /// Where git:// is served.
    pub git: Option<SocketAddr>,
    /// Where the routes below `/-/` are served.
    pub admin: Admin,
    /// The bucket whose repositories are served instead of those of a folder, which is its cache then.
    /// Applies at the start only.
    pub bucket: Option<BucketSettings>,
    /// How repositories are opened.
    pub open: OpenOptions,
    /// The namespace whose refs are served; empty for none.
    pub namespace: String,
    /// The value of `agent=`.
    pub agent: String,
    /// The name of this process in logs; the ids of its calls begin with it. That of git's trace2, if there
    /// is one.
    pub session_id: String,
    /// Limits for clients.
    pub limits: Limits,
    /// How many clones run, and how many wait.
    pub admission: AdmissionSettings,
    /// What is cached of packs.
    pub cache: CacheSettings,
    /// What is cached of repositories between calls.
    pub repository_cache: RepositoryCacheSettings,
    /// How repositories are maintained.
    pub maintenance: MaintenanceRules,
    /// Which bundles are kept of them.
    pub bundles: BundleRules,
    /// Variables that `uploadpack.packObjectsHook` gets in addition to those of this process.
    pub hook_environment: Vec<(OsString, OsString)>,
    /// Whether and how clients may push.
    pub pushing: Pushing,
    /// What hooks and other programs may do and use.
    pub confinement: Confinement,
    /// Which repositories are served, and what they may decide.
    pub rules: ServeRules,
    /// The host names that HTTP requests may use.
    pub hosts: Hosts,
    /// Who may do what.
    pub access: Arc<dyn AccessPolicy>,
    /// Proxies whose headers are trusted.
    pub proxies: TrustedProxies,
    /// Where pushes and changes of repositories are recorded.
    pub audit: Option<Arc<AuditLog>>,
    /// How events are recorded. Applies at the start only.
    pub events: EventSettings,
    /// Where events are posted. If nowhere at the start, then never.
    pub webhooks: Option<Arc<Webhooks>>,
    /// Functions of the program that embeds the server. Applies at the start only.
    pub program: ProgramHooks,
    /// What `/-/api/v1/repositories` creates; `None`: there is no such route.
    pub repository_prototype: Option<NewRepositories>,
}

/// A bucket, and how much of it is kept on disk. Plain data.
#[derive(Debug, Clone)]
pub struct BucketSettings {
    /// How it is accessed.
    pub s3: S3Options,
    /// Bytes of repositories on disk. Beyond: the least recently used are evicted; if all are in use, HTTP
    /// 503.
    pub max_bytes: u64,
}

/// Which repositories below the folder are served, and what they may decide. Plain data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServeRules {
    /// No push is accepted, whatever other settings or repositories allow.
    pub read_only: bool,
    /// Only repositories with a file `git-daemon-export-ok` are served.
    pub require_export_ok: bool,
    /// Folders outside of the served one into which links and alternates may lead. Applies at the start only.
    pub allowed_paths: Vec<PathBuf>,
    /// Which hooks are run.
    pub hooks: HooksFrom,
}

/// The host names that browsers may use over HTTP: an attacker can point any other name to the address of
/// this server (DNS rebinding).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Hosts {
    /// The names and addresses of loopback for connections over loopback; any for others.
    #[default]
    Auto,
    /// Any name or address.
    Any,
    /// These, without a port; and those of loopback over loopback.
    Named(Vec<String>),
}

/// Where the state of a running server is shown: the routes below `/-/`.
///
/// Health (`healthz`) and readiness (`readyz`) are shown over HTTP unless this is nowhere. `metrics` and the
/// page are where this says; the page names clients and repositories only at a separate address, because
/// clients that reach the repositories need not know who else does, nor what is served there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admin {
    /// Where repositories are served over HTTP and HTTPS, without names.
    #[default]
    OnHttp,
    /// At this address, with names.
    At(SocketAddr),
    /// Not at all.
    Nowhere,
}

/// What may be pushed, and how. Plain data.
#[derive(Debug, Clone)]
pub struct Pushing {
    /// Every client may push, unless the configuration of a repository forbids it.
    pub is_allowed: bool,
    /// How a push creates a repository that does not exist.
    pub new_repositories: Option<NewRepositories>,
    /// The committer in reflogs.
    pub committer: Committer,
    /// Variables that hooks get in addition to those of this process, and those of them that no transport may
    /// set.
    pub hook_environment: Vec<(OsString, OsString)>,
    /// A folder for temporary files.
    pub temporary_dir: PathBuf,
    /// The limits of one push.
    pub budget: PushBudget,
    /// Memory for the commands of all pushes.
    pub memory: PushMemory,
    /// Maintains a repository after a push, if this process ends with the push. `None` for a server: its
    /// caretaker does that.
    pub auto_maintenance: Option<AutoMaintenance>,
}

/// Estimated memory for the commands of pushes with their names, certificates and options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushMemory {
    /// For all pushes. Beyond: HTTP 503 with `Retry-After`, `ERR` over git://.
    pub bytes: usize,
    /// For the pushes of one client. Beyond: the same.
    pub bytes_per_address: usize,
}

impl Default for PushMemory {
    /// A push of a million refs takes some 500 MB.
    fn default() -> Self {
        PushMemory { bytes: 2 << 30, bytes_per_address: 1 << 30 }
    }
}

impl Pushing {
    /// The variables for hooks, including those of a transport.
    pub(crate) fn for_hooks_with(&self, variables: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
        // The environment of this process determines the committer, if it names one.
        let is_new = |name: &OsString| self.hook_environment.iter().all(|(other, _)| other != name);
        let new = variables.into_iter().filter(|(name, _)| is_new(name));
        self.hook_environment.iter().cloned().chain(new).collect()
    }
}

/// Repositories that pushes and requests create.
#[derive(Debug, Clone)]
pub struct NewRepositories {
    /// The options; the place comes with the request.
    pub options: InitOptions,
    /// The target of `HEAD`.
    pub head: Vec<u8>,
}
