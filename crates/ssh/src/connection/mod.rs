//! One connection: login, sessions one after the other, and what ends it.

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

/// What a client may send before it has shown who it is. An offer of a large key takes 2 KiB, and of a certificate 6.
const MAX_LOGIN_BYTES: u64 = 128 << 10;

/// Offers of a client that are turned down. Agents offer what they have, one after the other.
const MAX_REFUSED_OFFERS: usize = 12;

/// Messages between the thread of a session and its connection: ranges of mapped files, mostly.
const WAITING_MESSAGES: usize = 4;

/// What a client may send before it hears that more is taken.
const WINDOW_BYTES: u32 = 2 << 20;

/// The largest payload of a message, the same as OpenSSH's.
const MAX_PAYLOAD_BYTES: u32 = 32 << 10;

/// Bytes after which keys are exchanged anew (RFC 4253, section 9).
const REKEY_BYTES: usize = 1 << 30;

/// What connections begin with: host keys and algorithms.
#[derive(Clone)]
pub struct SshConfig {
    config: Arc<Config>,
    description: Arc<str>,
}

impl SshConfig {
    /// Connections that show these keys.
    pub fn new(host_keys: &[HostKey]) -> Self {
        let keys: Vec<_> = host_keys.iter().map(|key| key.private().clone()).collect();
        let config = Config {
            server_id: SshId::Standard(Cow::Borrowed("SSH-2.0-packrace")),
            methods: MethodSet::from(&[MethodKind::PublicKey][..]),
            // What a client offers is public, and found in a table. OpenSSH begins with an offer of nothing, to hear of
            // the methods: a second there is a second for each command of git.
            auth_rejection_time: Duration::ZERO,
            auth_rejection_time_initial: Some(Duration::ZERO),
            keys,
            limits: russh::Limits::new(REKEY_BYTES, REKEY_BYTES, Duration::from_secs(3600)),
            window_size: WINDOW_BYTES,
            maximum_packet_size: MAX_PAYLOAD_BYTES,
            // Input goes through the handler: nobody reads from these.
            channel_buffer_size: 1,
            event_buffer_size: WAITING_MESSAGES,
            preferred: preferred(),
            max_auth_attempts: MAX_REFUSED_OFFERS,
            // The watch keeps time.
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

/// Algorithms: those with which an attacker in between can change nothing unseen, and which this program does fast. The
/// client's order decides, so what stands here is all that can be chosen: docs/decisions/0044-ssh.md.
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
        // For signatures of users: SHA-1 is not among them.
        Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
        Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
    ];
    Preferred {
        kex: Cow::Borrowed(KEX),
        key: Cow::Borrowed(KEYS),
        host_key_certificates: Cow::Borrowed(&[]),
        cipher: Cow::Borrowed(&[cipher::AES_256_GCM, cipher::AES_128_GCM]),
        // Not used with these ciphers, but one must be common.
        mac: Cow::Borrowed(&[mac::HMAC_SHA256_ETM, mac::HMAC_SHA512_ETM, mac::HMAC_SHA256, mac::HMAC_SHA512]),
        compression: Cow::Borrowed(&[compression::NONE]),
    }
}

/// How long a client may take. Plain data.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// From accept until it is known who it is; and without a session afterwards.
    pub idle_time: Duration,
    /// The least that it takes of what a session sends.
    pub stall: MinThroughput,
    /// The least that it sends while a session waits for it.
    pub idle: MinThroughput,
}

/// What a client wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A command.
    Command(Vec<u8>),
    /// A shell, which there is none of.
    Shell,
}

/// A session that a client has begun. Its streams block: they are for a thread of its own.
#[derive(Debug)]
pub struct SshSession {
    /// Who it is.
    pub user: SshUser,
    /// What is to be run.
    pub wanted: Wanted,
    /// `GIT_PROTOCOL`, if the client has set it.
    pub protocol: Option<String>,
    /// What the client sends.
    pub input: SessionInput,
    /// What goes to the client. Dropped without an end, it ends the session with 128.
    pub output: SessionOutput,
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a server decides for one connection.
pub trait SshHost: Send + Sync + 'static {
    /// The user who has a key.
    fn user_of_key<'a>(&'a self, key: &'a UserKey) -> Answer<'a, Option<SshUser>>;

    /// Whether clients may show certificates.
    fn takes_certificates(&self) -> bool;

    /// The user of a certificate whose holder is verified, or why it is not taken.
    fn user_of_certificate(&self, certificate: &UserCertificate<'_>, login: &str) -> Result<SshUser, String>;

    /// The client has shown who it is.
    fn has_logged_in(&self, user: &SshUser);

    /// Serves a session, but not on this thread.
    fn begin(&self, session: SshSession);

    /// No session is running any more.
    fn has_ended_session(&self);
}

/// Serves one connection to its end. When `cut` is ready, its socket is shut, whatever it does.
pub async fn serve(
    stream: TcpStream,
    config: &SshConfig,
    host: Arc<dyn SshHost>,
    limits: ConnectionLimits,
    cut: impl Future<Output = ()> + Send,
) -> ConnectionEnded {
    // Small answers must not wait for more.
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
