//! Connections of HTTP: version 1.1, or 2 where a client begins with its preface (RFC 9113, section 3.3), and what they may
//! hold.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use packrace_os::count::{self, Op, Role};
use packrace_os::faults;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::watch::{ConnectionWatch, TooSlow};
use super::{Addresses, answer};
use crate::limits::connections::Permit;
use crate::metrics::{DoorName, Reason};
use crate::service::shared::Shared;

/// Longest head of a request, and what is read of a body at once.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Requests that a connection of HTTP/2 may have under way.
const MAX_STREAMS: u32 = 32;

/// What a client of HTTP/2 may send of a body before it is read, and of all bodies of a connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Streams of HTTP/2 that a client may open and reset before anybody has looked at them; then it is disconnected
/// (CVE-2023-44487, "rapid reset").
const MAX_RESET_STREAMS: usize = 20;

/// Serves one connection to its end. When a clone begins on it, it goes on in the background, behind all others.
pub(crate) async fn connection(stream: TcpStream, peer: SocketAddr, permit: Permit, shared: Arc<Shared>) {
    let watch = {
        let settings = shared.settings();
        let limits = &settings.limits;
        let min = limits.stall_throughput();
        ConnectionWatch::new(limits.request_time, min, Some(permit))
    };
    let demoted = watch.background().clone();
    let background = shared.background.clone();
    let mut serving = Box::pin(serve(stream, peer, watch, shared));
    tokio::select! {
        () = serving.as_mut() => {}
        () = demoted.notified() => match background {
            Some(background) => drop(background.spawn(serving)),
            None => serving.await,
        },
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, watch: Arc<ConnectionWatch>, shared: Arc<Shared>) {
    let _open = shared.host.metrics.connection(DoorName::Http);
    let addresses = Addresses { peer, local: stream.local_addr().ok() };
    // Small answers must not wait for more.
    let _ = stream.set_nodelay(true);
    let mut stopping = shared.stopping.subscribe();
    let metrics = shared.host.metrics.clone();
    let for_service = (shared.clone(), watch.clone());
    let service = hyper::service::service_fn(move |request| {
        let (shared, watch) = for_service.clone();
        let in_flight = watch.begin_request();
        async move { Ok::<_, Infallible>(answer(request, in_flight, shared, addresses).await) }
    });
    let builder = builder();
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(Counted(stream)), service));
    let stopped = async { drop(stopping.wait_for(|is_stopping| *is_stopping).await) };
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
    // The watch keeps time.
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

/// A client's socket whose calls are counted.
struct Counted(TcpStream);

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = std::task::ready!(Pin::new(&mut self.0).poll_read(context, buffer));
        count::add(Role::Client, Op::Read, buffer.filled().len() - before);
        Poll::Ready(read)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        counted(Pin::new(&mut self.0).poll_write(context, bytes), &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        counted(Pin::new(&mut self.0).poll_write_vectored(context, pieces), pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Counts what was written. Where the kernel could not read what was to be, damaged maps are marked; then the connection ends,
/// as nobody can tell a client of HTTP in the midst of a body that it is not complete.
fn counted(written: Poll<io::Result<usize>>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
    if let Poll::Ready(written) = &written {
        if written.as_ref().is_err_and(faults::is_unreadable) {
            let damaged = pieces.iter().fold(None, |first, piece| first.or(faults::touch(piece)));
            if let Some(damaged) = damaged {
                tracing::error!("a response is cut off: {damaged}");
            }
        }
        count::add(Role::Client, Op::Write, *written.as_ref().unwrap_or(&0));
    }
    written
}
