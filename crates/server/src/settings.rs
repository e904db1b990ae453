//! What a server is told. Plain data, which the cli fills in.

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
use crate::events::EventSettings;
use crate::limits::Limits;
use crate::limits::admission::AdmissionSettings;
use crate::maintenance::MaintenanceRules;
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
    /// Where HTTP is served inside of TLS. Nobody gets in there without [`Settings::tls`].
    pub https: Option<SocketAddr>,
    /// Certificates and keys; connections that are open keep those that they began with.
    pub tls: Option<Tls>,
    /// Where SSH is served. Nobody gets in there without [`Settings::ssh_keys`].
    pub ssh: Option<SocketAddr>,
    /// Keys of the host and of users; connections that are open keep those that they began with.
    pub ssh_keys: Option<Ssh>,
    /// Where git:// is served.
    pub git: Option<SocketAddr>,
    /// Where the routes below `/-/` are served.
    pub admin: Admin,
    /// The bucket whose repositories are served, instead of those of a folder, which is its cache then. Counts at the start only.
    pub bucket: Option<BucketSettings>,
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
    /// How many clones run, and how many wait.
    pub admission: AdmissionSettings,
    /// What is cached of packs.
    pub cache: CacheSettings,
    /// What is cached of repositories between calls.
    pub repository_cache: RepositoryCacheSettings,
    /// How repositories are looked after.
    pub maintenance: MaintenanceRules,
    /// Variables that `uploadpack.packObjectsHook` gets beside those of this process.
    pub hook_environment: Vec<(OsString, OsString)>,
    /// Whether and how clients may push.
    pub pushing: Pushing,
    /// What hooks and other programs may do and take.
    pub confinement: Confinement,
    /// Which repositories are served, and what they may decide.
    pub rules: ServeRules,
    /// By which names HTTP is served.
    pub hosts: Hosts,
    /// Who may do what.
    pub access: Arc<dyn AccessPolicy>,
    /// Proxies that say where a request comes from.
    pub proxies: TrustedProxies,
    /// Where pushes and changes of repositories are recorded.
    pub audit: Option<Arc<AuditLog>>,
    /// How events are kept. Counts at the start only.
    pub events: EventSettings,
    /// Where events are posted. If nowhere at the start, then never.
    pub webhooks: Option<Arc<Webhooks>>,
    /// What `/-/api/v1/repositories` makes; `None`: there is no such route.
    pub repository_prototype: Option<NewRepositories>,
}

/// A bucket, and how much of it is kept on disk. Plain data.
#[derive(Debug, Clone)]
pub struct BucketSettings {
    /// How it is reached.
    pub s3: S3Options,
    /// Bytes of repositories on disk. Beyond: those go that were not used for the longest time; where all are in use, HTTP 503.
    pub max_bytes: u64,
}

/// Which repositories below the folder are served, and what they may decide. Plain data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServeRules {
    /// Nobody may push, whatever other settings or repositories say.
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
    /// Any name or address.
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
    /// Everybody may push, unless the configuration of a repository says otherwise.
    pub is_allowed: bool,
    /// How a push creates a repository that does not exist.
    pub new_repositories: Option<NewRepositories>,
    /// The committer in reflogs.
    pub committer: Committer,
    /// Variables that hooks get beside those of this process, and those of them that no door may set.
    pub hook_environment: Vec<(OsString, OsString)>,
    /// A folder for temporary files.
    pub temporary_dir: PathBuf,
    /// The limits of one push.
    pub budget: PushBudget,
    /// Memory for the commands of all pushes.
    pub memory: PushMemory,
    /// What looks after a repository behind a push, where this process ends with it. `None` for a server: its caretaker does.
    pub auto_maintenance: Option<AutoMaintenance>,
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
    pub(crate) fn for_hooks_with(&self, variables: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
        // What the environment of this process says of the committer stays as it is.
        let is_new = |name: &OsString| self.hook_environment.iter().all(|(other, _)| other != name);
        let new = variables.into_iter().filter(|(name, _)| is_new(name));
        self.hook_environment.iter().cloned().chain(new).collect()
    }
}

/// Repositories that pushes and requests make.
#[derive(Debug, Clone)]
pub struct NewRepositories {
    /// What is made; the place comes with the request.
    pub options: InitOptions,
    /// What `HEAD` stands for.
    pub head: Vec<u8>,
}
