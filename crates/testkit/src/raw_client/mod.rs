//! A client that only reads a pack from the wire: cheap enough to run hundreds of them beside one server.
//!
//! It costs one copy from the kernel, in large reads into a reused buffer, and one CRC-32 pass over the pack,
//! at about ten gigabytes a second. Side-band and transfer coding are parsed in place.

mod answer;
mod http;

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use packrace_object::{HashKind, TrailerHasher};

use crate::peer::Script;
use answer::Answer;
use http::Body;

/// Read size of a client.
pub const READ_BYTES: usize = 128 << 10;

/// Sufficient stack size for a client thread.
pub const STACK_BYTES: usize = 64 << 10;

/// Longest pack trailer.
const MAX_TRAILER_BYTES: usize = 32;

/// The protocol to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// git:// (gitprotocol-pack, "Git Transport").
    Git,
    /// A single request of smart HTTP (gitprotocol-http, "Smart Service git-upload-pack").
    Http,
}

/// A repository on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The protocol.
    pub transport: Transport,
    /// The server's address.
    pub address: SocketAddr,
    /// The repository's path on the server, from `/`.
    pub path: String,
    /// How long the server may be silent.
    pub patience: Duration,
}

/// What to do with the pack besides a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// Nothing else.
    Checksum,
    /// Compare the trailer with the hash of the bytes before it.
    Hash(HashKind),
    /// Keep the bytes.
    Keep,
}

/// A completely received pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedPack {
    /// Its number of objects, as it says.
    pub objects: u32,
    /// Its size.
    pub bytes: u64,
    /// CRC-32 of all of it.
    pub crc: u32,
    /// Its bytes, if they were kept.
    pub kept: Vec<u8>,
}

/// A received response and its times.
#[derive(Debug, Clone)]
pub struct Received {
    /// The pack.
    pub pack: ReceivedPack,
    /// All bytes read.
    pub wire_bytes: u64,
    /// From before the connection to the first byte of the pack: includes the time in the server's queue.
    pub first_byte: Duration,
    /// From before the connection to the last packet.
    pub whole: Duration,
    /// The start of band 2.
    pub progress: Vec<u8>,
    /// Empty packets of band 1.
    pub keepalives: u64,
}

/// Why no complete pack was received.
#[derive(Debug)]
pub enum Failure {
    /// The connection ended before any byte: the system dropped it from a full queue, or the server is full.
    Dropped,
    /// The server is full (HTTP 503).
    Busy,
    /// The server refused: `ERR`, band 3 or a status.
    Refused(String),
    /// The connection ended after this many bytes.
    Cut(u64, Option<io::Error>),
    /// The response is invalid.
    Broken(String),
}

impl Failure {
    /// Whether a patient client would try again.
    pub fn is_for_now(&self) -> bool {
        matches!(self, Failure::Dropped | Failure::Busy)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Dropped => f.write_str("the server dropped the connection"),
            Failure::Busy => f.write_str("the server has no place"),
            Failure::Refused(text) => write!(f, "refused: {text}"),
            Failure::Cut(bytes, None) => write!(f, "the connection ended after {bytes} bytes"),
            Failure::Cut(bytes, Some(error)) => write!(f, "after {bytes} bytes: {error}"),
            Failure::Broken(why) => write!(f, "no answer: {why}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        io::Error::other(failure)
    }
}

impl Target {
    /// The first bytes of a git:// connection.
    pub fn opening(&self) -> Vec<u8> {
        let service = format!("git-upload-pack {}\0host={}\0\0version=2\0", self.path, self.address);
        Script::new().data(service.as_bytes()).bytes().to_vec()
    }

    /// Everything the client sends; `fetch` is one v2 command with its flush.
    pub fn request(&self, fetch: &[u8]) -> Vec<u8> {
        match self.transport {
            Transport::Git => Script::new().raw(&self.opening()).raw(fetch).flush().bytes().to_vec(),
            Transport::Http => {
                let head = format!(
                    "POST {}/git-upload-pack HTTP/1.1\r\nHost: {}\r\nGit-Protocol: version=2\r\n\
                     Content-Type: application/x-git-upload-pack-request\r\nContent-Length: {}\r\n\
                     Connection: close\r\n\r\n",
                    self.path,
                    self.address,
                    fetch.len()
                );
                [head.as_bytes(), fetch].concat()
            }
        }
    }

    /// Connects, with the time limit for reads and writes.
    pub fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(self.patience))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Sends a request of [`Target::request`] and reads to the end.
    pub fn fetch(&self, request: &[u8], take: Take) -> Result<Received, Failure> {
        self.fetch_watched(request, take, |_| {})
    }

    /// As [`Target::fetch`], but calls `watch` after each read with the pack bytes so far. Nothing is read
    /// while `watch` runs.
    pub fn fetch_watched(
        &self,
        request: &[u8],
        take: Take,
        mut watch: impl FnMut(u64),
    ) -> Result<Received, Failure> {
        let start = Instant::now();
        let mut stream = self.connect().map_err(|error| ended(0, Some(error)))?;
        stream.write_all(request).map_err(|error| ended(0, Some(error)))?;
        read_watched(&mut stream, self.transport, take, start, &mut watch)
    }

    /// As [`Target::fetch`], but retries until `deadline` while the server drops the connection or is full.
    /// Also returns the number of failed tries; times count from the first try.
    pub fn fetch_patiently(
        &self,
        request: &[u8],
        take: Take,
        deadline: Instant,
    ) -> Result<(Received, usize), Failure> {
        let start = Instant::now();
        for tries in 0.. {
            let before = start.elapsed();
            match self.fetch(request, take) {
                Ok(mut received) => {
                    received.first_byte += before;
                    received.whole += before;
                    return Ok((received, tries));
                }
                Err(failure) if failure.is_for_now() && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(failure) => return Err(failure),
            }
        }
        unreachable!("the tries are not counted out")
    }
}

/// Reads a response over another connection, whose setup began at `start`. SSH connections are read like
/// git://.
pub fn read_answer(
    stream: &mut impl Read,
    transport: Transport,
    take: Take,
    start: Instant,
) -> Result<Received, Failure> {
    read_watched(stream, transport, take, start, &mut |_| {})
}

fn read_watched(
    stream: &mut impl Read,
    transport: Transport,
    take: Take,
    start: Instant,
    watch: &mut impl FnMut(u64),
) -> Result<Received, Failure> {
    let mut reading = Reading::new(transport, take, start);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return reading.end(None),
            Ok(length) => reading.push(&buffer[..length])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return reading.end(Some(error)),
        }
        watch(reading.pack.bytes);
    }
}

/// A response as far as it arrived.
struct Reading {
    body: Option<Body>,
    answer: Answer,
    pack: PackBytes,
    start: Instant,
    wire_bytes: u64,
    whole: Option<Duration>,
}

impl Reading {
    fn new(transport: Transport, take: Take, start: Instant) -> Self {
        Reading {
            body: (transport == Transport::Http).then(Body::default),
            answer: Answer::new(transport == Transport::Git),
            pack: PackBytes::new(take, start),
            start,
            wire_bytes: 0,
            whole: None,
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.wire_bytes += bytes.len() as u64;
        let (answer, pack) = (&mut self.answer, &mut self.pack);
        let mut take = |bytes: &[u8]| answer.push(bytes, &mut |bytes| pack.push(bytes));
        match &mut self.body {
            Some(body) => body.push(bytes, &mut take)?,
            None => take(bytes)?,
        }
        if self.whole.is_none() && self.answer.is_whole() {
            self.whole = Some(self.start.elapsed());
        }
        Ok(())
    }

    fn end(self, error: Option<io::Error>) -> Result<Received, Failure> {
        if let Some(body) = &self.body {
            body.end()?;
        }
        self.answer.refusal()?;
        let Some(whole) = self.whole.filter(|_| error.is_none()) else {
            return Err(ended(self.wire_bytes, error));
        };
        let first_byte = self.pack.first_byte;
        Ok(Received {
            pack: self.pack.end().map_err(|why| Failure::Broken(why.to_string()))?,
            wire_bytes: self.wire_bytes,
            first_byte: first_byte.unwrap_or(whole),
            whole,
            progress: self.answer.progress,
            keepalives: self.answer.keepalives,
        })
    }
}

/// The error for a connection that ended before the response.
fn ended(wire_bytes: u64, error: Option<io::Error>) -> Failure {
    let is_gone = error
        .as_ref()
        .is_none_or(|error| matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
    if wire_bytes == 0 && is_gone { Failure::Dropped } else { Failure::Cut(wire_bytes, error) }
}

/// The bytes of band 1.
struct PackBytes {
    take: Take,
    start: Instant,
    first_byte: Option<Duration>,
    bytes: u64,
    crc: crc32fast::Hasher,
    head: Vec<u8>,
    /// The last bytes, which may be the trailer and are not hashed yet.
    tail: Vec<u8>,
    hasher: Option<TrailerHasher>,
    kept: Vec<u8>,
}

impl PackBytes {
    fn new(take: Take, start: Instant) -> Self {
        let hasher = match take {
            Take::Hash(hash) => Some(TrailerHasher::new(hash)),
            Take::Checksum | Take::Keep => None,
        };
        PackBytes {
            take,
            start,
            first_byte: None,
            bytes: 0,
            crc: crc32fast::Hasher::new(),
            head: Vec::new(),
            tail: Vec::with_capacity(2 * MAX_TRAILER_BYTES),
            hasher,
            kept: Vec::new(),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.first_byte.is_none() {
            self.first_byte = Some(self.start.elapsed());
        }
        self.bytes += bytes.len() as u64;
        self.crc.update(bytes);
        let missing = 12 - self.head.len();
        self.head.extend_from_slice(&bytes[..missing.min(bytes.len())]);
        match (self.take, &mut self.hasher) {
            (Take::Keep, _) => self.kept.extend_from_slice(bytes),
            (Take::Hash(hash), Some(hasher)) => hash_but_trailer(hash, hasher, &mut self.tail, bytes),
            _ => {}
        }
    }

    /// The whole pack, if it is one (gitformat-pack, "pack-*.pack files have the following format").
    fn end(mut self) -> Result<ReceivedPack, &'static str> {
        let Some(&[b'P', b'A', b'C', b'K', _, _, _, _, a, b, c, d]) = self.head.first_chunk() else {
            return Err("no pack");
        };
        let objects = u32::from_be_bytes([a, b, c, d]);
        if self.hasher.take().is_some_and(|hasher| hasher.finish().as_bytes() != self.tail) {
            return Err("the trailer of the pack is wrong");
        }
        Ok(ReceivedPack { objects, bytes: self.bytes, crc: self.crc.finalize(), kept: self.kept })
    }
}

/// Hashes all bytes except a possible trailer, which stays in `tail`.
fn hash_but_trailer(hash: HashKind, hasher: &mut TrailerHasher, tail: &mut Vec<u8>, bytes: &[u8]) {
    let trailer = hash.len_in_bytes();
    let keep_of_new = trailer.min(bytes.len());
    let keep_of_old = trailer - keep_of_new;
    let surplus = tail.len().saturating_sub(keep_of_old);
    hasher.update(&tail[..surplus]);
    tail.drain(..surplus);
    let (hashed, kept) = bytes.split_at(bytes.len() - keep_of_new);
    hasher.update(hashed);
    tail.extend_from_slice(kept);
}

#[cfg(test)]
mod tests;
