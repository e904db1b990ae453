//! One connection: login, consecutive sessions, and the end.

mod handler;
mod input;
mod link;
mod output;
mod watch;
mod wire;

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use packrace_os::throughput::MinThroughput;
use russh::keys::{Algorithm, EcdsaCurve, HashAlg};
use russh::server::{Config, run_stream};
use russh::{MethodKind, MethodSet, Preferred, SshId, cipher, compression, kex, mac};
use tokio::net::TcpStream;

use crate::keys::{HostKey, SshUser, UserCertificate, UserKey};
use handler::ClientHandler;
pub use input::SessionInput;
use link::Link;
pub use output::SessionOutput;
pub use watch::ConnectionEnded;
use watch::watch;
use wire::Wire;

/// Maximum bytes before login. Offering a large key takes 2 KiB, a certificate 6.
const MAX_LOGIN_BYTES: u64 = 128 << 10;

/// Maximum number of refused offers. Agents offer their keys one after the other.
const MAX_REFUSED_OFFERS: usize = 12;

/// Messages queued between a session's thread and its connection: mostly ranges of mapped files. A whole batch, so that
/// it is encrypted in one step: if it took several, others would be in between, and its turn would end before.
const WAITING_MESSAGES: usize = 40;

/// Bytes that a client may send before its window is extended.
const WINDOW_BYTES: u32 = 2 << 20;

/// Largest payload of a message, as in OpenSSH.
const MAX_PAYLOAD_BYTES: u32 = 32 << 10;

/// Bytes until rekeying (RFC 4253, section 9).
const REKEY_BYTES: usize = 1 << 30;

/// Configuration of connections: host keys and algorithms.
#[derive(Clone)]
pub struct SshConfig {
    config: Arc<Config>,
    description: Arc<str>,
}

impl SshConfig {
    /// A configuration with these host keys.
    pub fn new(host_keys: &[HostKey]) -> Self {
        let keys: Vec<_> = host_keys.iter().map(|key| key.private().clone()).collect();
        let config = Config {
            server_id: SshId::Standard(Cow::Borrowed("SSH-2.0-packrace")),
            methods: MethodSet::from(&[MethodKind::PublicKey][..]),
            // Offered keys are public, and a table lookup tells nothing. OpenSSH first offers nothing, to
            // learn the methods: a delay of a second there would delay every git command by a second.
            auth_rejection_time: Duration::ZERO,
            auth_rejection_time_initial: Some(Duration::ZERO),
            keys,
            limits: russh::Limits::new(REKEY_BYTES, REKEY_BYTES, Duration::from_secs(3600)),
            window_size: WINDOW_BYTES,
            maximum_packet_size: MAX_PAYLOAD_BYTES,
            // Input goes through the handler: this channel is never read.
            channel_buffer_size: 1,
            event_buffer_size: WAITING_MESSAGES,
            preferred: preferred(),
            max_auth_attempts: MAX_REFUSED_OFFERS,
            // The watch enforces time limits.
            inactivity_timeout: None,
            keepalive_interval: None,
            nodelay: true,
            ..Config::default()
        };
        let described: Vec<String> = host_keys.iter().map(HostKey::to_string).collect();
        SshConfig { config: Arc::new(config), description: described.join(", ").into() }
    }
}

/// The host keys, as clients show them.
impl fmt::Display for SshConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

impl fmt::Debug for SshConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Algorithms: only those with which no attacker in between can change data unnoticed, and that are fast
/// here. The client's preference decides, so every entry may be chosen: docs/decisions/0044-ssh.md.
fn preferred() -> Preferred {
    const KEX: &[kex::Name] = &[
        kex::MLKEM768X25519_SHA256,
        kex::CURVE25519,
        kex::CURVE25519_PRE_RFC_8731,
        kex::ECDH_SHA2_NISTP256,
        kex::ECDH_SHA2_NISTP384,
        kex::EXTENSION_SUPPORT_AS_SERVER,
        kex::EXTENSION_OPENSSH_STRICT_KEX_AS_SERVER,
    ];
    const KEYS: &[Algorithm] = &[
        Algorithm::Ed25519,
        Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
        Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
        Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
        // For user signatures: without SHA-1.
        Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
        Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
    ];
    Preferred {
        kex: Cow::Borrowed(KEX),
        key: Cow::Borrowed(KEYS),
        host_key_certificates: Cow::Borrowed(&[]),
        cipher: Cow::Borrowed(&[cipher::AES_256_GCM, cipher::AES_128_GCM]),
        // Unused with these ciphers, but negotiation needs a common one.
        mac: Cow::Borrowed(&[mac::HMAC_SHA256_ETM, mac::HMAC_SHA512_ETM, mac::HMAC_SHA256, mac::HMAC_SHA512]),
        compression: Cow::Borrowed(&[compression::NONE]),
    }
}

/// Time limits of a client. Plain data.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// From accept until login, and without a session afterwards.
    pub idle_time: Duration,
    /// Minimum throughput at which a client must receive a session's output.
    pub stall: MinThroughput,
    /// Minimum throughput of a client while a session waits for its input.
    pub idle: MinThroughput,
}

/// What a client wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionRequest {
    /// A command.
    Command(Vec<u8>),
    /// A shell, which is not offered.
    Shell,
}

/// A session that a client began. Its streams block: it needs its own thread.
#[derive(Debug)]
pub struct SshSession {
    /// The logged-in user.
    pub user: SshUser,
    /// The command.
    pub request: SessionRequest,
    /// `GIT_PROTOCOL`, if the client set it.
    pub protocol: Option<String>,
    /// The client's input.
    pub input: SessionInput,
    /// The output to the client. If dropped without an end, the session ends with code 128.
    pub output: SessionOutput,
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A server's decisions for one connection.
pub trait SshHost: Send + Sync + 'static {
    /// The owner of a key.
    fn user_of_key<'a>(&'a self, key: &'a UserKey) -> Answer<'a, Option<SshUser>>;

    /// Whether clients may use certificates.
    fn takes_certificates(&self) -> bool;

    /// The user of a certificate with a verified holder, or why it is refused.
    fn user_of_certificate(&self, certificate: &UserCertificate<'_>, login: &str) -> Result<SshUser, String>;

    /// The client logged in.
    fn has_logged_in(&self, user: &SshUser);

    /// Serves a session, on another thread.
    fn begin(&self, session: SshSession);

    /// The running session ended.
    fn has_ended_session(&self);
}

/// Serves one connection to its end. When `cut` completes, the socket is shut down immediately.
pub async fn serve(
    stream: TcpStream,
    config: &SshConfig,
    host: Arc<dyn SshHost>,
    limits: ConnectionLimits,
    cut: impl Future<Output = ()> + Send,
) -> ConnectionEnded {
    // Small responses must not be delayed.
    let _ = stream.set_nodelay(true);
    let wire = Wire::new(stream, MAX_LOGIN_BYTES);
    let link = Link::new(host, limits, wire.state().clone());
    let handler = ClientHandler::new(link.clone());
    let session = async {
        match run_stream(config.config.clone(), wire, handler).await {
            Ok(session) => session.await,
            Err(error) => Err(error),
        }
    };
    let ended = watch(session, &link, cut).await;
    link.has_gone();
    ended
}
