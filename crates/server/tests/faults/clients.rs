//! A server, and clients that read its answers when they like.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use packrace_os::faults::{Scope, contain};
use packrace_server::settings::Settings;
use packrace_testkit::peer::Script;
use packrace_testkit::received::{Packet, packets};
use tempfile::TempDir;

use super::served;

/// Long enough for anything but a hang.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What stands at the end of a pack that could not be made, in band 3; git's words.
const ABORTING: &[u8] = b"aborting due to possible repository corruption on the remote side.";

/// Where a client comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    Git,
    Http,
}

pub struct Server {
    folder: Arc<TempDir>,
    pub http: SocketAddr,
    pub git: SocketAddr,
}

/// What came of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Got {
    /// The payload of band 1, or for refs the whole answer.
    Whole(Vec<u8>),
    /// An end that a client takes for an error.
    Failed,
}

impl Server {
    pub fn new() -> Self {
        Server::with(|_| {})
    }

    /// With other settings.
    pub fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = packrace_testkit::scratch_dir();
        std::fs::create_dir(folder.path().join("root")).unwrap();
        Server::of(Arc::new(folder), change)
    }

    /// Another one for the same repositories.
    pub fn beside(&self, change: impl FnOnce(&mut Settings)) -> Self {
        Server::of(self.folder.clone(), change)
    }

    fn of(folder: Arc<TempDir>, change: impl FnOnce(&mut Settings)) -> Self {
        contain(Scope::Work).unwrap();
        let mut settings = served::settings(folder.path());
        change(&mut settings);
        let addresses = served::start(&folder.path().join("root"), settings);
        Server { folder, http: addresses[0], git: addresses[1] }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("root").join(name)
    }

    pub fn begin(&self, at: At, name: &str, request: &Script) -> Client {
        let (address, bytes) = match at {
            At::Git => {
                let hello =
                    Script::new().data(format!("git-upload-pack /{name}\0host=h\0\0version=2\0").as_bytes());
                (self.git, hello.raw(request.bytes()).bytes().to_vec())
            }
            At::Http => {
                let body = request.bytes();
                let head = format!(
                    "POST /{name}/git-upload-pack HTTP/1.1\r\nHost: localhost\r\nGit-Protocol: version=2\r\nConnection: close\r\n\
                     Content-Type: application/x-git-upload-pack-request\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                (self.http, [head.as_bytes(), body].concat())
            }
        };
        let mut client = Client::connect(at, address);
        client.stream.write_all(&bytes).unwrap();
        if at == At::Git {
            client.stream.shutdown(Shutdown::Write).unwrap();
        }
        client
    }

    /// A session over git:// that has been told all refs, and asks for more with [`Client::ask`].
    pub fn begin_session(&self, name: &str) -> Client {
        let hello = Script::new().data(format!("git-upload-pack /{name}\0host=h\0\0version=2\0").as_bytes());
        let mut client = Client::connect(At::Git, self.git);
        client.stream.write_all(hello.raw(ls_refs_script().bytes()).bytes()).unwrap();
        for _ in 0..2 {
            while !client.bytes.ends_with(b"0000") {
                client.read(1);
            }
            client.bytes.clear();
        }
        client.has_advertisement = false;
        client
    }

    /// A clone of all that `main` leads to.
    pub fn clone(&self, at: At, name: &str, main: &str) -> Got {
        self.begin(at, name, &clone_script(main)).pack()
    }

    pub fn refs(&self, at: At, name: &str) -> Got {
        self.begin(at, name, &ls_refs_script()).refs()
    }
}

pub fn clone_script(main: &str) -> Script {
    Script::new().fetch_v2("sha1", &[main], &[])
}

fn ls_refs_script() -> Script {
    let script = Script::new().line("command=ls-refs").line("object-format=sha1").delim().line("peel");
    script.line("symrefs").flush()
}

/// A client that reads when it likes.
pub struct Client {
    at: At,
    stream: TcpStream,
    bytes: Vec<u8>,
    /// Whether what comes begins with capabilities.
    has_advertisement: bool,
}

impl Client {
    fn connect(at: At, address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 64 << 10).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { at, stream, bytes: Vec::new(), has_advertisement: at == At::Git }
    }

    /// Asks for more, and then for nothing. A server that has left already hears nothing.
    pub fn ask(&mut self, request: &Script) {
        let _ = self.stream.write_all(request.bytes());
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    pub fn read(&mut self, length: usize) {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        self.bytes.extend(bytes);
    }

    /// Everything that comes, and whether the connection says that this was all.
    fn answer(mut self) -> (Vec<u8>, bool) {
        let is_reset = self.stream.read_to_end(&mut self.bytes).is_err();
        let mut bytes = self.bytes;
        if self.at == At::Git {
            if self.has_advertisement {
                bytes.drain(..flush_of(&bytes));
            }
            return (bytes, !is_reset);
        }
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let is_good = head.starts_with("http/1.1 200");
        let rest = &bytes[end..];
        if !head.contains("transfer-encoding: chunked") {
            return (rest.to_vec(), is_good && !is_reset);
        }
        let (body, is_complete) = unchunked(rest);
        (body, is_good && is_complete)
    }

    /// The pack that came, which is whole only if all says so: the connection, the last packet and no word in band 3.
    pub fn pack(self) -> Got {
        let (body, is_complete) = self.answer();
        let (mut pack, mut error) = (Vec::new(), Vec::new());
        let Ok(found) = packets(&body) else { return Got::Failed };
        for packet in &found {
            match packet {
                Packet::Data([1, data @ ..]) => pack.extend_from_slice(data),
                Packet::Data([3, data @ ..]) => error.extend_from_slice(data),
                _ => {}
            }
        }
        let is_whole =
            is_complete && found.last() == Some(&Packet::Flush) && error.is_empty() && !pack.is_empty();
        if is_whole {
            return Got::Whole(pack);
        }
        assert!(error.is_empty() || error == ABORTING, "{}", String::from_utf8_lossy(&error));
        Got::Failed
    }

    pub fn refs(self) -> Got {
        let (body, is_complete) = self.answer();
        let ends_well = packets(&body).is_ok_and(|found| found.last() == Some(&Packet::Flush));
        if is_complete && ends_well { Got::Whole(body) } else { Got::Failed }
    }
}

/// What lies behind the first flush packet.
fn flush_of(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = bytes.get(at..at + 4).and_then(|head| std::str::from_utf8(head).ok()) {
        match usize::from_str_radix(length, 16) {
            Ok(0) => return at + 4,
            Ok(length) => at += length.max(4),
            Err(_) => break,
        }
    }
    bytes.len()
}

/// A body without its transfer coding, and whether its end came.
fn unchunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|part| part == b"\r\n") else { return (body, false) };
        let length =
            std::str::from_utf8(&rest[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(length) = length else { return (body, false) };
        if length == 0 {
            return (body, true);
        }
        let data = &rest[end + 2..];
        body.extend_from_slice(&data[..length.min(data.len())]);
        if data.len() < length + 2 {
            return (body, false);
        }
        rest = &data[length + 2..];
    }
}
