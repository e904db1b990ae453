//! HTTP connections and their limits: version 1.1, or 2 if a client begins with its preface (RFC 9113,
//! section 3.3).

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use packrace_os::count::{self, Op, Role};
use packrace_os::faults;
use packrace_os::sink::{first_piece, has_gathered_writes, lacks_gathered_writes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use super::pages::{ConnectionBody, NoPages, PageBody, Pages, Peer};
use super::watch::{ConnectionWatch, TooSlow};
use super::{Addresses, answer};
use crate::limits::connections::Permit;
use crate::metrics::{DoorName, Raised, Reason};
use crate::service::shared::Shared;

/// The longest head of a request, and the most that is read of a body at once.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// The most bytes in one write.
const MAX_WRITE_BYTES: usize = 1 << 20;

/// The most concurrent requests on a connection of HTTP/2.
const MAX_STREAMS: u32 = 32;

/// How much a client of HTTP/2 may send before it is read: of one body, and of all bodies of a connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// The most streams of HTTP/2 that a client may open and reset before they were accepted; then it is
/// disconnected (CVE-2023-44487, "rapid reset").
const MAX_RESET_STREAMS: usize = 20;

/// How long a connection may take to its first request after the server has begun to stop. Clients repeat a
/// request if a connection that they keep was closed, but not if a new one is.
const LAST_REQUEST_TIME: Duration = Duration::from_secs(2);

/// The state of a connection from accept on, whatever its protocol.
pub(super) struct Accepted {
    pub(super) peer: SocketAddr,
    pub(super) watch: Arc<ConnectionWatch>,
    pub(super) shared: Arc<Shared>,
    /// Whether the server is stopping. It waits until this is dropped.
    stopping: watch::Receiver<bool>,
    /// Counts the connection while it is open.
    _open: Raised,
}

impl Accepted {
    pub(super) fn new(peer: SocketAddr, permit: Permit, shared: Arc<Shared>) -> Self {
        let watch = {
            let settings = shared.settings();
            let limits = &settings.limits;
            ConnectionWatch::new(limits.request_time, limits.stall_throughput(), Some(permit))
        };
        let open = shared.host.metrics.connection(DoorName::Http);
        let stopping = shared.stopping.subscribe();
        Accepted { peer, watch, shared, stopping, _open: open }
    }

    /// Ready when a connection without a request is too late for this server.
    pub(super) fn too_late(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.stopping.clone();
        async move {
            drop(stopping.wait_for(|is_stopping| *is_stopping).await);
            tokio::time::sleep(LAST_REQUEST_TIME).await;
        }
    }
}

/// Serves one connection without TLS to its end.
pub(crate) async fn connection(stream: TcpStream, peer: SocketAddr, permit: Permit, shared: Arc<Shared>) {
    connection_with(stream, peer, permit, shared, NoPages).await;
}

/// The same, with pages beside Git's requests.
pub(crate) async fn connection_with(
    stream: TcpStream,
    peer: SocketAddr,
    permit: Permit,
    shared: Arc<Shared>,
    pages: impl Pages,
) {
    let accepted = Accepted::new(peer, permit, shared.clone());
    let demoted = accepted.watch.background().clone();
    let addresses = Addresses { peer, local: stream.local_addr().ok(), certificate: None };
    // Small answers must not wait for more bytes.
    let _ = stream.set_nodelay(true);
    run(serve(Counted::new(stream), addresses, accepted, pages), &demoted, shared.background.clone()).await;
}

/// Runs the service of a connection. When a clone begins on it, it moves to the background, behind all
/// others.
pub(super) async fn run(
    serving: impl Future<Output = ()> + Send + 'static,
    demoted: &Notify,
    background: Option<Handle>,
) {
    let mut serving = Box::pin(serving);
    tokio::select! {
        () = serving.as_mut() => {}
        () = demoted.notified() => match background {
            Some(background) => drop(background.spawn(serving)),
            None => serving.await,
        },
    }
}

/// Answers requests until one side ends the connection.
pub(super) async fn serve<S, P>(stream: S, addresses: Addresses, accepted: Accepted, pages: P)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    P: Pages,
{
    let Accepted { peer, watch, shared, mut stopping, _open } = accepted;
    let metrics = shared.host.metrics.clone();
    // Keeps one notification: a request that began before somebody waits counts.
    let begun = Arc::new(Notify::new());
    let for_service = (shared.clone(), watch.clone(), begun.clone());
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        let (shared, watch, begun) = for_service.clone();
        let in_flight = watch.begin_request();
        begun.notify_one();
        let (addresses, mut pages) = (addresses.clone(), pages.clone());
        async move {
            if !pages.have(&request) {
                let answer = answer(request, in_flight, shared, addresses).await;
                return Ok::<_, Infallible>(answer.map(ConnectionBody::<P>::Left));
            }
            request.extensions_mut().insert(Peer(addresses.peer));
            let answer = pages.answer(request).await;
            Ok(answer.map(|body| ConnectionBody::<P>::Right(PageBody { body, in_flight })))
        }
    });
    let builder = builder();
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let stopped = async {
        drop(stopping.wait_for(|is_stopping| *is_stopping).await);
        let _ = tokio::time::timeout(LAST_REQUEST_TIME, begun.notified()).await;
    };
    let ended = async {
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    tokio::select! {
        ended = ended => if let Err(error) = ended {
            tracing::debug!("http {peer}: {error}");
        },
        why = watch.too_slow() => {
            match why {
                TooSlow::Silent => {}
                TooSlow::Stalled => metrics.refused(Reason::Slow),
                TooSlow::Cut => metrics.refused(Reason::Idle),
            }
            tracing::info!("http {peer}: closed: {why}");
        }
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // The watch enforces the time limits.
    builder.http1().header_read_timeout(None).max_buf_size(MAX_HEAD_BYTES);
    builder
        .http2()
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_header_list_size(MAX_HEAD_BYTES as u32);
    builder
}

/// A client's socket that counts its calls.
pub(super) struct Counted {
    stream: TcpStream,
    /// Bytes that it has taken so far.
    pub(super) sent_bytes: u64,
    /// How many more bytes may be read from it.
    pub(super) may_read_bytes: u64,
}

impl Counted {
    pub(super) fn new(stream: TcpStream) -> Self {
        Counted { stream, sent_bytes: 0, may_read_bytes: u64::MAX }
    }

    /// Counts written bytes. If the kernel could not read them, damaged maps are marked; then the connection
    /// ends, because HTTP cannot report in the middle of a body that it is incomplete.
    fn wrote(&mut self, written: &Poll<io::Result<usize>>, pieces: &[IoSlice<'_>]) {
        let Poll::Ready(written) = written else { return };
        if written.as_ref().is_err_and(faults::is_unreadable) {
            let damaged = pieces.iter().fold(None, |first, piece| first.or(faults::touch(piece)));
            if let Some(damaged) = damaged {
                tracing::error!("response cut off: {damaged}");
            }
        }
        let bytes = *written.as_ref().unwrap_or(&0);
        self.sent_bytes += bytes as u64;
        count::add(Role::Client, Op::Write, bytes);
    }
}

/// The first `max` bytes of these pieces; `None` if that is all of them.
fn pieces_within<'p>(pieces: &'p [IoSlice<'_>], max: usize) -> Option<Vec<IoSlice<'p>>> {
    if pieces.iter().map(|piece| piece.len()).sum::<usize>() <= max {
        return None;
    }
    let mut room = max;
    let cut = pieces.iter().filter_map(|piece| {
        let taken = &piece[..piece.len().min(room)];
        room -= taken.len();
        (!taken.is_empty()).then(|| IoSlice::new(taken))
    });
    Some(cut.collect())
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = std::task::ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        let bytes = buffer.filled().len() - before;
        count::add(Role::Client, Op::Read, bytes);
        let Some(rest) = self.may_read_bytes.checked_sub(bytes as u64) else {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "client sends too much")));
        };
        self.may_read_bytes = rest;
        Poll::Ready(read)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(&written, &[IoSlice::new(bytes)]);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let within = pieces_within(pieces, MAX_WRITE_BYTES);
        let pieces = within.as_deref().unwrap_or(pieces);
        let first = first_piece(pieces);
        let mut stream = Pin::new(&mut self.stream);
        let gathered = has_gathered_writes().then(|| stream.as_mut().poll_write_vectored(context, pieces));
        let written = match gathered {
            Some(Poll::Ready(Err(error))) if lacks_gathered_writes(&error) => {
                stream.poll_write(context, first)
            }
            Some(written) => written,
            None => stream.poll_write(context, first),
        };
        self.wrote(&written, pieces);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored() && has_gathered_writes()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
