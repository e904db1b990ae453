//! One request on a connection of its own: direct or through a proxy, with or without TLS.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, PROXY_AUTHORIZATION, USER_AGENT, WWW_AUTHENTICATE,
};
use http::{HeaderName, HeaderValue, Method, StatusCode, request};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use super::proxy::Proxy;
use super::tls::{TlsClient, handshake_words};
use super::{HttpMessages, HttpOptions, HttpPart, head_text, printable};
use crate::connect::{ConnectFailure, connect};
use crate::{BasicCredentials, CredentialSource, Error, READ_BYTES, Scheme, Url};

/// Maximum number of header fields in a response.
const MAX_FIELDS: usize = 100;

/// Maximum number of attempts with credentials.
const MAX_ATTEMPTS: usize = 4;

/// Sends requests. All work is done on the waiting thread.
pub(super) struct Connector<'a> {
    runtime: Runtime,
    options: HttpOptions,
    tls: Option<TlsClient>,
    source: &'a mut dyn CredentialSource,
    credentials: Option<BasicCredentials>,
    /// The repository's name in messages: the requested URL, until the redirect target is known.
    pub(super) shown: String,
    pub(super) messages: &'a mut dyn HttpMessages,
}

impl<'a> Connector<'a> {
    pub(super) fn new(
        url: &Url,
        options: &HttpOptions,
        source: &'a mut dyn CredentialSource,
        messages: &'a mut dyn HttpMessages,
    ) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::Connection)?;
        Ok(Connector {
            runtime,
            options: options.clone(),
            tls: None,
            source,
            credentials: None,
            shown: url.base(),
            messages,
        })
    }

    /// Forgets credentials and headers, which another server must not get.
    pub(super) fn forget_server(&mut self) {
        self.credentials = None;
        self.options.headers.clear();
    }

    /// Sends a request, with credentials once the server asked for them, and receives the response head.
    pub(super) fn ask(
        &mut self,
        url: &Url,
        request: &dyn Fn() -> request::Builder,
        body: &Bytes,
    ) -> Result<Response<Incoming>, Error> {
        if self.options.is_proactive && self.credentials.is_none() {
            self.credentials = self.source.fill(url, &[])?;
        }
        for _ in 0..MAX_ATTEMPTS {
            let answer = self.ask_once(url, request(), body.clone())?;
            if answer.status() != StatusCode::UNAUTHORIZED {
                if answer.status().is_success() && self.credentials.is_some() {
                    self.source.approve();
                }
                return Ok(answer);
            }
            if self.credentials.is_some() {
                self.source.reject();
            }
            let challenges = answer.headers().get_all(WWW_AUTHENTICATE).iter();
            let challenges: Vec<String> =
                challenges.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect();
            self.credentials = self.source.fill(url, &challenges)?;
            // Never send a password to a server that does not offer Basic authentication.
            if self.credentials.is_none() || !challenges.iter().any(|challenge| offers_basic(challenge)) {
                return Ok(answer);
            }
        }
        Err(Error::Refused(format!("Authentication failed for '{}/'", self.shown)))
    }

    fn ask_once(
        &mut self,
        url: &Url,
        request: request::Builder,
        body: Bytes,
    ) -> Result<Response<Incoming>, Error> {
        let proxy = Proxy::for_url(&self.options.proxy, url).map_err(|why| self.refused(why))?;
        let request = self.request(url, request, proxy.as_ref(), body.clone())?;
        self.trace_request(url, proxy.as_ref(), &request, &body);
        let stream = match &proxy {
            Some(proxy) => self.connect(&proxy.host, proxy.port, "proxy")?,
            None => self.connect(&url.host, url.port, "host")?,
        };
        let tls = match url.scheme {
            Scheme::Https => Some(self.tls()?),
            _ => None,
        };
        let answer = self.wait(async {
            stream.set_nonblocking(true)?;
            let stream = TcpStream::from_std(stream)?;
            match (tls, proxy) {
                (None, _) => send(stream, request).await,
                (Some(tls), None) => send(tls.connect(&url.host, stream).await?, request).await,
                (Some(tls), Some(proxy)) => {
                    let tunnel = tunnel(stream, url, &proxy).await?;
                    send(tls.connect(&url.host, tunnel).await?, request).await
                }
            }
        });
        let answer = answer.and_then(|answer| answer).map_err(|error| self.failed(error, url))?;
        if self.messages.is_traced() {
            let head = head_text(&format!("{:?} {}", answer.version(), answer.status()), answer.headers());
            self.messages.exchanged(HttpPart::ReceivedHead(&head));
        }
        Ok(answer)
    }

    fn trace_request(
        &mut self,
        url: &Url,
        proxy: Option<&Proxy>,
        request: &Request<Full<Bytes>>,
        body: &Bytes,
    ) {
        if !self.messages.is_traced() {
            return;
        }
        let (host, port) = proxy.map_or((&url.host, url.port), |proxy| (&proxy.host, proxy.port));
        let mut fields = request.headers().clone();
        if !body.is_empty() {
            fields.insert(CONTENT_LENGTH, body.len().into());
        }
        let first = format!("{} {} {:?}", request.method(), request.uri(), request.version());
        self.messages.exchanged(HttpPart::Connecting(&format!("{host}:{port}")));
        self.messages.exchanged(HttpPart::SentHead(&head_text(&first, &fields)));
        if !body.is_empty() {
            self.messages.exchanged(HttpPart::SentData(body));
        }
    }

    fn request(
        &self,
        url: &Url,
        mut request: request::Builder,
        proxy: Option<&Proxy>,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Error> {
        request = request
            .header(HOST, &url.authority)
            .header(USER_AGENT, &self.options.agent)
            .header(CONNECTION, "close")
            .header("Git-Protocol", "version=2");
        for line in &self.options.headers {
            let refused = || Error::Url(format!("malformed header in http.extraHeader: '{}'", name_of(line)));
            let (name, value) = line.split_once(':').ok_or_else(refused)?;
            let name = HeaderName::try_from(name.trim()).map_err(|_| refused())?;
            let mut value = HeaderValue::try_from(value.trim()).map_err(|_| refused())?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        if let Some(credentials) = &self.credentials {
            request = request.header(AUTHORIZATION, credentials.header());
        }
        let mut request = request.body(Full::new(body)).map_err(|error| Error::Url(error.to_string()))?;
        if let (Some(proxy), Scheme::Http) = (proxy, url.scheme) {
            // A proxy gets the whole URL (RFC 9112, 3.2.2).
            let target = format!("http://{}{}", url.authority, request.uri());
            *request.uri_mut() =
                target.try_into().map_err(|_| Error::Url(format!("bad URL: {}", url.base())))?;
            if let Some(value) = &proxy.authorization {
                request.headers_mut().insert(PROXY_AUTHORIZATION, value.clone());
            }
        }
        Ok(request)
    }

    fn connect(&self, host: &str, port: u16, what: &str) -> Result<std::net::TcpStream, Error> {
        connect(host, port, self.options.timeouts, &mut |_| {}).map_err(|why| {
            let shown = &self.shown;
            Error::Unreachable(match why {
                ConnectFailure::NoAddress(_) => {
                    format!("unable to access '{shown}/': Could not resolve {what}: {host}")
                }
                ConnectFailure::Refused { took, .. } => {
                    let took = took.as_millis();
                    let to = if what == "proxy" { "proxy " } else { "" };
                    format!(
                        "unable to access '{shown}/': Failed to connect to {to}{host} port {port} after {took} ms: \
                         Couldn't connect to server"
                    )
                }
            })
        })
    }

    fn tls(&mut self) -> Result<TlsClient, Error> {
        match &self.tls {
            Some(tls) => Ok(tls.clone()),
            None => {
                let tls = TlsClient::new(&self.options.tls).map_err(|error| self.refused(error))?;
                Ok(self.tls.insert(tls).clone())
            }
        }
    }

    fn refused(&self, why: impl std::fmt::Display) -> Error {
        Error::Refused(format!("unable to access '{}/': {why}", self.shown))
    }

    /// A failure before the response head arrived.
    fn failed(&self, error: io::Error, url: &Url) -> Error {
        if let Some(words) = handshake_words(&error, &url.host) {
            return self.refused(words);
        }
        let refusal = error.get_ref().and_then(|inner| inner.downcast_ref::<ProxyRefusal>());
        match (refusal, error.kind()) {
            (Some(refusal), _) => self.refused(refusal),
            (None, io::ErrorKind::InvalidData) => self.refused("response is not HTTP"),
            (None, _) => Error::Connection(error),
        }
    }

    /// Waits at most as long as a server may be silent.
    pub(super) fn wait<T>(&self, work: impl Future<Output = T>) -> io::Result<T> {
        let limit: Duration = self.options.timeouts.silence;
        let done = self.runtime.block_on(async { tokio::time::timeout(limit, work).await });
        done.map_err(|_| io::ErrorKind::TimedOut.into())
    }
}

/// Whether a `WWW-Authenticate` value, which may hold several challenges, offers Basic authentication.
pub(super) fn offers_basic(challenges: &str) -> bool {
    let mut first_words = challenges.split(',').filter_map(|part| part.split_whitespace().next());
    first_words.any(|word| word.eq_ignore_ascii_case("basic"))
}

/// The name of a header, without its possibly secret value.
fn name_of(line: &str) -> String {
    printable(line.split(':').next().unwrap_or_default())
}

async fn send<S>(stream: S, request: Request<Full<Bytes>>) -> io::Result<Response<Incoming>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.read_buf_exact_size(Some(READ_BYTES)).max_headers(MAX_FIELDS);
    // Fields that go on in the next line are obsolete (RFC 9112, 5.2); git takes them.
    builder.allow_obsolete_multiline_headers_in_responses(true);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // It runs while somebody waits for the response, whose reader sees its errors.
    tokio::spawn(connection.with_upgrades());
    sender.send_request(request).await.map_err(broken)
}

/// A tunnel through a proxy to the server (RFC 9110, 9.3.6).
async fn tunnel(
    stream: TcpStream,
    url: &Url,
    proxy: &Proxy,
) -> io::Result<TokioIo<hyper::upgrade::Upgraded>> {
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    let target = format!("{host}:{}", url.port);
    let mut request = Request::builder().method(Method::CONNECT).uri(&target).header(HOST, &target);
    if let Some(value) = &proxy.authorization {
        request = request.header(PROXY_AUTHORIZATION, value);
    }
    let request = request.body(Full::new(Bytes::new())).map_err(io::Error::other)?;
    let answer = send(stream, request).await?;
    if !answer.status().is_success() {
        return Err(io::Error::other(ProxyRefusal(answer.status())));
    }
    Ok(TokioIo::new(hyper::upgrade::on(answer).await.map_err(broken)?))
}

/// A proxy refused the tunnel.
#[derive(Debug, thiserror::Error)]
#[error("CONNECT tunnel failed, response {}", .0.as_u16())]
struct ProxyRefusal(StatusCode);

/// A hyper error as a connection error.
pub(super) fn broken(error: hyper::Error) -> io::Error {
    if error.is_incomplete_message() {
        return io::ErrorKind::UnexpectedEof.into();
    }
    let kind = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
    let kind = match kind {
        Some(source) => source.kind(),
        None if error.is_parse() => io::ErrorKind::InvalidData,
        None => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
