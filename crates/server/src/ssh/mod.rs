//! SSH without a system's sshd: connections of `listen.ssh`, whose sessions are served as those of `packrace shell`.

mod sessions;
mod sink;

use std::net::SocketAddr;
use std::sync::Arc;

use packrace_ssh::{ConnectionEnded, ConnectionLimits};
use tokio::net::TcpStream;

use crate::limits::connections::{LimitReached, Permit};
use crate::metrics::{DoorName, LoginOutcome, Reason};
use crate::service::shared::Shared;
use sessions::Sessions;

/// The message for a client beyond a limit: a line before the one that begins the protocol (RFC 4253, section
/// 4.2).
pub(crate) fn limit_reached(why: LimitReached) -> Vec<u8> {
    format!("{why}\r\n").into_bytes()
}

/// Serves one connection to its end. All of it runs at low priority, behind short work of other listeners: encryption
/// cannot move there when an answer turns out to be long.
pub(crate) async fn connection(stream: TcpStream, peer: SocketAddr, permit: Permit, shared: Arc<Shared>) {
    let runtime = shared.ssh_runtime.as_ref().or(shared.background.as_ref()).cloned();
    let serving = serve(stream, peer, permit, shared);
    match runtime {
        // The runtime has reported a panic.
        Some(runtime) => drop(runtime.spawn(serving).await),
        None => serving.await,
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, permit: Permit, shared: Arc<Shared>) {
    let _open = shared.host.metrics.connection(DoorName::Ssh);
    let settings = shared.settings();
    // Without keys there is no listener.
    let Some(ssh) = settings.ssh_keys.clone() else { return };
    permit.waits();
    let login = match shared.limits.login(peer.ip()) {
        Ok(login) => login,
        Err(why) => {
            shared.has_refused(format_args!("ssh {peer}"), why, "login");
            // A new socket is writable, once the runtime has checked. Whether the client gets it does not
            // matter.
            if stream.writable().await.is_ok() {
                let _ = stream.try_write(&limit_reached(why));
            }
            return;
        }
    };
    login.waits();
    let limits = ConnectionLimits {
        idle_time: settings.limits.request_time,
        stall: settings.limits.stall_throughput(),
        idle: settings.limits.idle_throughput(),
    };
    let config = ssh.config.clone();
    let sessions = Arc::new(Sessions::new(shared.clone(), ssh, peer, permit, login));
    let cut = sessions.clone();
    let ended =
        packrace_ssh::serve(stream, &config, sessions.clone(), limits, async move { cut.cut().await });
    tell(&ended.await, &sessions, peer, &shared);
}

/// Counts and logs how a connection has ended.
fn tell(ended: &ConnectionEnded, sessions: &Sessions, peer: SocketAddr, shared: &Shared) {
    let outcome = match ended {
        ConnectionEnded::NeverSpoke => return,
        _ if sessions.has_logged_in() => {
            match ended {
                ConnectionEnded::Cut if sessions.is_cut() => shared.host.metrics.refused(Reason::Idle),
                ConnectionEnded::Broken(why) => tracing::info!("ssh {peer}: {why}"),
                _ => {}
            }
            return tracing::debug!("ssh {peer}: {ended}");
        }
        ConnectionEnded::Refused => {
            shared.host.metrics.refused(Reason::Unauthenticated);
            LoginOutcome::Refused
        }
        ConnectionEnded::NoLogin => LoginOutcome::TimedOut,
        ConnectionEnded::Cut if sessions.is_cut() => {
            shared.host.metrics.refused(Reason::Idle);
            LoginOutcome::TimedOut
        }
        // The server is stopping.
        ConnectionEnded::Cut => return tracing::debug!("ssh {peer}: {ended}"),
        _ => LoginOutcome::Failed,
    };
    match sessions.why_refused() {
        Some(why) => shared.login_failed(peer, outcome, &why),
        None => shared.login_failed(peer, outcome, ended),
    }
}
