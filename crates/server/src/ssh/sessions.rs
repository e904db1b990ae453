//! The user of a client, and its sessions, each on its own thread.

use std::future::Future;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use packrace_ssh::{SessionOutput, SessionRequest, SshHost, SshSession, SshUser, UserCertificate, UserKey};
use packrace_store::MessageSink;
use tokio::sync::watch;

use super::sink::SshSink;
use crate::limits::connections::Permit;
use crate::metrics::{LoginOutcome, Reason};
use crate::service::shared::Shared;
use crate::shell::{SessionStreams, ShellCommand, ShellRequest, serve_session};
use crate::ssh_keys::Ssh;
use crate::subject::ProtocolVersion;

/// The exit code of refused and failed commands, as git's.
const FAILED: u32 = 128;

/// How long a client may take to disconnect when the server stops.
const LEAVING_TIME: Duration = Duration::from_secs(1);

/// One connection, while it is open.
pub(super) struct Sessions {
    shared: Arc<Shared>,
    ssh: Ssh,
    peer: SocketAddr,
    permit: Permit,
    state: Mutex<SessionsState>,
    /// Whether a session is running.
    is_busy: watch::Sender<bool>,
    /// The server waits for this to be dropped.
    stopping: watch::Receiver<bool>,
}

struct SessionsState {
    /// Held until the client is authenticated.
    login: Option<Permit>,
    /// Why a certificate was refused.
    why_refused: Option<String>,
}

impl Sessions {
    pub(super) fn new(
        shared: Arc<Shared>,
        ssh: Ssh,
        peer: SocketAddr,
        permit: Permit,
        login: Permit,
    ) -> Self {
        let state = SessionsState { login: Some(login), why_refused: None };
        let (is_busy, stopping) = (watch::Sender::new(false), shared.stopping.subscribe());
        Sessions { shared, ssh, peer, permit, state: Mutex::new(state), is_busy, stopping }
    }

    fn lock(&self) -> MutexGuard<'_, SessionsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_logged_in(&self) -> bool {
        self.lock().login.is_none()
    }

    /// Whether others needed the place of this connection or of its login.
    pub(super) fn is_cut(&self) -> bool {
        self.permit.is_cut() || self.lock().login.as_ref().is_some_and(Permit::is_cut)
    }

    pub(super) fn why_refused(&self) -> Option<String> {
        self.lock().why_refused.clone()
    }

    /// Ready when others need the place of this connection, or when the server stops and no session is running.
    pub(super) async fn cut(&self) {
        let login = self.lock().login.as_ref().map(Permit::cut);
        let login = async {
            match login {
                Some(cut) => cut.await,
                None => std::future::pending().await,
            }
        };
        let stopped = async {
            drop(self.stopping.clone().wait_for(|is_stopping| *is_stopping).await);
            drop(self.is_busy.subscribe().wait_for(|is_busy| !is_busy).await);
            // So that the client learns how its session has ended.
            tokio::time::sleep(LEAVING_TIME).await;
        };
        tokio::select! {
            () = self.permit.cut() => {}
            () = login => {}
            () = stopped => {}
        }
    }
}

impl SshHost for Sessions {
    fn user_of_key<'a>(
        &'a self,
        key: &'a UserKey,
    ) -> Pin<Box<dyn Future<Output = Option<SshUser>> + Send + 'a>> {
        Box::pin(async move {
            let users = &self.ssh.users;
            if users.keys().is_revoked(key) {
                self.lock().why_refused = Some(format!("{}: key is revoked", key.fingerprint()));
                return None;
            }
            if let Some(user) = users.user_in_files(key) {
                return Some(user);
            }
            let turn = users.command()?.turn().await?;
            let (users, key) = (users.clone(), key.clone());
            let asked = tokio::task::spawn_blocking(move || {
                // Held until the program has ended, even if its result is no longer needed.
                let _turn = turn;
                users.command()?.user_of(&key)
            });
            asked.await.ok().flatten()
        })
    }

    fn takes_certificates(&self) -> bool {
        self.ssh.users.keys().has_authorities()
    }

    fn user_of_certificate(&self, certificate: &UserCertificate<'_>, login: &str) -> Result<SshUser, String> {
        let user = self.ssh.users.user_of_certificate(certificate, login, self.peer.ip());
        user.inspect_err(|why| self.lock().why_refused = Some(why.clone()))
    }

    fn has_logged_in(&self, user: &SshUser) {
        let SshUser { name, shown } = user;
        tracing::info!("ssh {}: user {name:?} logged in with {shown}", self.peer);
        self.shared.host.metrics.login(LoginOutcome::Completed);
        // The connection's idle time begins anew.
        self.permit.waits();
        drop(self.lock().login.take());
    }

    fn begin(&self, session: SshSession) {
        self.permit.works();
        self.is_busy.send_replace(true);
        let (shared, peer, stopping) = (self.shared.clone(), self.peer, self.stopping.clone());
        tokio::spawn(run(shared, peer, session, stopping));
    }

    fn has_ended_session(&self) {
        self.permit.waits();
        self.is_busy.send_replace(false);
    }
}

/// Gets a thread for a session. The server waits until `stopping` is dropped.
async fn run(shared: Arc<Shared>, peer: SocketAddr, session: SshSession, stopping: watch::Receiver<bool>) {
    let permit = match shared.limits.request(peer.ip()).await {
        Ok(permit) => permit,
        Err(why) => {
            shared.has_refused(format_args!("ssh {peer}"), why, "session");
            // This may block while the client reads nothing.
            let told = tokio::task::spawn_blocking(move || fail(&session.output, &why.to_string()));
            return drop(told.await);
        }
    };
    let workers = shared.workers.clone();
    let ended = workers.start(move || {
        let _held = stopping;
        let served = catch_unwind(AssertUnwindSafe(|| serve(session, peer, &permit, &shared)));
        if served.is_err() {
            shared.host.metrics.panics.inc();
            tracing::error!("ssh {peer}: session panicked");
        }
    });
    match ended {
        // Panics are caught inside.
        Ok(ended) => drop(ended.await),
        Err(error) => tracing::error!("ssh {peer}: cannot start a thread: {error}"),
    }
}

/// Serves a session on this thread.
fn serve(session: SshSession, peer: SocketAddr, permit: &Permit, shared: &Shared) {
    let SshSession { user, request, protocol, input, output } = session;
    let command = match &request {
        SessionRequest::Shell => {
            // A client that does not read has disconnected.
            let _ = output.say(ShellRequest::greeting(&user.name).as_bytes());
            return output.end(FAILED);
        }
        SessionRequest::Command(command) => ShellCommand::parse(command),
    };
    let command = match command {
        Ok(command) => command,
        Err(why) => {
            shared.host.metrics.refused(Reason::Forbidden);
            tracing::info!("ssh {peer}: {:?}: {why}", user.name);
            return fail(&output, &why.to_string());
        }
    };
    let request = ShellRequest {
        command,
        user: user.name.to_string(),
        version: ProtocolVersion::from_environment(protocol.as_deref().unwrap_or_default()),
        client: Some(peer),
    };
    // A reader that waits for the client then gets the end of its input.
    permit.on_cut(input.stopper());
    let messages = output.clone();
    let streams = SessionStreams {
        input: Box::new(input),
        output: Box::new(SshSink::new(output.clone(), shared.host.cpu.clone())),
        // The client may no longer read them.
        messages: MessageSink::new(move |text| drop(messages.say(text))),
    };
    match serve_session(&request, streams, Some(permit), shared) {
        Ok(()) => output.end(0),
        Err(told) => fail(&output, &told),
    }
}

/// Ends a session with a reason, as git does.
fn fail(output: &SessionOutput, why: &str) {
    // A client that does not read has disconnected.
    let _ = output.say(format!("fatal: {why}\n").as_bytes());
    output.end(FAILED);
}
