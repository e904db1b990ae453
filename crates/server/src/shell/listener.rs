//! The server's side: sessions that `packrace shell` passes on.

use std::io;
use std::net::Ipv4Addr;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as UnixStreamStd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use packrace_os::descriptors::{self, DESCRIPTORS, NamedListener};
use packrace_os::sink::FdSink;
use packrace_os::source::FdSource;
use packrace_store::MessageSink;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::message::{self, GO, HEAD_BYTES, MAX_MESSAGE_BYTES, READY};
use super::session::{SessionStreams, ShellRequest, output_of, serve};
use crate::limits::connections::{LimitReached, Permit};
use crate::metrics::{DoorName, Reason};
use crate::service::shared::Shared;

/// The most connections that have not sent their request. Others wait to be accepted.
const MAX_HANDSHAKES: usize = 256;

/// How long a shell may take to read the few bytes about the end of its session.
const END_TIME: Duration = Duration::from_secs(5);

/// A socket where `packrace shell` finds this server.
#[derive(Debug)]
pub struct ShellListener(NamedListener);

impl ShellListener {
    /// Listens at `path`, for the user of this process and root. Call it before the process gives up the
    /// right to create files there.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let bound = NamedListener::bind(path);
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot listen at {}: {error}", path.display()))
        };
        Ok(ShellListener(bound.map_err(failed)?))
    }
}

/// Accepts sessions until it is dropped, together with the listener.
pub(crate) async fn accept(listener: ShellListener, shared: Arc<Shared>) {
    let ShellListener(named) = &listener;
    let accepting = named.listener().try_clone().and_then(UnixListener::from_std);
    let accepting = match accepting {
        Ok(accepting) => accepting,
        Err(error) => return tracing::error!("ssh: cannot listen: {error}"),
    };
    tracing::info!("ssh: accepting packrace shell sessions at {}", named.path().display());
    let handshakes = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    // The semaphore is never closed.
    while let Ok(handshake) = handshakes.clone().acquire_owned().await {
        match accepting.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection(stream, handshake, shared.clone()))),
            Err(error) => {
                // Mostly out of descriptors: wait for some to be released instead of spinning.
                tracing::error!("ssh: cannot accept a session: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves one connection to its end.
async fn connection(mut stream: UnixStream, handshake: OwnedSemaphorePermit, shared: Arc<Shared>) {
    let mut stopping = shared.stopping.subscribe();
    let request_time = shared.settings().limits.request_time;
    let handed_over = tokio::select! {
        handed_over = tokio::time::timeout(request_time, take(&mut stream, &shared)) => handed_over,
        _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
    };
    drop(handshake);
    let (request, descriptors) = match handed_over.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(handed_over) => handed_over,
        Err(error) => {
            shared.host.metrics.refused(Reason::Broken);
            return tracing::warn!("ssh: cannot start a session: {error}");
        }
    };
    let open = shared.host.metrics.connection(DoorName::Ssh);
    let (connection, running) = match permits(&request, &shared).await {
        Ok(permits) => permits,
        Err(why) => {
            shared.has_refused(format_args!("ssh {}", request.peer()), why, "session");
            let end = message::encode_end(&Err(why.to_string()));
            // A shell that does not read it has disconnected.
            let _ = tokio::time::timeout(END_TIME, stream.write_all(&end)).await;
            return;
        }
    };
    let ended = shared.workers.clone().start(move || {
        // When this thread ends, permits are released, and the server no longer waits for it.
        let _held = (connection, stopping, open);
        let peer = request.peer();
        let serve = || session(stream, descriptors, &request, &running, &shared);
        match catch_unwind(AssertUnwindSafe(serve)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::info!("ssh {peer}: {error}"),
            Err(_) => {
                shared.host.metrics.panics.inc();
                tracing::error!("ssh {peer}: session panicked");
            }
        }
    });
    match ended {
        // Panics are caught inside.
        Ok(ended) => drop(ended.await),
        Err(error) => tracing::error!("ssh: cannot start a thread: {error}"),
    }
}

/// A permit for a connection, and one for a request.
async fn permits(request: &ShellRequest, shared: &Shared) -> Result<(Permit, Permit), LimitReached> {
    // Clients whose address sshd does not know count as one.
    let address = request.client.map_or(Ipv4Addr::UNSPECIFIED.into(), |client| client.ip());
    let connection = shared.limits.connection(address)?;
    connection.works();
    Ok((connection, shared.limits.request(address).await?))
}

/// The request of a shell, and its descriptors.
async fn take(
    stream: &mut UnixStream,
    shared: &Shared,
) -> io::Result<(ShellRequest, [OwnedFd; DESCRIPTORS])> {
    let invalid = |why: &'static str| io::Error::new(io::ErrorKind::InvalidData, why);
    if !descriptors::is_peer_trusted(&*stream)? {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "peer runs as another user"));
    }
    let mut message = vec![0; MAX_MESSAGE_BYTES];
    // Descriptors arrive with the first bytes.
    let (mut length, received) = loop {
        stream.readable().await?;
        match stream.try_io(Interest::READABLE, || descriptors::receive(&*stream, &mut message)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => break received?,
        }
    };
    let received = received.try_into().map_err(|_| invalid("expected three descriptors"))?;
    if length < HEAD_BYTES {
        stream.read_exact(&mut message[length..HEAD_BYTES]).await?;
        length = HEAD_BYTES;
    }
    let body = message::body_bytes(&message[..HEAD_BYTES]).ok_or_else(|| invalid("unknown message"))?;
    let whole = HEAD_BYTES + body;
    if length < whole {
        stream.read_exact(&mut message[length..whole]).await?;
    } else if length > whole {
        return Err(invalid("trailing data after the message"));
    }
    let (root, request) =
        message::decode(&message[HEAD_BYTES..whole]).ok_or_else(|| invalid("malformed message"))?;
    if root != shared.root.path() {
        return Err(invalid("server serves another folder"));
    }
    stream.write_all(&[READY]).await?;
    match stream.read_u8().await? {
        GO => Ok((request, received)),
        _ => Err(invalid("packrace shell did not continue")),
    }
}

/// Serves a session on a thread of its own.
fn session(
    stream: UnixStream,
    [input, output, errors]: [OwnedFd; DESCRIPTORS],
    request: &ShellRequest,
    permit: &Permit,
    shared: &Shared,
) -> io::Result<()> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(END_TIME))?;
    let owner = Arc::new(OwnedFd::from(stream.try_clone()?));
    let waited_for = stream.try_clone()?;
    // A reader that waits for the client then learns that the session is over.
    permit.on_cut(move || drop(waited_for.shutdown(Shutdown::Read)));
    let limits = shared.settings().limits.clone();
    let stall = limits.stall_throughput();
    let output = FdSink::handed_over(output, stall, owner.clone())?;
    let errors = Mutex::new(Some(FdSink::shared(errors, stall.time, owner.clone())));
    let streams = SessionStreams {
        input: Box::new(
            FdSource::new(input, None).with_min_throughput(limits.idle_throughput()).with_owner(owner),
        ),
        output: output_of(output.with_gate(shared.host.cpu.clone().map(|cpu| cpu as _))),
        messages: MessageSink::new(move |text| {
            let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
            if errors.as_mut().is_some_and(|sink| sink.write_in_steps(text).is_err()) {
                // The client no longer reads them.
                *errors = None;
            }
        }),
    };
    let ended = serve(request, streams, Some(permit), shared);
    tell(stream, &ended)
}

/// Tells the shell how its session ended.
fn tell(mut stream: UnixStreamStd, ended: &Result<(), String>) -> io::Result<()> {
    match io::Write::write_all(&mut stream, &message::encode_end(ended)) {
        // The shell has disconnected, which ended the session.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        told => told,
    }
}
