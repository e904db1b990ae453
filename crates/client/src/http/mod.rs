//! Smart HTTP (gitprotocol-http) in protocol version 2: one connection per request.
//!
//! hyper reads and parses bodies; its data frames are ranges of its read buffer.

mod connector;
mod proxy;
mod tls;

use std::fmt;
use std::io::{self, BufRead, Read};

use bytes::{Buf as _, Bytes};
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use self::connector::{Connector, broken};
pub use self::proxy::ProxyOptions;
pub use self::tls::TlsOptions;
use super::{CredentialSource, Error, Scheme, ServerConnection, Timeouts, Url};

/// Maximum number of redirects of the first request.
const MAX_REDIRECTS: usize = 20;

/// Longest error text of a server that is shown.
const MAX_WORDS: usize = 16 << 10;

const REFS_PATH: &str = "/info/refs?service=git-upload-pack";

/// Options for HTTP servers. Plain data; headers and proxies may contain passwords.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The `User-Agent` header.
    pub agent: String,
    /// How long to wait for a server.
    pub timeouts: Timeouts,
    /// Additional headers as `Name: value`. They are not sent after a redirect to another server.
    pub headers: Vec<String>,
    /// Whether the first request follows redirects.
    pub follows_redirects: bool,
    /// Whether to send credentials before the server asks for them.
    pub is_proactive: bool,
    /// The proxies.
    pub proxy: ProxyOptions,
    /// The certificates that `https://` trusts.
    pub tls: TlsOptions,
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("agent", &self.agent)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

impl HttpOptions {
    /// The defaults without configuration.
    pub fn new(agent: &str, timeouts: Timeouts) -> Self {
        HttpOptions {
            agent: agent.to_owned(),
            timeouts,
            headers: Vec::new(),
            follows_redirects: true,
            is_proactive: false,
            proxy: ProxyOptions::default(),
            tls: TlsOptions::default(),
        }
    }
}

/// Receives messages of requests. Text from servers may contain control characters.
pub trait HttpMessages {
    /// A message of `git clone -v`.
    fn verbose(&mut self, text: &str);

    /// A warning: the target of a redirect.
    fn warning(&mut self, text: &str);

    /// A line of a server's error text.
    fn remote(&mut self, line: &str);

    /// Whether [`Self::exchanged`] is to be called.
    fn is_traced(&self) -> bool {
        false
    }

    /// A part of a request or of its response, for a trace.
    fn exchanged(&mut self, _part: HttpPart<'_>) {}
}

/// A part of a request or of its response. Heads contain passwords.
#[derive(Debug, Clone, Copy)]
pub enum HttpPart<'a> {
    /// Host and port that are connected to.
    Connecting(&'a str),
    /// The first line and the fields of a request, each with its line end.
    SentHead(&'a str),
    /// The body of a request.
    SentData(&'a [u8]),
    /// The first line and the fields of a response.
    ReceivedHead(&'a str),
    /// Some of its body.
    ReceivedData(&'a [u8]),
}

/// The head of a message: its first line and its fields.
fn head_text(first: &str, fields: &HeaderMap) -> String {
    let mut text = format!("{first}\r\n");
    for (name, value) in fields {
        text.extend([name.as_str(), ": ", &String::from_utf8_lossy(value.as_bytes()), "\r\n"]);
    }
    text + "\r\n"
}

/// A repository behind an HTTP server.
pub struct HttpConnection<'a> {
    url: Url,
    connector: Connector<'a>,
    body: Incoming,
    /// Received bytes of the body that are not consumed yet.
    current: Bytes,
}

/// Requests the refs of a repository. `source` provides credentials if the server asks for them.
pub fn open_http<'a>(
    url: &Url,
    options: &HttpOptions,
    source: &'a mut dyn CredentialSource,
    messages: &'a mut dyn HttpMessages,
) -> Result<HttpConnection<'a>, Error> {
    let mut connector = Connector::new(url, options, source, messages)?;
    let mut url = url.clone();
    for _ in 0..=MAX_REDIRECTS {
        let target = url.target(REFS_PATH);
        let get = || Request::get(&target).header(header::PRAGMA, "no-cache").header(header::ACCEPT, "*/*");
        let answer = connector.ask(&url, &get, &Bytes::new())?;
        let head = ResponseHead::of(&answer);
        match head.status {
            200 => {
                head.check("advertisement", &url)?;
                let asked = std::mem::replace(&mut connector.shown, url.base());
                if connector.shown != asked {
                    connector.messages.warning(&format!("redirecting to {}/", connector.shown));
                }
                return Ok(HttpConnection {
                    url,
                    connector,
                    body: answer.into_body(),
                    current: Bytes::new(),
                });
            }
            301 | 302 | 303 | 307 | 308 if options.follows_redirects => {
                let to = redirected(&url, head.location.as_deref())?;
                if !to.is_same_server(&url) {
                    connector.forget_server();
                }
                url = to;
            }
            _ => return Err(refused(&mut connector, &head, answer.into_body())),
        }
    }
    let asked = connector.shown;
    Err(Error::Refused(format!("unable to access '{asked}/': Maximum ({MAX_REDIRECTS}) redirects followed")))
}

/// The target of a redirect: it must be the refs of a repository, and never leads from an encrypted
/// connection to a plain one.
fn redirected(url: &Url, location: Option<&str>) -> Result<Url, Error> {
    let asked = format!("{}{REFS_PATH}", url.base());
    let location = location.unwrap_or_default();
    let scheme = url.scheme.as_str();
    let full = match location {
        _ if location.starts_with("//") => format!("{scheme}:{location}"),
        _ if location.starts_with('/') => format!("{scheme}://{}{location}", url.authority),
        _ => location.to_owned(),
    };
    let refused = || {
        let text =
            format!("unable to update url base from redirection:\n  asked for: {asked}\n   redirect: ");
        Error::Refused(text + &printable(&full))
    };
    let base = full.strip_suffix(REFS_PATH).ok_or_else(refused)?;
    let to = Url::parse(base).map_err(|_| refused())?;
    match (url.scheme, to.scheme) {
        (Scheme::Http, Scheme::Http) | (_, Scheme::Https) => Ok(to),
        _ => {
            let text = format!(
                "unable to access '{}/': redirects from https to {} are not followed: ",
                url.base(),
                to.scheme.as_str()
            );
            Err(Error::Refused(text + &printable(&full)))
        }
    }
}

/// The error for a refusal; the server's own text is reported first.
fn refused(connector: &mut Connector<'_>, head: &ResponseHead, body: Incoming) -> Error {
    if head.content_type.eq_ignore_ascii_case("text/plain") && !head.has_coding {
        let words = words(connector, body);
        let words = String::from_utf8_lossy(&words);
        words.trim().lines().for_each(|line| connector.messages.remote(line));
    }
    head.refused(&connector.shown)
}

/// The start of a body, or as much of it as arrived.
fn words(connector: &Connector<'_>, mut body: Incoming) -> Vec<u8> {
    let mut words = Vec::new();
    while words.len() < MAX_WORDS {
        let Ok(Some(Ok(frame))) = connector.wait(body.frame()) else { break };
        words.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    words.truncate(MAX_WORDS);
    words
}

impl Read for HttpConnection<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for HttpConnection<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.current.is_empty() {
            match self.connector.wait(self.body.frame())? {
                None => break,
                // Trailers contain nothing of interest.
                Some(frame) => {
                    self.current = frame.map_err(broken)?.into_data().unwrap_or_default();
                    self.connector.messages.exchanged(HttpPart::ReceivedData(&self.current));
                }
            }
        }
        Ok(&self.current)
    }

    fn consume(&mut self, amount: usize) {
        self.current.advance(amount);
    }
}

impl ServerConnection for HttpConnection<'_> {
    fn send(&mut self, body: &[u8]) -> io::Result<()> {
        let connector = &mut self.connector;
        connector.messages.verbose(&format!("POST git-upload-pack ({} bytes)\n", body.len()));
        let target = self.url.target("/git-upload-pack");
        let post = || {
            Request::builder()
                .method(Method::POST)
                .uri(&target)
                .header(header::CONTENT_TYPE, "application/x-git-upload-pack-request")
                .header(header::ACCEPT, "application/x-git-upload-pack-result")
        };
        let asked = connector.ask(&self.url, &post, &Bytes::copy_from_slice(body));
        let checked = asked.and_then(|answer| {
            let head = ResponseHead::of(&answer);
            match head.status {
                200 => head.check("result", &self.url).map(|()| answer.into_body()),
                _ => Err(refused(connector, &head, answer.into_body())),
            }
        });
        self.body = checked.map_err(|error| match error {
            Error::Connection(error) => error,
            other => io::Error::other(other),
        })?;
        self.current = Bytes::new();
        Ok(())
    }
}

/// The parts of a response head that matter.
#[derive(Debug, Default, PartialEq, Eq)]
struct ResponseHead {
    status: u16,
    content_type: String,
    location: Option<String>,
    has_coding: bool,
}

impl ResponseHead {
    fn of(answer: &Response<Incoming>) -> Self {
        let field = |name| {
            answer
                .headers()
                .get(name)
                .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
        };
        let content_type = field(header::CONTENT_TYPE).unwrap_or_default();
        let coding = field(header::CONTENT_ENCODING);
        ResponseHead {
            status: answer.status().as_u16(),
            content_type: content_type.split(';').next().unwrap_or_default().trim().to_owned(),
            location: field(header::LOCATION),
            has_coding: coding.is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")),
        }
    }

    /// Checks that a body has the requested type.
    fn check(&self, what: &str, url: &Url) -> Result<(), Error> {
        if self.has_coding {
            let text = format!("unable to access '{}/': response is compressed", url.base());
            return Err(Error::Refused(text));
        }
        if self.content_type.eq_ignore_ascii_case(&format!("application/x-git-upload-pack-{what}")) {
            return Ok(());
        }
        // Not a git server, or one that only supports the dumb protocol.
        let found = printable(&self.content_type);
        Err(Error::Refused(format!("{}/ is not a smart git server: it answered with '{found}'", url.base())))
    }

    fn refused(&self, base: &str) -> Error {
        Error::Refused(match self.status {
            404 => format!("repository '{base}/' not found"),
            401 => format!("Authentication failed for '{base}/'"),
            status => format!("unable to access '{base}/': The requested URL returned error: {status}"),
        })
    }
}

/// Text of a server without terminal control characters.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
