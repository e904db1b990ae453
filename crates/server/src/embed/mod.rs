//! Git as a part of another program: HTTP as a tower service, and sessions on any pair of streams.
//!
//! ```no_run
//! use packrace_server::embed::Git;
//!
//! # fn main() -> std::io::Result<()> {
//! let git = Git::builder("/srv/git").build()?;
//! let service = git.http(); // for axum: Router::new().fallback_service(service)
//! # Ok(()) }
//! ```
//!
//! It takes no signals, reads nothing of the environment but `TMPDIR`, and starts its own threads for requests and maintenance.
//! Like `serve`, it opens files only below its folders: from the first [`GitBuilder::build`] on, this holds for every use of
//! packrace's crates in the process. `docs/how-to/embed.md` shows a forge with its own users.

mod events;
mod http;
mod maintain;
mod serve;
mod session;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{SystemTime, UNIX_EPOCH};

use packrace_os::child::Confinement;
use packrace_store::{HooksFrom, OpenOptions};
use tokio::runtime::Runtime;

pub use self::events::JournalLine;
use self::events::Subscription;
pub use self::http::{GitBody, GitHttp};
pub use self::maintain::{MaintainError, Maintained, MaintenanceBudget};
pub use self::session::SessionError;
use crate::access::{AccessPolicy, Anyone, TrustedProxies};
use crate::caretaker;
pub use crate::http::pages::Peer;
use crate::program::ProgramHooks;
pub use crate::program::{ReceiveHook, ReceivedPush, ReceivedRef, RepositoryPaths};
use crate::receive::{Committer, Pusher};
use crate::send::pack_cache::CacheSettings;
use crate::serve_config::ServeConfig;
use crate::service::shared::Shared;
use crate::settings::{Admin, Hosts, Pushing, Settings};
use crate::subject::AGENT;

/// A server without listeners: what it needs beside requests. `serve` has one, too.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) shared: Arc<Shared>,
    /// For long responses, at low priority. `None` once it ends.
    background: Option<Runtime>,
    /// For SSH, at low priority.
    ssh: Option<Runtime>,
    /// Dropped to end housekeeping.
    _housekeeping: mpsc::Sender<()>,
}

impl Running {
    /// Opens the folder and the journal, and starts housekeeping and maintenance. If the process belongs to the server, free memory
    /// is returned to the system when it is idle.
    pub(crate) fn start(root: &Path, settings: Settings, has_process: bool) -> io::Result<Self> {
        let processors = packrace_os::process::available_threads();
        // Half as many, so that clones do not delay all short work.
        let background = low_priority_runtime("background", processors / 2)?;
        // While one thread encrypts a clone, another one answers logins and fetches.
        let ssh = settings.ssh_keys.is_some().then(|| low_priority_runtime("ssh", processors.max(2)));
        let ssh = ssh.transpose()?;
        let mut shared = Shared::new(root, settings)?;
        shared.background = Some(background.handle().clone());
        shared.ssh_runtime = ssh.as_ref().map(|ssh| ssh.handle().clone());
        shared.open_journal()?;
        let shared = Arc::new(shared);
        let (sender, ended) = mpsc::channel();
        let kept = shared.clone();
        let keep_house = move || keep_house(&kept, &ended, has_process);
        std::thread::Builder::new().name("housekeeping".to_owned()).spawn(keep_house)?;
        // From here on, a drop ends everything.
        let running = Running { shared, background: Some(background), ssh, _housekeeping: sender };
        caretaker::start(running.shared.clone())?;
        Ok(running)
    }
}

impl Drop for Running {
    /// Waits up to 5 s for maintenance.
    fn drop(&mut self) {
        self.shared.host.transfers.stop();
        self.shared.stopping.send_replace(true);
        caretaker::stop(&self.shared.host.maintenance);
        let runtimes = [self.background.take(), self.ssh.take()];
        runtimes.into_iter().flatten().for_each(Runtime::shutdown_background);
    }
}

/// A runtime of one to four threads that are behind others.
fn low_priority_runtime(name: &str, threads: usize) -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.clamp(1, 4))
        .thread_name(name)
        .on_thread_start(packrace_os::process::lower_thread_priority)
        .enable_all()
        .build()
}

/// Drops what expired or changed from the caches, until `ended` is disconnected.
fn keep_house(shared: &Shared, ended: &mpsc::Receiver<()>, has_process: bool) {
    // How many calls had begun when memory was last returned.
    let mut returned_after = 0;
    let interval = || shared.settings().repository_cache.sweep_interval();
    while ended.recv_timeout(interval()) == Err(mpsc::RecvTimeoutError::Timeout) {
        let transfers = &shared.host.transfers;
        let begun = transfers.begun();
        let is_idle = begun != returned_after && transfers.list().is_empty();
        let swept = catch_unwind(AssertUnwindSafe(|| shared.sweep()));
        if swept.is_err() {
            tracing::error!("housekeeping panicked");
        } else if is_idle && has_process {
            packrace_os::process::return_free_memory();
            returned_after = begun;
        }
    }
}

/// The repositories below a folder. Clones share everything. When the last one and the last [`GitHttp`] are dropped, maintenance
/// ends, for which the drop waits up to 5 s.
#[derive(Debug, Clone)]
pub struct Git {
    running: Arc<Running>,
}

impl Git {
    /// Serves the repositories below this folder. By default everybody may read, nobody may push, and no hooks run.
    pub fn builder(root: impl Into<PathBuf>) -> GitBuilder {
        let root = root.into();
        GitBuilder { settings: default_settings(), root, subscription: None }
    }
}

/// The settings of a [`Git`].
#[derive(Debug)]
pub struct GitBuilder {
    root: PathBuf,
    settings: Settings,
    subscription: Option<Subscription>,
}

impl GitBuilder {
    /// Lets this policy decide who may read, push and change which refs. A panic in it fails the request with HTTP 500.
    pub fn access(mut self, policy: impl AccessPolicy + 'static) -> Self {
        self.settings.access = Arc::new(policy);
        self
    }

    /// Finds repositories by their names. Rules of access are asked for the name, and no push creates a repository.
    pub fn repositories(mut self, paths: impl RepositoryPaths + 'static) -> Self {
        self.settings.program.repository_paths = Some(Arc::new(paths));
        self
    }

    /// Shows every push to this hook.
    pub fn receive_hook(mut self, hook: impl ReceiveHook + 'static) -> Self {
        self.settings.program.receive_hook = Some(Arc::new(hook));
        self
    }

    /// Runs hooks from this place.
    pub fn hooks(mut self, hooks: HooksFrom) -> Self {
        self.settings.rules.hooks = hooks;
        self
    }

    /// Records every change of refs in a journal in this directory, and sends its lines, in order, from the line with this number
    /// on; 0 is the oldest line that is kept, `None` the next one. A receiver that remembers the number of the last line it has dealt
    /// with misses nothing, whatever is killed. While the channel is full, lines wait on disk; no push waits. Sending ends when the
    /// receiver is dropped, or with the last clone of [`Git`].
    pub fn events(
        mut self,
        journal: impl Into<PathBuf>,
        from: Option<u64>,
        sender: mpsc::SyncSender<JournalLine>,
    ) -> Self {
        self.settings.events.journal = Some(journal.into());
        self.subscription = Some(Subscription { from, sender });
        self
    }

    /// Changes any other settings. Addresses to listen at, TLS, SSH keys, a bucket and webhooks have no effect.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Opens the folder, and the journal if [`Settings::events`] has one. Fails if either cannot be used.
    pub fn build(self) -> io::Result<Git> {
        let GitBuilder { root, settings, subscription } = self;
        let settings = Settings { bucket: None, webhooks: None, ..settings };
        let running = Running::start(&root, settings, false)?;
        if let (Some(subscription), Some(events)) = (subscription, running.shared.host.events.get()) {
            subscription.start(events)?;
        }
        Ok(Git { running: Arc::new(running) })
    }
}

/// The settings of `serve`, without what comes from a command line and an environment.
fn default_settings() -> Settings {
    let ServeConfig {
        limits,
        admission,
        cache,
        repository_cache,
        maintenance,
        bundles,
        push,
        events,
        serve,
        ..
    } = ServeConfig::default();
    let mut rules = serve;
    rules.hooks = HooksFrom::Nowhere;
    let temporary_dir = std::env::temp_dir();
    let cache = CacheSettings { directory: Some(temporary_dir.clone()), ..cache };
    Settings {
        http: None,
        https: None,
        tls: None,
        ssh: None,
        ssh_keys: None,
        git: None,
        admin: Admin::Nowhere,
        bucket: None,
        open: OpenOptions::default(),
        namespace: String::new(),
        agent: AGENT.to_owned(),
        session_id: format!("embedded-{}", packrace_os::process::id()),
        limits,
        admission,
        cache,
        repository_cache,
        maintenance,
        bundles,
        hook_environment: Vec::new(),
        pushing: Pushing {
            is_allowed: push.allowed,
            new_repositories: None,
            committer: Committer::new(|_, pusher| Ok(identity(pusher))),
            hook_environment: Vec::new(),
            temporary_dir,
            budget: push.budget(),
            memory: push.memory(),
            auto_maintenance: None,
        },
        confinement: Confinement::default(),
        rules,
        // The surrounding program knows its names.
        hosts: Hosts::Any,
        access: Arc::new(Anyone),
        proxies: TrustedProxies::default(),
        audit: None,
        events,
        webhooks: None,
        program: ProgramHooks::default(),
        repository_prototype: None,
    }
}

/// The pusher, or this program, as a line of a reflog names its committer.
fn identity(pusher: Option<&Pusher>) -> Vec<u8> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (name, email) = pusher.map_or(("packrace", "packrace"), |pusher| (&pusher.name, &pusher.email));
    format!("{name} <{email}> {seconds} +0000").into_bytes()
}
