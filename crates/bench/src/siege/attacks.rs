//! Attacks on a server that try to keep others out.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_object::{HashKind, Kind, ObjectId, object_id};
use packrace_testkit::handmade::{HandmadeDelta, HandmadeEntry, HandmadePack};
use packrace_testkit::peer::Script;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::SiegeLimits;

/// Attackers use these addresses; the good client uses 127.0.0.1.
const ADDRESSES: [Ipv4Addr; 4] = [
    Ipv4Addr::new(127, 0, 0, 2),
    Ipv4Addr::new(127, 0, 0, 3),
    Ipv4Addr::new(127, 0, 0, 4),
    Ipv4Addr::new(127, 0, 0, 5),
];

/// How often held connections are checked, and reopened if the server closed them.
const ROUND: Duration = Duration::from_millis(250);

/// How long a flood waits for a response.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that each delta of a bomb expands to, and the number of deltas.
const BOMB_BYTES: u32 = 8 << 20;
const BOMB_DELTAS: usize = 64;

/// Offset of the first entry in a pack.
const FIRST_ENTRY: usize = 12;

/// Counters of attacks.
#[derive(Debug, Default)]
pub struct AttackCounts {
    /// Held connections.
    pub held: AtomicU64,
    /// Pushes that got a response.
    pub pushes: AtomicU64,
    /// Invalid requests that got a response or were cut off.
    pub garbage: AtomicU64,
    /// Responses that are wrong.
    pub wrong: Mutex<Vec<String>>,
}

impl AttackCounts {
    fn is_wrong(&self, answer: String) {
        self.wrong.lock().expect("nobody panics with it").push(answer.chars().take(300).collect());
    }
}

/// The attacked server and its limits.
pub struct Besieged<'a> {
    pub http: SocketAddr,
    pub git: SocketAddr,
    pub limits: &'a SiegeLimits,
    pub is_over: AtomicBool,
    pub counts: AttackCounts,
}

impl Besieged<'_> {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Relaxed)
    }

    /// Holds `connections` connections that stop after a first part; some drip a byte now and then.
    pub fn hold(&self, kind: Hold, connections: usize) {
        let (to, bytes) = kind.beginning(self);
        let mut held: Vec<Option<TcpStream>> = (0..connections).map(|_| None).collect();
        while self.goes_on() {
            for (number, slot) in held.iter_mut().enumerate() {
                if slot.as_mut().is_some_and(|stream| is_open(stream, kind.drips())) {
                    continue;
                }
                *slot = said_from(ADDRESSES[number % ADDRESSES.len()], to, &bytes).ok();
                self.counts.held.fetch_add(u64::from(slot.is_some()), Relaxed);
                if !self.goes_on() {
                    return;
                }
            }
            std::thread::sleep(ROUND);
        }
    }

    /// Pushes in a loop: one commit without a valid pack, and bombs.
    pub fn push(&self, number: usize) {
        let (tiny, bomb) = (tiny_push(), bomb());
        let mut turn = number;
        while self.goes_on() {
            turn += 1;
            let (body, words): (_, &[&str]) = match turn % 4 {
                0 => (&bomb, &["abnormal exit", "503", "429"]),
                _ => (&tiny, &["missing necessary objects", "503", "429"]),
            };
            let head = format!(
                "POST /steady.git/git-receive-pack HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                 Content-Type: application/x-git-receive-pack-request\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let request = [head.as_bytes(), body].concat();
            match answer(ADDRESSES[turn % ADDRESSES.len()], self.http, &request) {
                // Cut off while sending, because others waited; or it had to wait itself.
                answer if answer.is_empty() => {}
                answer if words.iter().any(|words| answer.contains(words)) => {
                    self.counts.pushes.fetch_add(1, Relaxed);
                }
                answer => self.counts.is_wrong(answer),
            }
        }
    }

    /// Sends invalid heads and paths.
    pub fn rubbish(&self) {
        let long = "x".repeat(70_000);
        let many = "X: y\r\n".repeat(2000);
        let zeros = gzipped_zeros(32 << 20);
        let bomb = format!(
            "POST /steady.git/git-upload-pack HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nConnection: close\r\n\
             Content-Type: application/x-git-upload-pack-request\r\nContent-Length: {}\r\n\r\n",
            zeros.len()
        );
        let info =
            "info/refs?service=git-upload-pack HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let requests: Vec<(SocketAddr, Vec<u8>)> = vec![
            (self.http, format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()),
            (self.http, format!("GET / HTTP/1.1\r\n{many}\r\n").into_bytes()),
            (self.http, format!("GET /../../etc/{info}").into_bytes()),
            (self.http, format!("GET /%2e%2e/%00%zz/{info}").into_bytes()),
            (self.http, format!("GET /none.git/{info}").into_bytes()),
            (self.http, vec![0xff; 100_000]),
            (self.http, [bomb.as_bytes(), &zeros].concat()),
            (self.git, vec![0xff; 100_000]),
            (self.git, Script::new().data(b"git-upload-pack /../../etc\0host=x\0").bytes().to_vec()),
            (self.git, Script::new().data(b"git-frobnicate /steady.git\0").bytes().to_vec()),
        ];
        for turn in 0.. {
            if !self.goes_on() {
                return;
            }
            let (to, request) = &requests[turn % requests.len()];
            let answer = answer(ADDRESSES[turn % ADDRESSES.len()], *to, request);
            let is_refusal = answer.is_empty()
                || answer.starts_with("HTTP/1.1 4")
                || answer.starts_with("HTTP/1.1 503")
                || answer.contains("ERR ");
            match is_refusal {
                true => drop(self.counts.garbage.fetch_add(1, Relaxed)),
                false => self.counts.is_wrong(answer),
            }
        }
    }
}

/// How a connection is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Request bodies for an existing and a missing repository: almost complete, then a byte now and then.
    Body,
    BodyForNothing,
    /// The head of a request, byte by byte.
    Head,
    /// An HTTP connection that never sends a byte.
    Http,
    /// A git:// session after the greeting, and one inside a command.
    Session,
    Command,
    /// A push that is never sent.
    Push,
}

/// All kinds.
pub const HELD: [Hold; 7] =
    [Hold::Body, Hold::BodyForNothing, Hold::Head, Hold::Http, Hold::Session, Hold::Command, Hold::Push];

impl Hold {
    fn drips(self) -> Option<u8> {
        match self {
            Hold::Body | Hold::BodyForNothing | Hold::Head => Some(b'0'),
            _ => None,
        }
    }

    fn beginning(self, besieged: &Besieged<'_>) -> (SocketAddr, Vec<u8>) {
        let post = |path: &str, service: &str, bytes: usize| {
            let mut request = format!(
                "POST /{path}/git-{service}-pack HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\
                 Content-Type: application/x-git-{service}-pack-request\r\n\r\n",
                bytes + 4096
            )
            .into_bytes();
            request.resize(request.len() + bytes, b'0');
            (besieged.http, request)
        };
        let hello = Script::new().data(b"git-upload-pack /steady.git\0host=x\0\0version=2\0");
        let most = besieged.limits.request_bytes - 8192;
        match self {
            Hold::Body => post("steady.git", "upload", most),
            Hold::BodyForNothing => post("none.git", "upload", most),
            Hold::Push => post("steady.git", "receive", 0),
            Hold::Head => (besieged.http, b"GET /steady.git HTTP/1.1\r\nX: ".to_vec()),
            Hold::Http => (besieged.http, Vec::new()),
            Hold::Session => (besieged.git, hello.bytes().to_vec()),
            Hold::Command => (besieged.git, hello.raw(b"0014command=fetch").bytes().to_vec()),
        }
    }
}

/// Whether the server still holds it open. Reads its output.
fn is_open(stream: &mut TcpStream, drip: Option<u8>) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(_) => return false,
        }
    }
    drip.is_none_or(|byte| match stream.write(&[byte]) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    })
}

fn connect_from(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::from((from, 0)))?;
    connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

fn said_from(from: Ipv4Addr, to: SocketAddr, bytes: &[u8]) -> std::io::Result<TcpStream> {
    let mut stream = connect_from(from, to)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(bytes)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// The server's whole response; empty if it cuts the connection, or takes too long.
fn answer(from: Ipv4Addr, to: SocketAddr, request: &[u8]) -> String {
    let Ok(mut stream) = connect_from(from, to) else { return String::new() };
    let timeouts = [stream.set_read_timeout(Some(PATIENCE)), stream.set_write_timeout(Some(PATIENCE))];
    if timeouts.iter().any(Result::is_err) {
        return String::new();
    }
    // The request may be refused before all of it is sent.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let mut buffer = [0; 64 << 10];
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match stream.read(&mut buffer) {
            Ok(0) => return String::from_utf8_lossy(&answer).into_owned(),
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
            Err(_) => break,
        }
    }
    String::new()
}

fn push_of(tip: &ObjectId, pack: &HandmadePack) -> Vec<u8> {
    let line = format!("{} {tip} refs/heads/siege\0report-status side-band-64k", "0".repeat(40));
    Script::new().line(&line).flush().raw(&pack.sealed()).bytes().to_vec()
}

fn tiny_push() -> Vec<u8> {
    let mut pack = HandmadePack::default();
    pack.whole(Kind::Blob, b"siege\n");
    push_of(&name(b"nothing"), &pack)
}

/// A few kilobytes that expand to half a gigabyte.
fn bomb() -> Vec<u8> {
    let mut pack = HandmadePack::default();
    let base = vec![0; 1 << 16];
    pack.whole(Kind::Blob, &base);
    for number in 0..BOMB_DELTAS {
        let mut delta = HandmadeDelta::new(1 << 16, u64::from(BOMB_BYTES));
        for _ in 0..BOMB_BYTES >> 16 {
            delta = delta.copy(0, 1 << 16);
        }
        pack.delta(&name(&number.to_be_bytes()), HandmadeEntry::ByDistance(FIRST_ENTRY), delta.bytes());
    }
    push_of(&name(b"bomb"), &pack)
}

fn name(of: &[u8]) -> ObjectId {
    object_id(HashKind::Sha1, Kind::Blob, of).expect("no attack on SHA-1")
}

/// A stream that inflates to `bytes` zeros: zlib's maximum ratio is 1,032.
fn gzipped_zeros(bytes: usize) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![b'0'; bytes]).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}
