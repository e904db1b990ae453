//! One POST of an event: signed, to a checked address, with limits for everything that the receiver does. The next one
//! uses the same connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::address::may_connect;
use super::retry::asked_delay;
use super::settings::{Webhook, WebhookUrl};
use crate::metrics::AttemptOutcome;

/// Longest head of a response.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// How much of a response's body is read, so that receivers see no error; and for how long.
const MAX_BODY_BYTES: usize = 64 << 10;
const MAX_BODY_TIME: Duration = Duration::from_secs(1);

/// How long a connection without an event stays open: events come in quick succession, or seldom.
const MAX_IDLE_TIME: Duration = Duration::from_secs(5);

/// Addresses of a host that are tried.
const MAX_ADDRESSES: usize = 4;

/// An event in the form in which it is posted.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// The number of its line.
    pub(super) seq: u64,
    /// The kind of event, as the line names it.
    pub(super) kind: String,
    pub(super) body: Bytes,
}

/// The result of an attempt.
#[derive(Debug)]
pub(super) struct Attempted {
    pub(super) outcome: AttemptOutcome,
    /// For the log: contains nothing of the URL, and nothing that the receiver sent.
    pub(super) why: String,
    /// The delay that the receiver requests.
    pub(super) retry_after: Option<Duration>,
}

impl Attempted {
    fn new(outcome: AttemptOutcome, why: impl Into<String>) -> Self {
        Attempted { outcome, why: why.into(), retry_after: None }
    }

    fn failed(error: &dyn std::fmt::Display) -> Self {
        Attempted::new(AttemptOutcome::Failed, error.to_string())
    }

    fn late(what: &str, max_time: Duration) -> Self {
        Attempted::new(AttemptOutcome::TimedOut, format!("no {what} within {} ms", max_time.as_millis()))
    }
}

/// The signature of a body.
pub(super) fn signature(secret: &[u8], body: &[u8]) -> String {
    // HMAC accepts keys of any length; a wrong signature would be noticed by every receiver.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
    mac.update(body);
    let digest = mac.finalize().into_bytes();
    format!("sha256={}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Posts an event, over the `kept` connection if the receiver still has it. Connecting, the TLS handshake, and the head
/// of the response may take `max_time` each.
pub(super) async fn post(
    kept: &mut Option<ReceiverConnection>,
    hook: &Webhook,
    tls: &Arc<ClientConfig>,
    message: &Message,
    delivery: &str,
    max_time: Duration,
) -> Attempted {
    let request = match request(hook, message, delivery) {
        Ok(request) => request,
        Err(error) => return Attempted::failed(&error),
    };
    if let Some(connection) = kept.take() {
        match connection.exchange(request.clone(), max_time).await {
            Ok((attempted, rest)) => {
                *kept = rest;
                return attempted;
            }
            // Receivers close idle connections at any time. Whether this one has read the event is not known: it may
            // get it twice.
            Err(error) => tracing::debug!("webhook {}: kept connection was closed: {error}", hook.name),
        }
    }
    let connection = match open(hook, tls, max_time).await {
        Ok(connection) => connection,
        Err(attempted) => return attempted,
    };
    match connection.exchange(request, max_time).await {
        Ok((attempted, rest)) => {
            *kept = rest;
            attempted
        }
        Err(error) => Attempted::failed(&with_cause(&error)),
    }
}

/// Connects to the receiver.
async fn open(
    hook: &Webhook,
    tls: &Arc<ClientConfig>,
    max_time: Duration,
) -> Result<ReceiverConnection, Attempted> {
    let stream = match timeout(max_time, connect(hook, max_time)).await {
        Err(_) => return Err(Attempted::late("connection", max_time)),
        Ok(connected) => connected?,
    };
    if !hook.url.is_encrypted {
        return ReceiverConnection::begin(stream).await;
    }
    let name = ServerName::try_from(hook.url.host.clone()).map_err(|error| Attempted::failed(&error))?;
    match timeout(max_time, TlsConnector::from(tls.clone()).connect(name, stream)).await {
        Err(_) => Err(Attempted::late("TLS handshake", max_time)),
        Ok(Err(error)) => Err(Attempted::failed(&tls_failure(&error))),
        Ok(Ok(stream)) => ReceiverConnection::begin(stream).await,
    }
}

/// Why TLS failed, without names: the name in the URL may be a secret, and those in a certificate are text
/// from the receiver.
fn tls_failure(error: &io::Error) -> String {
    use rustls::{CertificateError, Error};
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    match cause {
        Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "certificate is for another host name".to_owned(),
        _ => error.to_string(),
    }
}

fn request(hook: &Webhook, message: &Message, delivery: &str) -> http::Result<Request<Full<Bytes>>> {
    Request::post(&hook.url.target)
        .header(HOST, &hook.url.authority)
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("packrace/", env!("CARGO_PKG_VERSION")))
        .header("x-packrace-hook", &hook.name)
        .header("x-packrace-event", &message.kind)
        .header("x-packrace-event-id", message.seq)
        .header("x-packrace-delivery", delivery)
        .header("x-packrace-signature-256", signature(&hook.secret, &message.body))
        .body(Full::new(message.body.clone()))
}

/// Connects to an address of the host that was checked: the name is not resolved again.
async fn connect(hook: &Webhook, max_time: Duration) -> Result<TcpStream, Attempted> {
    let WebhookUrl { host, port, .. } = &hook.url;
    let found = tokio::net::lookup_host((host.as_str(), *port)).await;
    let found: Vec<SocketAddr> = found.map_err(|error| Attempted::failed(&error))?.collect();
    let (allowed, refused): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|address| may_connect(address.ip(), &hook.allowed));
    match (allowed.as_slice(), refused.first()) {
        ([], Some(address)) => {
            let why =
                format!("address {} is not public; add it to allow-addresses to allow it", address.ip());
            Err(Attempted::new(AttemptOutcome::Refused, why))
        }
        ([], None) => Err(Attempted::failed(&"host has no address")),
        (allowed, _) => first_that_connects(allowed, max_time, TcpStream::connect).await,
    }
}

/// Tries addresses one after the other. Each gets an equal share of the time, so that a silent one does not
/// use up all of it.
pub(super) async fn first_that_connects<S, F>(
    addresses: &[SocketAddr],
    max_time: Duration,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<S, Attempted>
where
    F: Future<Output = io::Result<S>>,
{
    let addresses = addresses.get(..MAX_ADDRESSES).unwrap_or(addresses);
    let share = u32::try_from(addresses.len()).map_or(max_time, |count| max_time / count.max(1));
    let mut last = Attempted::late("connection", max_time);
    for address in addresses {
        let ip = address.ip();
        match timeout(share, connect(*address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = Attempted::failed(&format_args!("{ip}: {error}")),
            Err(_) => last = Attempted::late(&format!("connection to {ip}"), share),
        }
    }
    Err(last)
}

/// An open connection to a receiver. A task reads and writes it until this is dropped.
#[derive(Debug)]
pub(super) struct ReceiverConnection {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
    /// When it is to be closed, if no event comes.
    pub(super) idle_until: Instant,
}

impl ReceiverConnection {
    pub(super) async fn begin<S>(stream: S) -> Result<Self, Attempted>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD_BYTES);
        let begun = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = begun.map_err(|error| Attempted::failed(&with_cause(&error)))?;
        // Its errors are those of the requests.
        let driver = tokio::spawn(async { drop(connection.await) }).abort_handle();
        Ok(ReceiverConnection { sender, driver, idle_until: Instant::now() })
    }

    /// Sends a request and reads the response, of which only the status counts. Its head must arrive within
    /// `max_time`; its body may take longer. Returns the connection if it can be used again; an error if it was
    /// closed without a response.
    pub(super) async fn exchange(
        mut self,
        request: Request<Full<Bytes>>,
        max_time: Duration,
    ) -> Result<(Attempted, Option<Self>), hyper::Error> {
        let answering = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        let answer = match timeout(max_time, answering).await {
            Ok(answer) => answer?,
            Err(_) => return Ok((Attempted::late("answer", max_time), None)),
        };
        let attempted = judge(&answer);
        let is_whole = timeout(MAX_BODY_TIME, discard(answer.into_body())).await.unwrap_or(false);
        self.idle_until = Instant::now() + MAX_IDLE_TIME;
        Ok((attempted, is_whole.then_some(self)))
    }
}

impl Drop for ReceiverConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn judge(answer: &Response<Incoming>) -> Attempted {
    let status = answer.status();
    let retry_after = || asked_delay(answer.headers(), SystemTime::now());
    let outcome = match status {
        status if status.is_success() => AttemptOutcome::Delivered,
        status if status.is_redirection() => AttemptOutcome::Redirected,
        _ => AttemptOutcome::Rejected,
    };
    let why = match outcome {
        AttemptOutcome::Redirected => {
            format!("answered {}; redirects are not followed", status.as_u16())
        }
        _ => format!("answered {}", status.as_u16()),
    };
    let wants_time = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    let retry_after = if wants_time { retry_after() } else { None };
    Attempted { outcome, why, retry_after }
}

/// Reads a body; false if it is longer than that or ends early.
async fn discard(mut body: Incoming) -> bool {
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > MAX_BODY_BYTES {
            return false;
        }
    }
    true
}

fn with_cause(error: &hyper::Error) -> io::Error {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    io::Error::other(format!("{error}{cause}"))
}
