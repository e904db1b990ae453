//! The server: its listeners, its threads, and how it stops.

mod signals;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use packrace_store::HooksFrom;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

use crate::embed::Running;
use crate::host::Host;
use crate::http::connection::connection as http_connection;
use crate::http::{https, limit_reached};
use crate::service::accept::accept;
use crate::service::shared::Shared;
use crate::settings::{Admin, Hosts, Settings};
use crate::shell::{ShellListener, accept as accept_shells};
use crate::webhooks::RunningWebhooks;
use crate::{admin, git_daemon, ssh};
use signals::{Signal, Signals};

/// Threads beside those of requests, for the runtime's own work.
const MAX_OTHER_THREADS: usize = 16;

/// Connections that wait to be accepted. The kernel drops more of them, and their clients retry only after a
/// second. It takes no more than `net.core.somaxconn`.
const BACKLOG: u32 = 1 << 16;

/// The protocol of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP/1.1 and HTTP/2.
    Http,
    /// The same over TLS.
    Https,
    /// git://.
    Git,
    /// Git's commands as SSH sessions.
    Ssh,
}

impl Scheme {
    /// The scheme of its URLs.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Git => "git",
            Scheme::Ssh => "ssh",
        }
    }
}

/// Serves `root` at the addresses of `settings` and at inherited sockets until SIGTERM or SIGINT. Reports to
/// `listening` the scheme and the address of each listener, with the port that the system chose.
pub fn serve(
    root: &Path,
    settings: Settings,
    inherited: Vec<(Scheme, std::net::TcpListener)>,
    listening: impl FnOnce(&[(&'static str, SocketAddr)]),
) -> std::io::Result<()> {
    serve_and_reload(root, settings, inherited, None, listening, || None)
}

/// Starts webhooks, if there are any, and a journal.
fn start_webhooks(
    shared: &Shared,
    runtime: &tokio::runtime::Handle,
) -> std::io::Result<Option<RunningWebhooks>> {
    let (settings, Host { events, metrics, .. }) = (shared.settings(), &*shared.host);
    let (Some(webhooks), Some(events)) = (&settings.webhooks, events.get()) else { return Ok(None) };
    let (events, stopping) = ((events, &settings.events), &shared.stopping);
    RunningWebhooks::start(webhooks, events, metrics, stopping, runtime).map(Some)
}

/// The same, also for sessions of `packrace shell`; on SIGHUP it requests new settings, and `None` changes
/// nothing.
pub fn serve_and_reload(
    root: &Path,
    settings: Settings,
    inherited: Vec<(Scheme, std::net::TcpListener)>,
    shell: Option<ShellListener>,
    listening: impl FnOnce(&[(&'static str, SocketAddr)]),
    reload: impl FnMut() -> Option<Settings>,
) -> std::io::Result<()> {
    let processors = packrace_os::process::available_threads();
    let running = Running::start(root, settings, true)?;
    let shared = running.shared.clone();
    let webhooks = match &shared.background {
        Some(background) => start_webhooks(&shared, background)?,
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.min(4))
        // A request with a permit never waits for a thread.
        .max_blocking_threads(shared.limits.max_requests() + MAX_OTHER_THREADS)
        .thread_keep_alive(Duration::from_secs(10))
        .enable_all()
        .build()?;
    let result = runtime.block_on(run(shared, (inherited, shell), listening, reload, webhooks));
    drop(running);
    runtime.shutdown_background();
    result
}

/// Serves one connection of git:// on standard input and output, like `git daemon --inetd`.
pub fn inetd(root: &Path, mut settings: Settings) -> std::io::Result<()> {
    // There is no second call.
    settings.repository_cache.enabled = false;
    git_daemon::inetd(&Shared::new(root, settings)?)
}

async fn run(
    shared: Arc<Shared>,
    (inherited, shell): (Vec<(Scheme, std::net::TcpListener)>, Option<ShellListener>),
    listening: impl FnOnce(&[(&'static str, SocketAddr)]),
    mut reload: impl FnMut() -> Option<Settings>,
    mut running_webhooks: Option<RunningWebhooks>,
) -> std::io::Result<()> {
    let mut signals = Signals::new()?;
    let settings = shared.settings();
    let mut listeners = Vec::new();
    for (scheme, listener) in inherited {
        listener.set_nonblocking(true)?;
        listeners.push((scheme, TcpListener::from_std(listener)?));
    }
    let schemes = [Scheme::Http, Scheme::Https, Scheme::Git, Scheme::Ssh];
    let wanted = [settings.http, settings.https, settings.git, settings.ssh];
    for (scheme, address) in schemes.into_iter().zip(wanted) {
        if let Some(address) = address {
            listeners.push((scheme, bind(address)?));
        }
    }
    let mut addresses = Vec::new();
    for (scheme, listener) in &listeners {
        addresses.push((scheme.name(), listener.local_addr()?));
    }
    // Admin routes answer until the end.
    let mut looking = JoinSet::new();
    looking.spawn(admin::remember(shared.clone()));
    if let Admin::At(address) = settings.admin {
        let listener = bind(address)?;
        addresses.push(("admin", listener.local_addr()?));
        looking.spawn(admin::listen(listener, shared.clone()));
    }
    listening(&addresses);
    tell_rules(&settings);
    tell_certificates(&settings);
    let mut accepting = JoinSet::new();
    for (scheme, listener) in listeners {
        spawn_accept(&mut accepting, scheme, listener, &shared);
    }
    if let Some(listener) = shell {
        accepting.spawn(accept_shells(listener, shared.clone()));
    }
    while signals.next().await == Signal::Reload {
        if let Some(settings) = reload() {
            // Logged once they apply: clients that wait for the line get the new ones.
            shared.set(settings);
            let settings = shared.settings();
            tell_certificates(&settings);
            if let (Some(running), Some(webhooks)) = (&mut running_webhooks, &settings.webhooks) {
                running.set(webhooks).await;
            }
        }
    }
    tokio::select! {
        () = drain(&shared, accepting) => {}
        () = signals.stop() => tracing::warn!("second stop signal: cutting running requests"),
    }
    Ok(())
}

/// Accepts and serves the connections of a listener, on its own task.
fn spawn_accept(accepting: &mut JoinSet<()>, scheme: Scheme, listener: TcpListener, shared: &Arc<Shared>) {
    let (shared, for_one) = (shared.clone(), shared.clone());
    match scheme {
        Scheme::Http => accepting.spawn(accept(
            listener,
            shared,
            move |stream, peer, permit| http_connection(stream, peer, permit, for_one.clone()),
            limit_reached::response,
        )),
        Scheme::Https => accepting.spawn(accept(
            listener,
            shared,
            move |stream, peer, permit| https::connection(stream, peer, permit, for_one.clone()),
            https::limit_reached,
        )),
        Scheme::Git => accepting.spawn(accept(
            listener,
            shared,
            move |stream, peer, permit| git_daemon::connection(stream, peer, permit, for_one.clone()),
            git_daemon::limit_reached,
        )),
        Scheme::Ssh => accepting.spawn(accept(
            listener,
            shared,
            move |stream, peer, permit| ssh::connection(stream, peer, permit, for_one.clone()),
            ssh::limit_reached,
        )),
    };
}

/// Logs the certificates and host keys that clients get from now on.
fn tell_certificates(settings: &Settings) {
    if let Some(tls) = &settings.tls {
        tracing::info!("TLS certificates: {tls}");
    }
    if let Some(ssh) = &settings.ssh_keys {
        tracing::info!("SSH {ssh}");
    }
}

/// Logs the rules that decide what is served.
fn tell_rules(settings: &Settings) {
    let (rules, pushing) = (&settings.rules, &settings.pushing);
    let pushes = match (rules.read_only, pushing.is_allowed) {
        (true, _) => "pushes are refused (serve.read-only)",
        _ if settings.access.has_rules() => "access rules decide who may read and push",
        (false, true) => "everybody may push, except where a repository forbids it",
        (false, false) => "pushes are refused, except where git's system or user configuration allows them",
    };
    let exported = if rules.require_export_ok { " with git-daemon-export-ok" } else { "" };
    tracing::info!(
        "serving repositories{exported}; {pushes}; hooks: {}; allowed link targets: the served folder{}; \
         HTTP host names: {}",
        match &rules.hooks {
            HooksFrom::Repository => "each repository's own".to_owned(),
            HooksFrom::Nowhere => "none".to_owned(),
            HooksFrom::Dir(dir) => dir.display().to_string(),
        },
        rules.allowed_paths.iter().map(|path| format!(" or {}", path.display())).collect::<String>(),
        match &settings.hosts {
            Hosts::Auto => "loopback names over loopback, any name elsewhere".to_owned(),
            Hosts::Any => "any name".to_owned(),
            Hosts::Named(names) => names.join(", "),
        }
    );
}

/// Lets running requests end normally, as far as time allows.
async fn drain(shared: &Shared, mut accepting: JoinSet<()>) {
    // From now on the server is not ready and refuses clones.
    shared.host.transfers.stop();
    let limits = shared.settings().limits.clone();
    if !limits.grace_time.is_zero() {
        tracing::info!("stopping: refusing clones; closing listeners in {} s", limits.grace_time.as_secs());
        tokio::time::sleep(limits.grace_time).await;
    }
    accepting.shutdown().await;
    shared.stopping.send_replace(true);
    tracing::info!(
        "stopping: listeners closed; running requests have {} s left",
        limits.drain_time.as_secs()
    );
    let _ = tokio::time::timeout(limits.drain_time, shared.stopping.closed()).await;
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen()
        .map_err(|error| std::io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))
}
