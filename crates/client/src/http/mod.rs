//! Smart HTTP (gitprotocol-http), in version 2 of the protocol: one request a connection.
//!
//! hyper reads and takes bodies apart; what it gives is a range of the buffer that it has read into.

use std::io::{self, BufRead, Read};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http::request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use super::connect::connect;
use super::{Error, Exchange, READ_BYTES, Timeouts, Url};

/// How many fields the head of an answer may have.
const MAX_FIELDS: usize = 100;

/// How often the first request is sent on.
const MAX_REDIRECTS: usize = 5;

const REFS_PATH: &str = "/info/refs?service=git-upload-pack";

/// A repository behind an HTTP server.
pub struct HttpExchange<'a> {
    url: Url,
    connector: Connector,
    say: &'a mut dyn FnMut(&str),
    body: Incoming,
    /// What of the body was received and not consumed.
    current: Bytes,
}

/// Asks for the refs of a repository. `say` is told what `git clone -v` says, `warn` where a redirect leads.
pub fn open_http<'a>(
    url: &Url,
    agent: &str,
    timeouts: Timeouts,
    warn: &mut dyn FnMut(&str),
    say: &'a mut dyn FnMut(&str),
) -> Result<HttpExchange<'a>, Error> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::Connection)?;
    let connector = Connector { runtime, agent: agent.to_owned(), timeouts };
    let mut url = url.clone();
    let asked = url.base();
    for _ in 0..=MAX_REDIRECTS {
        let get = Request::get(url.target(REFS_PATH)).header(header::PRAGMA, "no-cache");
        let (head, body) = connector.ask(&url, get.header(header::ACCEPT, "*/*"), Bytes::new())?;
        match head.status {
            200 => {
                head.check("advertisement", &url)?;
                if url.base() != asked {
                    warn(&format!("redirecting to {}/", url.base()));
                }
                return Ok(HttpExchange { url, connector, say, body, current: Bytes::new() });
            }
            301 | 302 | 303 | 307 | 308 => url = redirected(&url, head.location.as_deref())?,
            _ => return Err(head.refused(&url)),
        }
    }
    Err(Error::Refused(format!("unable to access '{asked}/': Maximum ({MAX_REDIRECTS}) redirects followed")))
}

/// Where a redirect leads: to the refs of a repository on the same host.
fn redirected(url: &Url, location: Option<&str>) -> Result<Url, Error> {
    let asked = format!("{}{REFS_PATH}", url.base());
    let location = location.unwrap_or_default();
    let full = if location.starts_with('/') && !location.starts_with("//") {
        format!("http://{}{location}", url.authority)
    } else {
        location.to_owned()
    };
    let refused = || {
        let text =
            format!("unable to update url base from redirection:\n  asked for: {asked}\n   redirect: ");
        Error::Refused(text + &printable(&full))
    };
    let base = full.strip_suffix(REFS_PATH).ok_or_else(refused)?;
    let to = Url::parse(base).map_err(|_| refused())?;
    if (&to.host, to.port, to.scheme) != (&url.host, url.port, url.scheme) {
        let text =
            format!("unable to access '{}/': redirects to another host are not followed: ", url.base());
        return Err(Error::Refused(text + &printable(&full)));
    }
    Ok(to)
}

impl Read for HttpExchange<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for HttpExchange<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.current.is_empty() {
            match self.connector.wait(self.body.frame())? {
                None => break,
                // Trailers say nothing that counts.
                Some(frame) => self.current = frame.map_err(broken)?.into_data().unwrap_or_default(),
            }
        }
        Ok(&self.current)
    }

    fn consume(&mut self, amount: usize) {
        self.current.advance(amount);
    }
}

impl Exchange for HttpExchange<'_> {
    fn send(&mut self, body: &[u8]) -> io::Result<()> {
        (self.say)(&format!("POST git-upload-pack ({} bytes)\n", body.len()));
        let post = Request::builder()
            .method(Method::POST)
            .uri(self.url.target("/git-upload-pack"))
            .header(header::CONTENT_TYPE, "application/x-git-upload-pack-request")
            .header(header::ACCEPT, "application/x-git-upload-pack-result");
        let asked = self.connector.ask(&self.url, post, Bytes::copy_from_slice(body));
        let checked = asked.and_then(|(head, body)| match head.status {
            200 => head.check("result", &self.url).map(|()| body),
            _ => Err(head.refused(&self.url)),
        });
        self.body = checked.map_err(|error| match error {
            Error::Connection(error) => error,
            other => io::Error::other(other),
        })?;
        self.current = Bytes::new();
        Ok(())
    }
}

/// What requests are sent through. Everything happens on the thread that waits.
struct Connector {
    runtime: Runtime,
    agent: String,
    timeouts: Timeouts,
}

impl Connector {
    /// Sends one request on a connection of its own, and receives the head of the answer.
    fn ask(
        &self,
        url: &Url,
        request: request::Builder,
        body: Bytes,
    ) -> Result<(ResponseHead, Incoming), Error> {
        let request = request
            .header(header::HOST, &url.authority)
            .header(header::USER_AGENT, &self.agent)
            .header(header::CONNECTION, "close")
            .header("Git-Protocol", "version=2")
            .body(Full::new(body))
            .map_err(|error| Error::Url(error.to_string()))?;
        let stream = connect(url, self.timeouts, &mut |_| {})?;
        let answer = self.wait(async {
            stream.set_nonblocking(true)?;
            let stream = TokioIo::new(TcpStream::from_std(stream)?);
            let mut builder = http1::Builder::new();
            builder.read_buf_exact_size(Some(READ_BYTES)).max_headers(MAX_FIELDS);
            let (mut sender, connection) = builder.handshake(stream).await.map_err(broken)?;
            // It goes on whenever somebody waits for more of the answer, which tells what becomes of it.
            tokio::spawn(connection);
            sender.send_request(request).await.map_err(broken)
        });
        let answer = answer.and_then(|answer| answer).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                Error::Refused(format!("unable to access '{}/': the answer is not HTTP", url.base()))
            }
            _ => Error::Connection(error),
        })?;
        let head = ResponseHead::of(&answer);
        Ok((head, answer.into_body()))
    }

    /// Waits, but no longer than a server may be silent.
    fn wait<T>(&self, work: impl Future<Output = T>) -> io::Result<T> {
        let limit: Duration = self.timeouts.silence;
        let done = self.runtime.block_on(async { tokio::time::timeout(limit, work).await });
        done.map_err(|_| io::ErrorKind::TimedOut.into())
    }
}

/// A failure of hyper as one of the connection.
fn broken(error: hyper::Error) -> io::Error {
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

/// What counts of the head of an answer.
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

    /// Whether a body is what was asked for.
    fn check(&self, what: &str, url: &Url) -> Result<(), Error> {
        if self.has_coding {
            let text = format!("unable to access '{}/': the answer is compressed", url.base());
            return Err(Error::Refused(text));
        }
        if self.content_type == format!("application/x-git-upload-pack-{what}") {
            return Ok(());
        }
        // Not a server of git's at all, or one that knows no other way than to hand out its files.
        let found = printable(&self.content_type);
        Err(Error::Refused(format!("{}/ is not a smart git server: it answers with '{found}'", url.base())))
    }

    fn refused(&self, url: &Url) -> Error {
        let base = url.base();
        Error::Refused(match self.status {
            404 | 410 => format!("repository '{base}/' not found"),
            401 | 407 => format!("Authentication failed for '{base}/': there is no way to give a password"),
            status => format!("unable to access '{base}/': The requested URL returned error: {status}"),
        })
    }
}

/// Words of a server, without what a terminal would take for an order.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
