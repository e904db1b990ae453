//! The server: listeners, what they share, and how it stops.

use std::ffi::OsString;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use packrace_os::clock::{Clock as _, RealClock};
use packrace_os::turns::Turns;
use packrace_store::{Outlet, Repository};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::body::BodyMemory;
use super::places::{For, NoPlace, Place, Places};
use super::root::{NotServed, Root};
use super::seeing::{self, Seeing};
use super::settings::{Admin, Settings};
use super::{git_daemon, http_connection};
use crate::admission::Admission;
use crate::engine::{Mode, ProtocolVersion, Pusher, ReceivePack, Subject, UploadPack};
use crate::host::Host;
use crate::pack_cache::PackCache;
use crate::transfers::{Transfer, Transfers};
use crate::warm::{RefAnswers, WarmRepositories};

/// Threads beside those of requests, for what the runtime itself does on them.
const MAX_OTHER_THREADS: usize = 16;

/// Clients that are told at the same time that there is no place; others are dropped without a word.
const MAX_REFUSING: usize = 64;

/// How long it is waited for what a client says that gets no place: a close with unread bytes would take the answer
/// back.
const REFUSING_TIME: Duration = Duration::from_secs(1);

/// How often it is looked for what was kept for too long.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(30);

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) root: Root,
    /// They change while the server runs; a request keeps to those that it began with.
    settings: RwLock<Arc<Settings>>,
    pub(crate) clock: RealClock,
    pub(crate) places: Arc<Places>,
    refusing: Arc<Semaphore>,
    /// Places for connections of those who only look.
    pub(super) admin_places: Arc<Semaphore>,
    pub(super) seeing: Seeing,
    pub(super) body_memory: BodyMemory,
    /// Among clones that are written by threads of their own.
    pub(super) turns: Arc<Turns>,
    /// Where connections go on that others go before; of threads of lower priority.
    pub(super) background: Option<Handle>,
    /// What the calls of all connections share.
    pub(crate) host: Arc<Host>,
    /// Whether the server is stopping. Each connection and each running request holds a receiver: the sender knows
    /// when the last is gone.
    pub(crate) stopping: watch::Sender<bool>,
}

impl Shared {
    fn new(root: &Path, settings: Settings) -> std::io::Result<Self> {
        let limits = &settings.limits;
        let places = Places::new(limits, packrace_os::process::raise_descriptor_limit());
        // One request of the largest size must fit, twice: as it came, and inflated.
        let body_bytes = limits.body_memory_bytes.max(limits.max_request_bytes.saturating_mul(2));
        // An answer is about an opened repository: without those, there is none to be used again.
        let warm = &settings.warm;
        let answers = RefAnswers::new(if warm.enabled { warm.max_answer_bytes } else { 0 });
        let metrics = Arc::default();
        let host = Host {
            admission: Admission::new(&settings.admission),
            transfers: Transfers::new(settings.session_id.clone()),
            packs: PackCache::new(settings.cache.clone(), Arc::clone(&metrics)),
            answers,
            metrics,
            clones_step_back: true,
        };
        let warm = WarmRepositories::new(warm.clone(), host.metrics.clone());
        Ok(Shared {
            root: Root::new(root, settings.open.clone(), warm)?,
            places,
            refusing: Arc::new(Semaphore::new(MAX_REFUSING)),
            admin_places: Arc::new(Semaphore::new(seeing::MAX_ADMIN_CONNECTIONS)),
            seeing: Seeing::default(),
            turns: Arc::new(Turns::new(packrace_os::process::available_threads())),
            background: None,
            body_memory: BodyMemory::new(body_bytes),
            settings: RwLock::new(Arc::new(settings)),
            clock: RealClock::default(),
            host: Arc::new(host),
            stopping: watch::Sender::new(false),
        })
    }

    /// What counts for requests that begin now.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on, these count. Where the server listens, and what it has set aside at its start, stays.
    fn set(&self, settings: Settings) {
        self.places.set(&settings.limits);
        self.host.admission.set(&settings.admission);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// A call of upload-pack on behalf of a connection.
    pub(crate) fn upload_pack(
        &self,
        repository: Arc<Repository>,
        version: ProtocolVersion,
        mode: Mode,
        transfer: &Arc<Transfer>,
    ) -> UploadPack {
        let hook_environment = self.settings().hook_environment.clone();
        UploadPack { subject: self.subject(repository, version, mode, transfer), hook_environment }
    }

    fn subject(
        &self,
        repository: Arc<Repository>,
        version: ProtocolVersion,
        mode: Mode,
        transfer: &Arc<Transfer>,
    ) -> Subject {
        let settings = self.settings();
        Subject {
            repository,
            version,
            mode,
            namespace: settings.namespace.clone(),
            agent: settings.agent.clone(),
            transfer: transfer.clone(),
            host: self.host.clone(),
        }
    }

    /// The repository that somebody wants to push to; where there is none, and some may be made, a new one.
    pub(crate) fn open_for_push(&self, path: &[u8]) -> Result<Arc<Repository>, NotServed> {
        match (self.root.open(path), &self.settings().pushing.new_repositories) {
            (Err(NotServed::NotFound(_)), Some(new)) => self.root.create(path, new),
            (opened, _) => opened,
        }
    }

    /// Whether a repository may be pushed to, where `setting` is what its configuration has for this door.
    pub(crate) fn may_push(
        &self,
        repository: &Repository,
        setting: &str,
    ) -> Result<bool, packrace_store::Error> {
        Ok(repository.config().boolean(setting)?.unwrap_or(self.settings().pushing.is_allowed))
    }

    /// A call of receive-pack on behalf of a connection.
    pub(crate) fn receive_pack(
        &self,
        repository: Arc<Repository>,
        version: ProtocolVersion,
        mode: Mode,
        transfer: &Arc<Transfer>,
        pusher: Option<Pusher>,
        variables: Vec<(OsString, OsString)>,
    ) -> ReceivePack {
        let settings = self.settings();
        let pushing = &settings.pushing;
        let mut hook_environment = pushing.for_hooks_with(variables);
        if version == ProtocolVersion::V1 {
            hook_environment.push(("GIT_PROTOCOL".into(), "version=1".into()));
        }
        ReceivePack {
            named: repository.git_dir().as_os_str().to_owned(),
            subject: self.subject(repository, version, mode, transfer),
            temporary_dir: pushing.temporary_dir.clone(),
            hook_environment,
            committer: pushing.committer.clone(),
            pusher,
            quiet: false,
            skip_connectivity_check: false,
            messages: Outlet::new(|text| tracing::info!("{}", String::from_utf8_lossy(text).trim_end())),
        }
    }
}

/// What is spoken at a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP/1.1 and HTTP/2.
    Http,
    /// git://.
    Git,
}

impl Scheme {
    /// How URLs begin.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Git => "git",
        }
    }
}

/// Serves `root` until SIGTERM or SIGINT comes, where `settings` says, and at sockets that listen already. Tells
/// `listening` the address of each: its scheme, and the address with the port that the system chose.
pub fn serve(
    root: &Path,
    settings: Settings,
    inherited: Vec<(Scheme, std::net::TcpListener)>,
    listening: impl FnOnce(&[(&'static str, SocketAddr)]),
) -> std::io::Result<()> {
    serve_and_reload(root, settings, inherited, listening, || None)
}

/// The same, and asks for other settings when SIGHUP comes; `None` leaves all as it is.
pub fn serve_and_reload(
    root: &Path,
    settings: Settings,
    inherited: Vec<(Scheme, std::net::TcpListener)>,
    listening: impl FnOnce(&[(&'static str, SocketAddr)]),
    reload: impl FnMut() -> Option<Settings>,
) -> std::io::Result<()> {
    let mut shared = Shared::new(root, settings)?;
    let background = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(packrace_os::process::available_threads().min(4))
        .thread_name("background")
        .on_thread_start(packrace_os::process::lower_thread_priority)
        .enable_all()
        .build()?;
    shared.background = Some(background.handle().clone());
    let shared = Arc::new(shared);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(packrace_os::process::available_threads().min(4))
        // A request that has a place never waits for a thread.
        .max_blocking_threads(shared.places.max_requests() + MAX_OTHER_THREADS)
        .thread_keep_alive(Duration::from_secs(10))
        .enable_all()
        .build()?;
    let result = runtime.block_on(run(shared, inherited, listening, reload));
    runtime.shutdown_background();
    background.shutdown_background();
    result
}

/// Serves one connection of git:// on standard input and output, as `git daemon --inetd`.
pub fn inetd(root: &Path, mut settings: Settings) -> std::io::Result<()> {
    // There is no second call.
    settings.warm.enabled = false;
    git_daemon::inetd(&Shared::new(root, settings)?)
}

async fn run(
    shared: Arc<Shared>,
    inherited: Vec<(Scheme, std::net::TcpListener)>,
    listening: impl FnOnce(&[(&'static str, SocketAddr)]),
    mut reload: impl FnMut() -> Option<Settings>,
) -> std::io::Result<()> {
    let mut signals = Signals::new()?;
    let settings = shared.settings();
    let mut listeners = Vec::new();
    for (scheme, listener) in inherited {
        listener.set_nonblocking(true)?;
        listeners.push((scheme, TcpListener::from_std(listener)?));
    }
    for (scheme, address) in [(Scheme::Http, settings.http), (Scheme::Git, settings.git)] {
        if let Some(address) = address {
            listeners.push((scheme, bind(address).await?));
        }
    }
    let mut addresses = Vec::new();
    for (scheme, listener) in &listeners {
        addresses.push((scheme.name(), listener.local_addr()?));
    }
    // Whoever looks on sees the end, too.
    let mut looking = JoinSet::new();
    looking.spawn(seeing::remember(shared.clone()));
    if let Admin::At(address) = settings.admin {
        let listener = bind(address).await?;
        addresses.push(("admin", listener.local_addr()?));
        looking.spawn(seeing::listen(listener, shared.clone()));
    }
    listening(&addresses);
    let mut accepting = JoinSet::new();
    accepting.spawn(sweep(shared.clone()));
    for (scheme, listener) in listeners {
        let for_one = shared.clone();
        match scheme {
            Scheme::Http => accepting.spawn(accept(
                listener,
                shared.clone(),
                move |stream, peer, place| http_connection::connection(stream, peer, place, for_one.clone()),
                http_connection::no_place,
            )),
            Scheme::Git => accepting.spawn(accept(
                listener,
                shared.clone(),
                move |stream, peer, place| git_daemon::connection(stream, peer, place, for_one.clone()),
                git_daemon::no_place,
            )),
        };
    }
    looking.spawn(keep_house(shared.clone()));
    while signals.next().await == Signal::Reload {
        if let Some(settings) = reload() {
            shared.set(settings);
        }
    }
    tokio::select! {
        () = drain(&shared, accepting) => {}
        () = signals.stop() => tracing::warn!("told to stop again: what still runs is cut"),
    }
    Ok(())
}

/// Ends what runs in good order, as far as its time allows.
async fn drain(shared: &Shared, mut accepting: JoinSet<()>) {
    // From now on the server is not ready, and lets in no clones.
    shared.host.transfers.stop();
    let limits = shared.settings().limits.clone();
    if !limits.grace_time.is_zero() {
        tracing::info!("stopping: clones are refused; in {} s nobody is let in", limits.grace_time.as_secs());
        tokio::time::sleep(limits.grace_time).await;
    }
    accepting.shutdown().await;
    shared.stopping.send_replace(true);
    tracing::info!("stopping: running requests have {} seconds", limits.drain_time.as_secs());
    let _ = tokio::time::timeout(limits.drain_time, shared.stopping.closed()).await;
}

async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| std::io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))
}

/// Lets go, now and then, of what nobody has asked for.
async fn keep_house(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(HOUSEKEEPING_INTERVAL).await;
        let expired = shared.host.packs.expire(shared.clock.now());
        if let Some(expired) = expired {
            // Closing large files takes a while.
            drop(tokio::task::spawn_blocking(move || drop(expired)));
        }
    }
}

/// Lets go of what nobody needs of what is kept, again and again.
async fn sweep(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(shared.settings().warm.sweep_interval()).await;
        let shared = shared.clone();
        let swept = tokio::task::spawn_blocking(move || {
            shared.root.warm.sweep();
            shared.host.answers.sweep();
        });
        if let Err(panic) = swept.await {
            tracing::error!("a sweep failed: {panic}");
        }
    }
}

/// Accepts connections until it is dropped, and the listener with it.
async fn accept<F>(
    listener: TcpListener,
    shared: Arc<Shared>,
    connection: impl Fn(TcpStream, SocketAddr, Place) -> F,
    no_place: fn(NoPlace) -> Vec<u8>,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, mostly: wait for some to come back instead of spinning.
                tracing::error!("cannot accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        match (shared.places.take(For::Connection, peer.ip()), shared.refusing.clone().try_acquire_owned()) {
            (Ok(place), _) => drop(tokio::spawn(connection(stream, peer, place))),
            (Err(why), Ok(refusing)) => {
                shared.host.metrics.refused(why.reason());
                tracing::warn!("{peer}: {why}, refusing this connection");
                drop(tokio::spawn(async move { refuse(stream, &no_place(why), refusing).await }));
            }
            (Err(why), Err(_)) => shared.host.metrics.refused(why.reason()),
        }
    }
}

/// Tells that there is no place.
async fn refuse(stream: TcpStream, words: &[u8], _refusing: OwnedSemaphorePermit) {
    let _ = tokio::time::timeout(REFUSING_TIME, stream.readable()).await;
    let _ = stream.try_read(&mut [0; 4096]);
    // Whether it is heard does not matter.
    let _ = stream.try_write(words);
}

/// What an administrator wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Stop,
    Reload,
}

/// Signals to this process. From the moment on that they are waited for, they do not end it.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.hang_up.recv() => Signal::Reload,
        }
    }

    async fn stop(&mut self) {
        while self.next().await != Signal::Stop {}
    }
}
