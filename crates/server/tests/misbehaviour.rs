//! Clients that do not behave, while others are served: nobody is disturbed, and nothing of them stays.
//!
//! What stays is counted in descriptors and threads of this process, server and clients together; so there is one test.

mod folder;
mod served;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use folder::{Served, until};
use packrace_os::count::{Op, Role, so_far};
use packrace_server::limits::Limits;
use packrace_testkit::peer::{Feed, Script, http, tcp};
use packrace_testkit::received::{fetch_answer, objects_in_pack};
use packrace_testkit::{Git, Size};

const UPLOAD: &str = "POST /a.git/git-upload-pack HTTP/1.1\r\nHost: localhost\r\nGit-Protocol: version=2\r\nContent-Type: application/x-git-upload-pack-request\r\n";
const ADVERTISE: &str = "GET /a.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// How long the server may take to get rid of somebody, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most idle connections that are tried.
const MANY: usize = 10_000;

/// Threads that may come and go: runtime, and those that wait for work.
const SOME_THREADS: usize = 12;

/// What this process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: usize,
}

fn held() -> Held {
    let count = |folder| std::fs::read_dir(folder).unwrap().count();
    // Looking takes one.
    Held { descriptors: count("/proc/self/fd") - 1, threads: count("/proc/self/task") }
}

/// What is held when nobody comes or goes any more.
fn settled() -> Held {
    let mut last = held();
    assert!(until(PATIENCE, || {
        std::thread::sleep(Duration::from_millis(300));
        let now = held();
        std::mem::replace(&mut last, now) == now
    }));
    last
}

/// Waits until no more is held than `before`, but for threads that wait for work for a while.
#[track_caller]
fn check_nothing_stays(before: Held) {
    let is_gone = || {
        let now = held();
        now.descriptors <= before.descriptors && now.threads <= before.threads + SOME_THREADS
    };
    assert!(until(PATIENCE, is_gone), "before {before:?}, now {:?}", held());
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn said(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(bytes).unwrap();
    stream
}

impl Served {
    /// Other clients are served, over both transports.
    #[track_caller]
    fn check_well(&self) {
        let head = "GET /a.git/info/refs?service=git-upload-pack HTTP/1.1";
        assert_eq!(http(self.http, head, b"", Feed::Whole).status, 200);
        let hello = Script::new().data(b"git-upload-pack /a.git\0host=h\0").flush();
        let answer = tcp(self.git, hello.bytes(), Feed::Whole);
        assert!(answer.windows(5).any(|part| part == b" HEAD"), "{}", String::from_utf8_lossy(&answer));
    }

    fn fetch(&self) -> Script {
        Script::new().fetch_v2("sha1", &[&self.tip()], &[])
    }

    /// What asks for everything, over each transport.
    fn clones(&self) -> [(SocketAddr, Vec<u8>); 2] {
        let fetch = self.fetch();
        let git = Script::new().data(b"git-upload-pack /a.git\0host=h\0\0version=2\0").raw(fetch.bytes());
        let body = fetch.bytes();
        let http = format!("{UPLOAD}Content-Length: {}\r\n\r\n", body.len());
        [(self.git, git.bytes().to_vec()), (self.http, [http.as_bytes(), body].concat())]
    }
}

/// A server that is soon tired of clients.
fn impatient() -> Served {
    let limits = Limits {
        request_time: Duration::from_secs(2),
        body_time: Duration::from_secs(2),
        idle_time: Duration::from_secs(2),
        stall_time: Duration::from_secs(2),
        stall_bytes: 256 << 10,
        ..Limits::default()
    };
    Served::new(Size::Medium, limits)
}

#[test]
#[ignore = "slow: every kind of misbehaviour, waited for, in a process of its own"]
fn nobody_is_disturbed_and_nothing_stays() {
    thousands_of_idle_connections();
    let served = impatient();
    served.check_well();
    slow_writers(&served);
    readers_that_stop(&served);
    readers_that_trickle(&served);
    resets(&served);
    half_closed(&served);
    garbage(&served);
    bombs_and_lies(&served);
    let served = Served::new(Size::Medium, Limits::default());
    served.check_well();
    a_repack_meanwhile(&served);
    the_repository_is_deleted(&served);
}

fn thousands_of_idle_connections() {
    let limits = Limits { request_time: Duration::from_secs(3600), ..Limits::default() };
    let served = Served::new(Size::Small, limits);
    served.check_well();
    let before = settled();
    // Both ends are here.
    let descriptors = packrace_os::process::raise_descriptor_limit();
    let many = (descriptors.saturating_sub(1000) / 2).min(MANY);
    assert!(many >= 1000, "{descriptors} descriptors are too few for this test");
    let starts: [(SocketAddr, &[u8]); 6] = [
        (served.http, b""),
        (served.git, b""),
        (served.http, b"GET /a.git/info/re"),
        (served.git, b"0040git-upload-"),
        (served.http, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (served.http, b"PRI * HT"),
    ];
    let idle: Vec<TcpStream> =
        (0..many).map(|number| starts[number % starts.len()]).map(|(to, bytes)| said(to, bytes)).collect();
    // All are accepted, and none has a thread.
    assert!(until(PATIENCE, || held().descriptors >= before.descriptors + 2 * many), "{:?}", held());
    assert!(held().threads <= before.threads + SOME_THREADS, "{:?}", held());
    served.check_well();
    let clone = served.folder.path().join("clone");
    let url = format!("git://{}/a.git", served.git);
    Git::stock().run(served.folder.path(), &["clone", "-q", "--mirror", &url, clone.to_str().unwrap()]);
    drop(idle);
    check_nothing_stays(before);
}

/// Bytes that come one by one, for ever: the connection is closed, and whoever sends them is told or not.
#[track_caller]
fn check_trickle_ends(to: SocketAddr, start: &[u8], then: u8) {
    let mut stream = said(to, start);
    stream.set_nonblocking(true).unwrap();
    let is_closed = until(PATIENCE, || {
        let _ = stream.write_all(&[then]);
        loop {
            match stream.read(&mut [0; 1000]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
            }
        }
    });
    assert!(is_closed, "{}", String::from_utf8_lossy(start));
}

fn slow_writers(served: &Served) {
    let before = settled();
    let long = "Content-Length: 100000\r\n\r\n";
    let push = UPLOAD.replace("upload", "receive");
    let http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    std::thread::scope(|scope| {
        for (to, start, then) in [
            (served.http, &b""[..], b'\n'),
            (served.http, b"GET /", b'x'),
            (served.http, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Y: ", b'x'),
            (served.http, ADVERTISE.as_bytes(), b'\n'),
            (served.http, format!("{UPLOAD}{long}").as_bytes(), b'0'),
            (served.http, format!("{UPLOAD}Content-Encoding: gzip\r\n{long}").as_bytes(), 0x1f),
            (served.http, format!("{push}{long}").as_bytes(), b'0'),
            (served.http, http2, 0),
            (served.http, b"PRI * HTTP/2.0\r\n\r\nS", b'M'),
            (served.git, b"", b'0'),
            (served.git, b"ffe0git-upload-pack /", b'x'),
            (served.git, b"0024git-upload-pack /a.git\0host=aaaa\0fff0", b'x'),
        ] {
            let start = start.to_vec();
            scope.spawn(move || check_trickle_ends(to, &start, then));
        }
        served.check_well();
    });
    check_nothing_stays(before);
}

/// Clients that read so many bytes of a clone, and then nothing.
fn readers_that_stop(served: &Served) {
    let before = settled();
    let mut stopped = Vec::new();
    for (to, request) in served.clones() {
        for bytes in [0, 1, 5, 100, 70_000, 1 << 20] {
            let mut stream = said(to, &request);
            stream.read_exact(&mut vec![0; bytes]).unwrap();
            stopped.push(stream);
        }
    }
    served.check_well();
    let clients = Held { descriptors: before.descriptors + stopped.len(), ..before };
    check_nothing_stays(clients);
    for mut stream in stopped {
        // What was on its way, and then an end.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!rest.ends_with(b"0000") && !rest.ends_with(b"0\r\n\r\n"), "it looks complete");
    }
    check_nothing_stays(before);
}

fn readers_that_trickle(served: &Served) {
    let before = settled();
    let mut streams: Vec<TcpStream> =
        served.clones().into_iter().map(|(to, request)| said(to, &request)).collect();
    let start = Instant::now();
    let clients = before.descriptors + streams.len();
    while held().descriptors > clients {
        assert!(start.elapsed() < PATIENCE, "{:?}", held());
        for stream in &mut streams {
            let _ = stream.read(&mut [0; 100]);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    served.check_well();
    drop(streams);
    check_nothing_stays(before);
}

/// Clients that reset the connection while much is on its way to them.
fn resets(served: &Served) {
    let before = settled();
    for bytes in [0, 10, 100_000, 3 << 20] {
        for (to, request) in served.clones() {
            let mut stream = said(to, &request);
            let mut got = vec![0; bytes];
            stream.read_exact(&mut got).unwrap();
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        }
    }
    served.check_well();
    check_nothing_stays(before);
}

/// Clients that say that they have no more to say, before they have said anything, in the middle, and behind all.
fn half_closed(served: &Served) {
    let before = settled();
    let [(git, git_clone), (http, http_clone)] = served.clones();
    for (to, bytes) in [
        (git, &b""[..]),
        (git, b"00"),
        (git, &git_clone[..20]),
        (git, &git_clone[..git_clone.len() - 4]),
        (http, b""),
        (http, b"GET / HT"),
        (http, &http_clone[..http_clone.len() - 4]),
        (http, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ] {
        let mut stream = said(to, bytes);
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 10_000, "{} bytes", answer.len());
    }
    // Over git://, who has asked for everything gets it.
    let answer = tcp(git, &git_clone, Feed::Whole);
    let pack = fetch_answer(&answer).unwrap().bands.pack;
    assert!(objects_in_pack(Git::stock(), &pack, packrace_object::HashKind::Sha1, None).len() > 100);
    served.check_well();
    check_nothing_stays(before);
}

/// Bytes behind requests that are none, and requests whose answers nobody reads.
fn garbage(served: &Served) {
    let before = settled();
    let rubbish = vec![b'\xff'; 1 << 20];
    for start in ["", ADVERTISE, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\nX: "] {
        let mut stream = connect(served.http);
        let _ = stream.write_all(start.as_bytes()).and_then(|()| stream.write_all(&rubbish));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        // One answer, if any.
        assert!(answer.len() < 1 << 20, "{} bytes", answer.len());
    }
    let many_headers = "X: y\r\n".repeat(200);
    for head in [
        format!("GET / HTTP/1.1\r\n{many_headers}\r\n"),
        format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70_000)),
    ] {
        let mut answer = Vec::new();
        let mut stream = connect(served.http);
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    }
    // Requests without end: they are answered one after the other, until nothing more of the answers is taken.
    let mut greedy = connect(served.http);
    greedy.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let requests = ADVERTISE.repeat(1000);
    let is_cut = until(PATIENCE, || match greedy.write_all(requests.as_bytes()) {
        Ok(()) => false,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    });
    assert!(is_cut, "somebody who reads nothing is served for ever");
    drop(greedy);
    served.check_well();
    check_nothing_stays(before);
}

fn bombs_and_lies(served: &Served) {
    let before = settled();
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![b'0'; 200 << 20]).unwrap();
    let bomb = bomb.finish().unwrap();
    let ls_refs = Script::new().line("command=ls-refs").delim().flush();
    let body = ls_refs.bytes();
    let check = |headers: &str, body: &[u8], expect: &[&str]| {
        let mut stream = connect(served.http);
        let _ = stream.write_all(format!("{UPLOAD}{headers}\r\n\r\n").as_bytes());
        let _ = stream.write_all(body);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        let status = text.strip_prefix("HTTP/1.1 ").map_or("", |rest| &rest[..3]);
        assert!(expect.contains(&status), "{headers}: {text}");
    };
    let length = body.len();
    let head = "POST /a.git/git-upload-pack HTTP/1.1\nContent-Encoding: gzip\n\
                Content-Type: application/x-git-upload-pack-request";
    assert_eq!(http(served.http, head, &bomb, Feed::Whole).status, 413);
    // Less than was said, more, no number, two numbers, another coding as well.
    check(&format!("Content-Length: {}", length + 1), body, &["400", ""]);
    check("Content-Length: 18446744073709551615", body, &["400", "413", "431"]);
    check("Content-Length: 99999999999999999999999", body, &["400", "431"]);
    check("Content-Length: -1", body, &["400"]);
    check(&format!("Content-Length: {length}\r\nContent-Length: 1"), body, &["400"]);
    check("Transfer-Encoding: chunked", b"fffffffffffffffff\r\n", &["400"]);
    check("Transfer-Encoding: chunked", b"7fffffffffffffff\r\nabc", &["400", ""]);
    served.check_well();
    check_nothing_stays(before);
}

/// A clone that has begun ends as if nothing had happened, whatever becomes of the repository.
fn check_clones(served: &Served, meanwhile: impl FnOnce()) {
    let before = settled();
    let repo = served.root().join("a.git");
    let expect = packrace_testkit::reachable_objects(Git::stock(), &repo).len();
    let mut begun: Vec<(TcpStream, Vec<u8>)> = Vec::new();
    for (to, request) in served.clones() {
        // Over HTTP, the connection ends with the answer.
        let request = String::from_utf8(request)
            .unwrap()
            .replace("Host: localhost", "Host: localhost\r\nConnection: close");
        // Over git:// with the last command. Who stops sending later, while the pack is made, has left for the server.
        let request = if to == served.git { request + "0000" } else { request };
        let mut stream = said(to, request.as_bytes());
        let mut got = vec![0; 100_000];
        stream.read_exact(&mut got).unwrap();
        begun.push((stream, got));
    }
    meanwhile();
    for (mut stream, mut got) in begun {
        if got.starts_with(b"HTTP") {
            stream.read_to_end(&mut got).unwrap();
            got = dechunked(&got);
        } else {
            stream.read_to_end(&mut got).unwrap();
        }
        let pack = fetch_answer(&got).unwrap().bands.pack;
        let objects = objects_in_pack(Git::stock(), &pack, packrace_object::HashKind::Sha1, None);
        assert!(objects.len() <= expect && objects.len() > expect / 2, "{} of {expect}", objects.len());
    }
    check_nothing_stays(before);
}

fn dechunked(answer: &[u8]) -> Vec<u8> {
    let find =
        |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).position(|window| window == part).unwrap();
    let mut rest = &answer[find(answer, b"\r\n\r\n") + 4..];
    let mut body = Vec::new();
    loop {
        let end = find(rest, b"\r\n");
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
}

fn a_repack_meanwhile(served: &Served) {
    check_clones(served, || {
        let repo = served.root().join("a.git");
        Git::stock().run(&repo, &["repack", "-adfq", "--depth=5"]);
        served.check_well();
    });
}

fn the_repository_is_deleted(served: &Served) {
    check_clones(served, || {
        std::fs::remove_dir_all(served.root().join("a.git")).unwrap();
        let head = "GET /a.git/info/refs?service=git-upload-pack HTTP/1.1";
        assert_eq!(http(served.http, head, b"", Feed::Whole).status, 404);
    });
    let (reads, writes) = (so_far(Role::Client, Op::Read), so_far(Role::Client, Op::Write));
    assert!(reads.0 > 0 && writes.1 > 1 << 20, "the transports count their calls: {reads:?} {writes:?}");
}
