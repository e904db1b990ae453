//! The configuration of `packrace serve`: defaults, then a file (TOML), then the environment, then the
//! command line, each overriding the one before.
//!
//! One table ([`all`]) has all settings; the file, the variables, `--set` and the printed example all come
//! from it. Nothing is ignored: a key, a variable or a value that is not understood ends the start, with the
//! place of the error.

mod file;
mod item;
mod print;
mod table;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use packrace_pack::ingest::MaxUnpacked;
use packrace_remote::BucketUrl;

use crate::access::AccessFiles;
use crate::bundles::BundleRules;
use crate::events::EventSettings;
use crate::limits::Limits;
use crate::limits::admission::AdmissionSettings;
use crate::maintenance::MaintenanceRules;
use crate::receive::PushBudget;
use crate::repository_cache::RepositoryCacheSettings;
use crate::send::pack_cache::CacheSettings;
use crate::settings::{Admin, Hosts, PushMemory, ServeRules};
use crate::ssh_keys::SshSettings;
use crate::tls::TlsFiles;

pub use item::{LISTENING_ADDRESSES, listening_address};
pub use print::example;
pub use table::{Setting, all};

use item::Given;

/// The prefix of variables for settings: `PACKRACE_SERVE_LIMITS_DRAIN_TIME` is `limits.drain-time`.
pub const VARIABLE_PREFIX: &str = "PACKRACE_SERVE_";

/// All settings.
#[derive(Debug, Clone, Default)]
pub struct ServeConfig {
    /// Where connections are accepted.
    pub listen: Listen,
    /// Certificates and keys.
    pub tls: TlsFiles,
    /// Keys of the host and of users.
    pub ssh: SshSettings,
    /// Limits for clients.
    pub limits: Limits,
    /// Limits for clones.
    pub admission: AdmissionSettings,
    /// What the pack cache keeps.
    pub cache: CacheSettings,
    /// What the repository cache keeps.
    pub repository_cache: RepositoryCacheSettings,
    /// How repositories are maintained.
    pub maintenance: MaintenanceRules,
    /// Which bundles are kept of them.
    pub bundles: BundleRules,
    /// What may be pushed.
    pub push: PushPolicy,
    /// Who may do what.
    pub access: AccessFiles,
    /// What hooks may do and use.
    pub hooks: Hooks,
    /// How events are recorded and posted.
    pub events: EventSettings,
    /// The bucket whose repositories are served.
    pub bucket: BucketSource,
    /// What the process may access.
    pub sandbox: Sandbox,
    /// What is served, and what a repository may decide.
    pub serve: ServeRules,
    /// What is written to standard error.
    pub log: Log,
}

/// Where the server listens.
#[derive(Debug, Clone, Default)]
pub struct Listen {
    /// For HTTP.
    pub http: Option<SocketAddr>,
    /// For HTTP over TLS.
    pub https: Option<SocketAddr>,
    /// For git://.
    pub git: Option<SocketAddr>,
    /// For SSH.
    pub ssh: Option<SocketAddr>,
    /// For `packrace shell`: the path of a Unix socket.
    pub shell: Option<PathBuf>,
    /// For the routes below `/-/`.
    pub admin: Admin,
    /// The host names that HTTP requests may use.
    pub hosts: Hosts,
}

/// A bucket that is served instead of a folder.
#[derive(Debug, Clone)]
pub struct BucketSource {
    /// Its address and prefix.
    pub url: Option<BucketUrl>,
    /// The folder of its cache.
    pub cache: Option<PathBuf>,
    /// The most bytes in the cache.
    pub cache_bytes: u64,
}

impl Default for BucketSource {
    fn default() -> Self {
        BucketSource { url: None, cache: None, cache_bytes: 10 << 30 }
    }
}

/// What may be pushed.
#[derive(Debug, Clone)]
pub struct PushPolicy {
    /// Whether everybody may push.
    pub allowed: bool,
    /// See [`PushMemory::bytes`].
    pub memory_bytes: usize,
    /// See [`PushMemory::bytes_per_address`].
    pub memory_bytes_per_address: usize,
    /// See [`PushBudget::max_objects`].
    pub max_objects: usize,
    /// See [`MaxUnpacked::bytes`].
    pub max_unpacked_bytes: u64,
    /// See [`MaxUnpacked::times_pack`].
    pub max_unpacked_ratio: usize,
    /// See [`PushBudget::cpu_time`].
    pub cpu_time: Duration,
    /// See [`PushBudget::max_repository_bytes`].
    pub max_repository_bytes: u64,
    /// See [`PushBudget::max_repository_refs`].
    pub max_repository_refs: usize,
}

impl Default for PushPolicy {
    fn default() -> Self {
        let PushMemory { bytes, bytes_per_address } = PushMemory::default();
        let PushBudget { max_objects, max_unpacked, cpu_time, max_repository_bytes, max_repository_refs } =
            PushBudget::default();
        PushPolicy {
            allowed: false,
            memory_bytes: bytes,
            memory_bytes_per_address: bytes_per_address,
            max_objects: max_objects as usize,
            max_unpacked_bytes: max_unpacked.bytes,
            max_unpacked_ratio: max_unpacked.times_pack as usize,
            cpu_time,
            max_repository_bytes,
            max_repository_refs,
        }
    }
}

impl PushPolicy {
    /// What one push may cost.
    pub fn budget(&self) -> PushBudget {
        let max_unpacked =
            MaxUnpacked { bytes: self.max_unpacked_bytes, times_pack: self.max_unpacked_ratio as u64 };
        let max_objects = u32::try_from(self.max_objects).unwrap_or(u32::MAX);
        let PushPolicy { cpu_time, max_repository_bytes, max_repository_refs, .. } = *self;
        PushBudget { max_objects, max_unpacked, cpu_time, max_repository_bytes, max_repository_refs }
    }

    /// The memory for all pushes together.
    pub fn memory(&self) -> PushMemory {
        PushMemory { bytes: self.memory_bytes, bytes_per_address: self.memory_bytes_per_address }
    }
}

/// What hooks and other programs that run for a client may do and use.
#[derive(Debug, Clone)]
pub struct Hooks {
    /// How long one may run; 0 for no limit.
    pub max_time: Duration,
    /// Variables that they inherit in addition to the usual ones.
    pub environment: Vec<String>,
    /// The user who runs them; empty for the server's user.
    pub user: String,
    /// Bytes of memory; 0 for no limit, as below.
    pub max_memory: u64,
    /// Processes of their user.
    pub max_processes: usize,
    /// Processor time of each process.
    pub max_cpu_time: Duration,
}

impl Default for Hooks {
    fn default() -> Self {
        Hooks {
            max_time: Duration::from_secs(600),
            environment: Vec::new(),
            user: String::new(),
            max_memory: 0,
            max_processes: 0,
            max_cpu_time: Duration::ZERO,
        }
    }
}

/// What the process and all that it starts may access.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// Whether access is restricted.
    pub enabled: bool,
    /// Files and directories that may be read and run, in addition to the usual ones.
    pub read_paths: Vec<PathBuf>,
    /// The same, but they may also be written.
    pub write_paths: Vec<PathBuf>,
}

impl Default for Sandbox {
    fn default() -> Self {
        Sandbox { enabled: true, read_paths: Vec::new(), write_paths: Vec::new() }
    }
}

/// What is written to standard error.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// The level of detail.
    pub level: Level,
    /// The form of a line.
    pub format: Format,
}

/// How much is logged: this level, and all that is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// No line is logged.
    Off,
    /// Problems that must be fixed.
    Error,
    /// Problems that may have to be fixed.
    Warn,
    /// A line per request.
    #[default]
    Info,
    /// And the phases of each request.
    Debug,
}

/// The form of a line in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people: `key=value`.
    #[default]
    Text,
    /// For machines: one object a line.
    Json,
}

impl ServeConfig {
    /// Takes the settings of a file; `name` is its name in errors.
    pub fn take_file(&mut self, name: &str, text: &str) -> Result<(), String> {
        file::take(self, name, text)
    }

    /// Takes an environment variable whose name begins with [`VARIABLE_PREFIX`].
    pub fn take_variable(&mut self, name: &str, value: &str) -> Result<(), String> {
        let setting = all().iter().find(|setting| setting.variable() == name);
        let setting = setting.ok_or_else(|| format!("{name}: unknown setting"))?;
        self.take_word(setting, value).map_err(|why| format!("{name}: {why}"))
    }

    /// Takes `KEY=VALUE`, as given to `--set`.
    pub fn take_assignment(&mut self, assignment: &str) -> Result<(), String> {
        let (key, value) =
            assignment.split_once('=').ok_or_else(|| format!("--set {assignment}: missing '='"))?;
        let setting = find(key).ok_or_else(|| format!("--set {assignment}: unknown setting {key}"))?;
        self.take_word(setting, value).map_err(|why| format!("--set {assignment}: {why}"))
    }

    fn take_word(&mut self, setting: &Setting, value: &str) -> Result<(), String> {
        (setting.take)(self, &Given::Word(value))
    }

    /// The settings that have another value in `other`.
    pub fn differences<'a>(&'a self, other: &'a ServeConfig) -> impl Iterator<Item = &'static Setting> + 'a {
        all().iter().filter(|setting| (setting.show)(self) != (setting.show)(other))
    }

    /// Changes to `other` where that needs no restart. Returns the changed settings, and those that need a
    /// restart.
    pub fn reload(&mut self, other: ServeConfig) -> (Vec<&'static Setting>, Vec<&'static Setting>) {
        let (changed, stays): (Vec<_>, Vec<_>) =
            self.differences(&other).partition(|setting| setting.is_reloaded);
        for setting in &changed {
            (setting.copy)(self, &other);
        }
        (changed, stays)
    }
}

fn find(key: &str) -> Option<&'static Setting> {
    all().iter().find(|setting| setting.key() == key)
}

#[cfg(test)]
mod tests;
