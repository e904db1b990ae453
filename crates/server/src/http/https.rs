//! HTTP over TLS: the handshake, and what a connection holds between hyper and the client's socket.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use packrace_os::faults;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Addresses;
use super::connection::{Accepted, Counted, run, serve};
use super::pages::NoPages;
use super::watch::{ConnectionWatch, InFlight, TooSlow};
use crate::limits::connections::{LimitReached, Permit};
use crate::metrics::{HandshakeOutcome, Reason};
use crate::service::shared::Shared;
use crate::tls::ClientCertificate;

/// How much a connection encrypts at once, and so how much it may hold for a client that takes nothing:
/// docs/decisions/0039-tls.md.
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// How much a client may send until its handshake is complete, with its certificates. rustls holds a message
/// until it is whole.
const MAX_HANDSHAKE_BYTES: u64 = 32 << 10;

/// The first byte of a handshake record (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// A fatal alert, `internal_error` (RFC 8446, section 6.2): the only message that a client understands before
/// its handshake.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// The answer to HTTP without TLS.
const NOT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 49\r\n\r\n\
    This port serves HTTPS only: use an https:// URL\n";

/// The answer to a client beyond the connection limit.
pub(crate) fn limit_reached(_why: LimitReached) -> Vec<u8> {
    ALERT.to_vec()
}

/// Serves one connection with TLS to its end.
pub(crate) async fn connection(stream: TcpStream, peer: SocketAddr, permit: Permit, shared: Arc<Shared>) {
    let accepted = Accepted::new(peer, permit, shared.clone());
    let demoted = accepted.watch.background().clone();
    run(shake_hands_and_serve(stream, accepted), &demoted, shared.background.clone()).await;
}

async fn shake_hands_and_serve(stream: TcpStream, accepted: Accepted) {
    let (peer, watch, shared) = (accepted.peer, accepted.watch.clone(), accepted.shared.clone());
    let local = stream.local_addr().ok();
    // Small answers must not wait for more bytes.
    let _ = stream.set_nodelay(true);
    // The handshake counts towards the time for the first request.
    let ended = tokio::select! {
        ended = shake_hands(stream, &shared) => ended,
        why = watch.too_slow() => Err(NoHandshake::TooSlow(why)),
        () = accepted.too_late() => Err(NoHandshake::Gone),
    };
    let stream = match ended {
        Ok(stream) => stream,
        // Load balancers do that to check that the port is open.
        Err(NoHandshake::Gone) => return,
        Err(why) => {
            if matches!(why, NoHandshake::TooSlow(TooSlow::Cut)) {
                shared.host.metrics.refused(Reason::Idle);
            }
            return shared.handshake_failed(peer, why.outcome(), &why);
        }
    };
    shared.host.metrics.handshake(HandshakeOutcome::Completed);
    let certificate = ClientCertificate::of(stream.get_ref().1).map(Arc::new);
    let addresses = Addresses { peer, local, certificate };
    if let Some(certificate) = &addresses.certificate {
        tracing::debug!("https {peer}: client certificate: {certificate}");
    }
    serve(Encrypted { stream, watch, unsent: None }, addresses, accepted, NoPages).await;
}

/// Why a handshake failed.
enum NoHandshake {
    /// The client has disconnected without sending a byte.
    Gone,
    TooSlow(TooSlow),
    /// The client uses another protocol.
    NotTls,
    /// The server has no certificates.
    NoCertificates,
    Failed(io::Error),
}

impl NoHandshake {
    fn outcome(&self) -> HandshakeOutcome {
        match self {
            NoHandshake::TooSlow(_) => HandshakeOutcome::TimedOut,
            NoHandshake::NotTls => HandshakeOutcome::NotTls,
            NoHandshake::Gone | NoHandshake::NoCertificates | NoHandshake::Failed(_) => {
                HandshakeOutcome::Failed
            }
        }
    }
}

impl std::fmt::Display for NoHandshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoHandshake::Gone => f.write_str("client disconnected"),
            NoHandshake::TooSlow(TooSlow::Silent) => f.write_str("no handshake within limits.request-time"),
            NoHandshake::TooSlow(why) => write!(f, "{why}"),
            NoHandshake::NotTls => f.write_str("client does not speak TLS"),
            NoHandshake::NoCertificates => f.write_str("no tls.certificates"),
            NoHandshake::Failed(error) => write!(f, "{error}"),
        }
    }
}

async fn shake_hands(stream: TcpStream, shared: &Shared) -> Result<Box<TlsStream<Counted>>, NoHandshake> {
    // Nothing is allocated for a client that sends nothing.
    let mut first = [0];
    if stream.peek(&mut first).await.unwrap_or(0) == 0 {
        return Err(NoHandshake::Gone);
    }
    if first != [HANDSHAKE] {
        // A method of HTTP, or the preface of its version 2. A close with unread bytes would discard the
        // answer.
        if first[0].is_ascii_uppercase() {
            let _ = stream.try_read(&mut [0; 4096]);
            let _ = stream.try_write(NOT_TLS);
        }
        return Err(NoHandshake::NotTls);
    }
    let Some(tls) = shared.settings().tls.clone() else { return Err(NoHandshake::NoCertificates) };
    let acceptor = TlsAcceptor::from(tls.config().clone());
    let mut socket = Counted::new(stream);
    socket.may_read_bytes = MAX_HANDSHAKE_BYTES;
    let handshake = acceptor.accept_with(socket, |connection| {
        connection.set_buffer_limit(Some(SEND_BUFFER_BYTES));
    });
    let mut stream = Box::pin(handshake).await.map(Box::new).map_err(NoHandshake::Failed)?;
    stream.get_mut().0.may_read_bytes = u64::MAX;
    Ok(stream)
}

/// TLS over a client's socket.
///
/// Encrypted bytes that the socket has not taken count as a running answer for the watch: hyper has handed
/// them over, and would look idle while a slow client takes the end of its answer.
struct Encrypted {
    stream: Box<TlsStream<Counted>>,
    watch: Arc<ConnectionWatch>,
    unsent: Option<Unsent>,
}

/// Encrypted bytes that the client's socket has not taken.
struct Unsent {
    in_flight: Arc<InFlight>,
    /// Bytes that the socket had taken at the last look.
    sent_bytes: u64,
}

impl Encrypted {
    /// Tells the watch whether encrypted bytes wait for the client.
    fn look_at_unsent(&mut self) {
        let (socket, connection) = self.stream.get_ref();
        if !connection.wants_write() {
            self.unsent = None;
            return;
        }
        let sent_bytes = socket.sent_bytes;
        let unsent =
            self.unsent.get_or_insert_with(|| Unsent { in_flight: self.watch.begin_unsent(), sent_bytes });
        unsent.in_flight.moved(sent_bytes - unsent.sent_bytes);
        unsent.sent_bytes = sent_bytes;
    }

    /// Ends the connection if encrypted bytes came from a damaged map: this process has read them to encrypt
    /// them, so the kernel could not report the fault as it does on other connections.
    fn check(&mut self, written: Poll<io::Result<usize>>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.look_at_unsent();
        if faults::damaged_maps() > 0
            && matches!(written, Poll::Ready(Ok(_)))
            && let Some(damaged) = pieces.iter().find_map(|piece| faults::touch(piece))
        {
            tracing::error!("response cut off: {damaged}");
            return Poll::Ready(Err(damaged.into()));
        }
        written
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check(written, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.check(written, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.look_at_unsent();
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.look_at_unsent();
        shut
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use packrace_os::throughput::MinThroughput;
    use packrace_testkit::certificates::Authority;
    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpSocket;
    use tokio_rustls::{TlsConnector, client};

    use super::*;
    use crate::tls::{Tls, TlsFiles};

    const SECOND: Duration = Duration::from_secs(1);

    /// Both ends of a connection with small socket buffers.
    async fn pair() -> (TlsStream<Counted>, client::TlsStream<TcpStream>) {
        let dir = packrace_testkit::scratch_dir();
        let authority = Authority::new("Authority of tests");
        let (certificate, key) = authority.sign("localhost", &["localhost"]).write(dir.path(), "server");
        let files = TlsFiles { certificates: vec![certificate], keys: vec![key], ..TlsFiles::default() };
        let acceptor = TlsAcceptor::from(Tls::load(&files).unwrap().unwrap().config().clone());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();

        let listener = TcpSocket::new_v4().unwrap();
        listener.set_send_buffer_size(4096).unwrap();
        listener.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = listener.listen(1).unwrap();
        let connecting = TcpSocket::new_v4().unwrap();
        connecting.set_recv_buffer_size(4096).unwrap();
        let connecting = connecting.connect(listener.local_addr().unwrap());
        let (accepted, connected) = tokio::join!(listener.accept(), connecting);
        let accepting = acceptor.accept(Counted::new(accepted.unwrap().0));
        let name = ServerName::try_from("localhost").unwrap();
        let (accepted, connected) =
            tokio::join!(accepting, TlsConnector::from(Arc::new(config)).connect(name, connected.unwrap()));
        (accepted.unwrap(), connected.unwrap())
    }

    async fn check_a_slow_client() {
        let (stream, mut client) = pair().await;
        let exchange = stream.get_ref().1.negotiated_key_exchange_group().map(|group| group.name());
        assert_eq!(exchange, Some(rustls::NamedGroup::X25519MLKEM768), "hybrid, post-quantum");
        let min = MinThroughput { time: 20 * SECOND, bytes: 100 };
        let watch = ConnectionWatch::new(10 * SECOND, min, None);
        let mut server = Encrypted { stream: Box::new(stream), watch: watch.clone(), unsent: None };
        let bytes = vec![7; 60 << 10];
        assert_eq!(server.write(&bytes).await.unwrap(), bytes.len(), "all of it is encrypted");
        assert!(server.unsent.is_some(), "the sockets hold less");

        // It is not idle; it takes little, but enough.
        let start = Instant::now() + 100 * SECOND;
        assert!(watch.look(start).is_ok());
        assert!(watch.look(start + 19 * SECOND).is_ok());
        let mut got = vec![0; 10 << 10];
        tokio::select! {
            read = client.read_exact(&mut got) => drop(read.unwrap()),
            flushed = server.flush() => panic!("nobody has taken the end: {flushed:?}"),
        }
        assert!(server.unsent.is_some(), "the sockets hold less than the rest, too");
        assert!(watch.look(start + 20 * SECOND).is_ok());
        assert!(watch.look(start + 39 * SECOND).is_ok());
        assert_eq!(watch.look(start + 40 * SECOND), Err(TooSlow::Stalled));
        let mut rest = vec![0; bytes.len() - got.len()];
        let (flushed, read) = tokio::join!(server.flush(), client.read_exact(&mut rest));
        flushed.unwrap();
        read.unwrap();
        assert!(server.unsent.is_none());
        // From now on it is idle.
        assert_eq!(watch.look(Instant::now() + 10 * SECOND), Err(TooSlow::Silent));
    }

    #[test]
    fn what_a_client_has_not_taken_is_under_way() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_a_slow_client());
    }
}
