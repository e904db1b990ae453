//! The server: listeners, what they share, and how it stops.

use std::ffi::OsString;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use packrace_os::clock::RealClock;
use packrace_store::{Outlet, Repository};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::body::BodyMemory;
use super::root::{NotServed, Root};
use super::settings::Settings;
use super::{git_daemon, http};
use crate::admission::Admission;
use crate::engine::{Mode, ProtocolVersion, Pusher, ReceivePack, Subject, UploadPack};
use crate::host::Host;

/// Threads that requests run on, one each. A request that makes a pack has one more.
const MAX_REQUEST_THREADS: usize = 256;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) root: Root,
    pub(crate) settings: Settings,
    pub(crate) clock: RealClock,
    /// Places for git:// connections.
    pub(crate) git_places: Arc<Semaphore>,
    /// Places for HTTP connections.
    pub(crate) http_places: Arc<Semaphore>,
    pub(super) body_memory: BodyMemory,
    /// What the calls of all connections share.
    pub(crate) host: Arc<Host>,
    /// Whether the server is stopping. Each connection and each running request holds a receiver: the sender knows
    /// when the last is gone.
    pub(crate) stopping: watch::Sender<bool>,
    next_session: AtomicU64,
}

impl Shared {
    /// A call of upload-pack on behalf of a connection.
    pub(crate) fn upload_pack(
        &self,
        repository: Repository,
        version: ProtocolVersion,
        mode: Mode,
    ) -> UploadPack {
        let hook_environment = self.settings.hook_environment.clone();
        UploadPack { subject: self.subject(repository, version, mode), hook_environment }
    }

    fn subject(&self, repository: Repository, version: ProtocolVersion, mode: Mode) -> Subject {
        let number = self.next_session.fetch_add(1, Relaxed);
        Subject {
            repository: Arc::new(repository),
            version,
            mode,
            namespace: self.settings.namespace.clone(),
            agent: self.settings.agent.clone(),
            session_id: format!("{}-{number}", std::process::id()),
            host: self.host.clone(),
        }
    }

    /// The repository that somebody wants to push to; where there is none, and some may be made, a new one.
    pub(crate) fn open_for_push(&self, path: &[u8]) -> Result<Repository, NotServed> {
        match (self.root.open(path), &self.settings.pushing.new_repositories) {
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
        Ok(repository.config().boolean(setting)?.unwrap_or(self.settings.pushing.is_allowed))
    }

    /// A call of receive-pack on behalf of a connection.
    pub(crate) fn receive_pack(
        &self,
        repository: Repository,
        version: ProtocolVersion,
        mode: Mode,
        pusher: Option<Pusher>,
        variables: Vec<(OsString, OsString)>,
    ) -> ReceivePack {
        let pushing = &self.settings.pushing;
        let mut hook_environment = pushing.hook_environment.clone();
        // What the environment of this process says of the committer stays as it is.
        let is_new = |name: &OsString| pushing.hook_environment.iter().all(|(other, _)| other != name);
        hook_environment.extend(variables.into_iter().filter(|(name, _)| is_new(name)));
        if version == ProtocolVersion::V1 {
            hook_environment.push(("GIT_PROTOCOL".into(), "version=1".into()));
        }
        ReceivePack {
            named: repository.git_dir().as_os_str().to_owned(),
            subject: self.subject(repository, version, mode),
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

/// Serves `root` until `stop` is ready. Tells `listening` the address of each listener: its scheme, and the address
/// with the port that the system chose.
pub fn serve(
    root: &Path,
    settings: Settings,
    listening: impl FnOnce(&[(&'static str, SocketAddr)]),
) -> std::io::Result<()> {
    let root = Root::new(root, settings.open.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(packrace_os::process::available_threads().min(4))
        .max_blocking_threads(MAX_REQUEST_THREADS)
        .thread_keep_alive(Duration::from_secs(10))
        .enable_all()
        .build()?;
    let git_places = Arc::new(Semaphore::new(settings.limits.max_git_connections));
    let http_places = Arc::new(Semaphore::new(settings.limits.max_http_connections));
    // One request of the largest size must fit, twice: as it came, and inflated.
    let limits = &settings.limits;
    let body_memory =
        BodyMemory::new(limits.body_memory_bytes.max(limits.max_request_bytes.saturating_mul(2)));
    let host = Host { admission: Admission::new(&settings.admission) };
    let shared = Arc::new(Shared {
        root,
        settings,
        clock: RealClock::default(),
        git_places,
        http_places,
        body_memory,
        host: Arc::new(host),
        stopping: watch::Sender::new(false),
        next_session: AtomicU64::new(1),
    });
    let result = runtime.block_on(run(shared, listening));
    runtime.shutdown_background();
    result
}

async fn run(
    shared: Arc<Shared>,
    listening: impl FnOnce(&[(&'static str, SocketAddr)]),
) -> std::io::Result<()> {
    let mut addresses = Vec::new();
    let mut listeners = Vec::new();
    for (scheme, address) in [("http", shared.settings.http), ("git", shared.settings.git)] {
        if let Some(address) = address {
            let listener = TcpListener::bind(address).await.map_err(|error| {
                std::io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
            })?;
            addresses.push((scheme, listener.local_addr()?));
            listeners.push((scheme, listener));
        }
    }
    listening(&addresses);
    let mut accepting = JoinSet::new();
    for (scheme, listener) in listeners {
        let shared = shared.clone();
        match scheme {
            "http" => {
                accepting.spawn(accept(listener, move |stream| http::connection(stream, shared.clone())))
            }
            _ => accepting
                .spawn(accept(listener, move |stream| git_daemon::connection(stream, shared.clone()))),
        };
    }
    stop_signal().await?;
    accepting.shutdown().await;
    shared.stopping.send_replace(true);
    let drain_time = shared.settings.limits.drain_time;
    tracing::info!("stopping: running requests have {} seconds", drain_time.as_secs());
    let _ = tokio::time::timeout(drain_time, shared.stopping.closed()).await;
    Ok(())
}

/// Accepts connections until it is dropped, and the listener with it.
async fn accept<F>(listener: TcpListener, connection: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection(stream))),
            Err(error) => {
                // Out of descriptors, mostly: wait for some to come back instead of spinning.
                tracing::error!("cannot accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn stop_signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
