//! Smart HTTP (gitprotocol-http), in version 2 of the protocol: one request a connection.
//!
//! Bodies stay in the buffer that they were read into, chunks and all: [`BufRead::fill_buf`] gives what lies between their
//! heads.

use std::io::{self, BufRead, BufReader, Read};

use packrace_os::sink;
use packrace_os::source::FdSource;

use super::connect::connect;
use super::{Error, Exchange, READ_BYTES, Timeouts, Url};

/// Longest head of an answer, and how many fields it may have.
const MAX_HEAD_BYTES: u64 = 64 << 10;
const MAX_FIELDS: usize = 100;

/// Longest head of a chunk, extensions included, and longest line behind the last.
const MAX_CHUNK_HEAD_BYTES: u64 = 4 << 10;

/// How often the first request is sent on.
const MAX_REDIRECTS: usize = 5;

const REFS_PATH: &str = "/info/refs?service=git-upload-pack";

/// A repository behind an HTTP server.
pub struct HttpExchange<'a> {
    url: Url,
    agent: String,
    timeouts: Timeouts,
    say: &'a mut dyn FnMut(&str),
    answer: Answer<FdSource>,
}

/// Asks for the refs of a repository. `say` is told what `git clone -v` says, `warn` where a redirect leads.
pub fn open_http<'a>(
    url: &Url,
    agent: &str,
    timeouts: Timeouts,
    warn: &mut dyn FnMut(&str),
    say: &'a mut dyn FnMut(&str),
) -> Result<HttpExchange<'a>, Error> {
    let mut url = url.clone();
    let asked = url.base();
    for _ in 0..=MAX_REDIRECTS {
        let head = format!(
            "GET {}{REFS_PATH} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {agent}\r\nAccept: */*\r\nPragma: no-cache\r\n\
             Git-Protocol: version=2\r\nConnection: close\r\n\r\n",
            url.path.trim_end_matches('/'),
            url.authority
        );
        let (answer, head) = request(&url, head.as_bytes(), b"", timeouts)?;
        match head.status {
            200 => {
                head.check("advertisement", &url)?;
                if url.base() != asked {
                    warn(&format!("redirecting to {}/", url.base()));
                }
                return Ok(HttpExchange { url, agent: agent.to_owned(), timeouts, say, answer });
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
        self.answer.fill()
    }

    fn consume(&mut self, amount: usize) {
        self.answer.consume(amount);
    }
}

impl Exchange for HttpExchange<'_> {
    fn send(&mut self, body: &[u8]) -> io::Result<()> {
        (self.say)(&format!("POST git-upload-pack ({} bytes)\n", body.len()));
        let head = format!(
            "POST {}/git-upload-pack HTTP/1.1\r\nHost: {}\r\nUser-Agent: {}\r\n\
             Content-Type: application/x-git-upload-pack-request\r\nAccept: application/x-git-upload-pack-result\r\n\
             Git-Protocol: version=2\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.url.path.trim_end_matches('/'),
            self.url.authority,
            self.agent,
            body.len()
        );
        let sent = request(&self.url, head.as_bytes(), body, self.timeouts).and_then(|(answer, head)| {
            match head.status {
                200 => head.check("result", &self.url).map(|()| answer),
                _ => Err(head.refused(&self.url)),
            }
        });
        self.answer = sent.map_err(|error| match error {
            Error::Connection(error) => error,
            other => io::Error::other(other),
        })?;
        Ok(())
    }
}

/// Sends one request on a connection of its own, and reads the head of the answer.
fn request(
    url: &Url,
    head: &[u8],
    body: &[u8],
    timeouts: Timeouts,
) -> Result<(Answer<FdSource>, Head), Error> {
    let (source, mut sink) = connect(url, timeouts, &mut |_| {})?;
    // A server that refuses may do so before it has read everything: what it says counts.
    let sent = sink::write_all(&mut sink, &[head, body]);
    match Answer::begin(source) {
        Err(Failure::Io(error)) => Err(Error::Connection(sent.err().unwrap_or(error))),
        Err(Failure::NotHttp) => {
            Err(Error::Refused(format!("unable to access '{}/': the answer is not HTTP", url.base())))
        }
        Ok(answer) => Ok(answer),
    }
}

/// What counts of the head of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Head {
    status: u16,
    content_type: String,
    location: Option<String>,
    has_coding: bool,
}

impl Head {
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

#[derive(Debug)]
enum Failure {
    Io(io::Error),
    NotHttp,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Io(error)
    }
}

/// How much of a body is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    UntilClose,
    /// Bytes of the body.
    Length(u64),
    /// Bytes of the present chunk; at first there is none.
    Chunk {
        rest: u64,
        is_first: bool,
    },
}

/// The body of an answer.
struct Answer<R> {
    reader: BufReader<R>,
    framing: Framing,
}

impl<R: Read> Answer<R> {
    /// Reads the head.
    fn begin(source: R) -> Result<(Self, Head), Failure> {
        let mut reader = BufReader::with_capacity(READ_BYTES, source);
        loop {
            let bytes = read_head(&mut reader)?;
            let (head, framing) = parse_head(&bytes).ok_or(Failure::NotHttp)?;
            // Provisional answers come before the one that counts.
            if !(100..200).contains(&head.status) {
                return Ok((Answer { reader, framing }, head));
            }
        }
    }

    /// What was read of the body and not consumed; empty at its end.
    fn fill(&mut self) -> io::Result<&[u8]> {
        while let Framing::Chunk { rest: 0, is_first } = self.framing {
            self.framing = self.next_chunk(is_first)?;
        }
        let rest = match self.framing {
            Framing::Length(0) => return Ok(&[]),
            Framing::Length(rest) | Framing::Chunk { rest, .. } => Some(rest),
            Framing::UntilClose => None,
        };
        let bytes = self.reader.fill_buf()?;
        match rest {
            Some(_) if bytes.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(rest) => Ok(&bytes[..bytes.len().min(usize::try_from(rest).unwrap_or(usize::MAX))]),
            None => Ok(bytes),
        }
    }

    fn consume(&mut self, amount: usize) {
        match &mut self.framing {
            Framing::Length(rest) | Framing::Chunk { rest, .. } => *rest -= amount as u64,
            Framing::UntilClose => {}
        }
        self.reader.consume(amount);
    }

    /// Reads up to the bytes of the next chunk; of the last one, to the end (RFC 9112, section 7.1).
    fn next_chunk(&mut self, is_first: bool) -> io::Result<Framing> {
        if !is_first && !self.line()?.is_empty() {
            return Err(bad_chunk());
        }
        let line = self.line()?;
        let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let is_hex = !size.is_empty() && size.len() <= 15 && size.iter().all(u8::is_ascii_hexdigit);
        let size = std::str::from_utf8(size).ok().filter(|_| is_hex);
        match size.and_then(|size| u64::from_str_radix(size, 16).ok()) {
            None => Err(bad_chunk()),
            Some(0) => {
                for _ in 0..MAX_FIELDS {
                    if self.line()?.is_empty() {
                        return Ok(Framing::Length(0));
                    }
                }
                Err(bad_chunk())
            }
            Some(rest) => Ok(Framing::Chunk { rest, is_first: false }),
        }
    }

    /// A line without its end.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.reader).take(MAX_CHUNK_HEAD_BYTES).read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\n") {
            Some(line) => Ok(line.strip_suffix(b"\r").unwrap_or(line).to_vec()),
            None if line.len() as u64 == MAX_CHUNK_HEAD_BYTES => Err(bad_chunk()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn bad_chunk() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the chunks of the answer are damaged")
}

/// All lines up to the empty one.
fn read_head(reader: &mut impl BufRead) -> Result<Vec<u8>, Failure> {
    let mut head = Vec::new();
    loop {
        let before = head.len();
        let room = MAX_HEAD_BYTES - before as u64;
        let read = reader.by_ref().take(room).read_until(b'\n', &mut head)?;
        match &head[before..] {
            _ if read == 0 && room > 0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            _ if read == 0 => return Err(Failure::NotHttp),
            b"\r\n" | b"\n" if before > 0 => return Ok(head),
            _ => {}
        }
        // What speaks another protocol may send no line at all.
        if !b"HTTP/1.".starts_with(&head[..head.len().min(7)]) && !head.starts_with(b"HTTP/1.") {
            return Err(Failure::NotHttp);
        }
    }
}

/// What a head says; `None` if it breaks the protocol.
fn parse_head(bytes: &[u8]) -> Option<(Head, Framing)> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let parsed = response.parse(bytes).ok().filter(httparse::Status::is_complete);
    parsed?;
    let mut head = Head { status: response.code?, ..Head::default() };
    let (mut length, mut is_chunked) = (None, false);
    for field in response.headers.iter() {
        let value = std::str::from_utf8(field.value).ok().map(str::trim);
        match field.name.to_ascii_lowercase().as_str() {
            "content-type" => head.content_type = value?.split(';').next()?.trim().to_owned(),
            "location" => head.location = Some(value?.to_owned()),
            "content-encoding" => head.has_coding |= !value?.eq_ignore_ascii_case("identity"),
            "transfer-encoding" if value?.eq_ignore_ascii_case("chunked") && !is_chunked => is_chunked = true,
            // Of what is coded otherwise the end cannot be told.
            "transfer-encoding" => return None,
            "content-length" => {
                let digits = value.filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()))?;
                let told: u64 = digits.parse().ok()?;
                if length.replace(told).is_some_and(|before| before != told) {
                    return None;
                }
            }
            _ => {}
        }
    }
    let framing = match (is_chunked, length) {
        (true, _) => Framing::Chunk { rest: 0, is_first: true },
        (false, Some(length)) => Framing::Length(length),
        (false, None) => Framing::UntilClose,
    };
    Some((head, framing))
}

/// Words of a server, without what a terminal would take for an order.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
