//! A client that follows a script: over stdio, TCP or HTTP, whole or byte by byte.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How the script is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feed {
    /// In one write.
    Whole,
    /// One write per byte, so that every boundary falls between two reads.
    ByteByByte,
}

/// Time limit for all output of a peer; then the test fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// Bytes to send, written as pkt-lines (gitprotocol-common, "pkt-line Format").
#[derive(Debug, Clone, Default)]
pub struct Script(Vec<u8>);

impl Script {
    /// An empty script.
    pub fn new() -> Self {
        Script::default()
    }

    /// A pkt-line with `text` and a line feed.
    pub fn line(self, text: &str) -> Self {
        self.data(format!("{text}\n").as_bytes())
    }

    /// A pkt-line with these bytes.
    pub fn data(mut self, bytes: &[u8]) -> Self {
        assert!(bytes.len() <= 65_516, "a pkt-line carries no more");
        self.0.extend_from_slice(format!("{:04x}", bytes.len() + 4).as_bytes());
        self.raw(bytes)
    }

    /// Raw bytes, for input outside any protocol.
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// `0000`.
    pub fn flush(self) -> Self {
        self.raw(b"0000")
    }

    /// `0001`.
    pub fn delim(self) -> Self {
        self.raw(b"0001")
    }

    /// A v2 `fetch` of these objects in one round, as clone and fetch send it; the connection may continue.
    pub fn fetch_v2(self, hash: &str, wants: &[&str], haves: &[&str]) -> Self {
        let mut script =
            self.line("command=fetch").line("agent=testkit").line(&format!("object-format={hash}"));
        script = script.delim();
        for argument in ["thin-pack", "no-progress", "include-tag", "ofs-delta"] {
            script = script.line(argument);
        }
        for want in wants {
            script = script.line(&format!("want {want}"));
        }
        for have in haves {
            script = script.line(&format!("have {have}"));
        }
        script.line("done").flush()
    }

    /// The script's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The output of a command.
#[derive(Debug)]
pub struct Reply {
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
    /// Its exit status.
    pub status: ExitStatus,
}

/// Runs `command`, feeds it `script`, closes its input and collects its output. Panics after a time limit.
pub fn stdio(command: &mut Command, script: &[u8], feed: Feed) -> Reply {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    let mut stderr = child.stderr.take().expect("piped");
    std::thread::scope(|scope| {
        // A peer that refuses its input early closes it: only its output matters then.
        scope.spawn(move || drop(send(&mut stdin, script, feed)));
        let stdout = scope.spawn(move || read_all(&mut stdout));
        let stderr = scope.spawn(move || read_all(&mut stderr));
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if start.elapsed() > PATIENCE {
                child.kill().expect("our own child");
                panic!("{command:?} did not end");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let stdout = stdout.join().expect("reading does not panic");
        let stderr = stderr.join().expect("reading does not panic");
        Reply { stdout, stderr: String::from_utf8_lossy(&stderr).into_owned(), status }
    })
}

/// Connects, feeds `script`, closes the sending half and collects the response until the peer closes.
pub fn tcp(address: SocketAddr, script: &[u8], feed: Feed) -> Vec<u8> {
    let mut stream = connect(address);
    let mut sender = stream.try_clone().expect("a socket can be cloned");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // As in `stdio`: an early refusal is a response.
            let _ = send(&mut sender, script, feed);
            let _ = sender.shutdown(Shutdown::Write);
        });
        read_all(&mut stream)
    })
}

/// An HTTP server's response.
#[derive(Debug)]
pub struct HttpReply {
    /// The status code.
    pub status: u16,
    /// The header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without its transfer coding.
    pub body: Vec<u8>,
}

impl HttpReply {
    /// The value of a header; its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Sends one HTTP/1.1 request, whose `head` is the request line and extra header lines, and reads the
/// response. `Host` is the address unless `head` has one. A non-empty body gets a Content-Length unless
/// `head` states its length.
pub fn http(address: SocketAddr, head: &str, body: &[u8], feed: Feed) -> HttpReply {
    let lower = head.to_ascii_lowercase();
    let mut request = format!("{}\r\nConnection: close\r\n", head.trim_end().replace('\n', "\r\n"));
    if !lower.contains("\nhost:") {
        request.push_str(&format!("Host: {address}\r\n"));
    }
    if !body.is_empty() && !lower.contains("content-length:") && !lower.contains("transfer-encoding:") {
        request.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    request.push_str("\r\n");
    let request = [request.as_bytes(), body].concat();
    let mut stream = connect(address);
    let mut sender = stream.try_clone().expect("a socket can be cloned");
    let answer = std::thread::scope(|scope| {
        scope.spawn(move || drop(send(&mut sender, &request, feed)));
        read_all(&mut stream)
    });
    parse_http(&answer)
}

fn connect(address: SocketAddr) -> TcpStream {
    assert!(address.ip().is_loopback(), "tests speak to this machine only");
    let stream = TcpStream::connect(address).unwrap_or_else(|e| panic!("{address}: {e}"));
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    stream.set_nodelay(true).expect("so can this");
    stream
}

fn send(to: &mut impl Write, script: &[u8], feed: Feed) -> std::io::Result<()> {
    match feed {
        Feed::Whole => to.write_all(script),
        Feed::ByteByByte => script.chunks(1).try_for_each(|byte| to.write_all(byte)),
    }
}

/// Everything until the end; a reset also counts as the end.
fn read_all(from: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    match from.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(e) => panic!("after {} bytes: {e}", bytes.len()),
    }
    bytes
}

fn parse_http(answer: &[u8]) -> HttpReply {
    let end = find(answer, b"\r\n\r\n").unwrap_or_else(|| panic!("no header end in {} bytes", answer.len()));
    let head = std::str::from_utf8(&answer[..end]).expect("headers are text");
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status line");
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()))
        .collect();
    let mut reply = HttpReply { status, headers, body: Vec::new() };
    let body = &answer[end + 4..];
    reply.body = match reply.header("transfer-encoding") {
        Some("chunked") => dechunk(body),
        _ => body.to_vec(),
    };
    if let Some(length) = reply.header("content-length") {
        assert_eq!(length.parse(), Ok(reply.body.len()), "the body has the announced length");
    }
    reply
}

/// The payload of a chunked body as far as it arrived; an unfinished one has no last chunk.
fn dechunk(mut body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    while let Some(end) = find(body, b"\r\n") {
        let size =
            std::str::from_utf8(&body[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let size = size.expect("a chunk starts with its size");
        let chunk = &body[end + 2..];
        payload.extend_from_slice(&chunk[..size.min(chunk.len())]);
        if size == 0 || chunk.len() < size + 2 {
            break;
        }
        body = &chunk[size + 2..];
    }
    payload
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_pkt_lines() {
        let script = Script::new().line("a").delim().data(b"bc").flush().raw(b"x");
        assert_eq!(script.bytes(), b"0006a\n00010006bc0000x");
        let fetch = Script::new().fetch_v2("sha1", &["1234"], &[]);
        assert!(fetch.bytes().ends_with(b"000ewant 1234\n0009done\n0000"));
    }

    #[test]
    fn stdio_collects_both_streams() {
        for feed in [Feed::Whole, Feed::ByteByByte] {
            let mut command = Command::new("sh");
            command.args(["-c", "cat; echo oops >&2; exit 3"]);
            let reply = stdio(&mut command, b"hello", feed);
            assert_eq!((reply.stdout.as_slice(), reply.stderr.as_str()), (&b"hello"[..], "oops\n"));
            assert_eq!(reply.status.code(), Some(3));
        }
    }

    #[test]
    fn http_bodies_lose_their_coding() {
        let plain = parse_http(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Y: z\r\n\r\nhi");
        assert_eq!((plain.status, plain.header("x-y"), plain.body.as_slice()), (200, Some("z"), &b"hi"[..]));
        let head = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n";
        let whole = parse_http(&[&head[..], b"3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n"].concat());
        assert_eq!((whole.status, whole.body.as_slice()), (404, &b"abc0123456789"[..]));
        assert_eq!(parse_http(&[&head[..], b"3\r\nabc\r\na\r\n01"].concat()).body, b"abc01");
    }

    #[test]
    fn tcp_reads_until_the_peer_closes() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                let bytes = read_all(&mut stream);
                stream.write_all(&bytes).unwrap();
            }
        });
        for feed in [Feed::Whole, Feed::ByteByByte] {
            assert_eq!(tcp(address, b"echo", feed), b"echo");
        }
        server.join().unwrap();
    }
}
