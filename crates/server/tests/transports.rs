//! The transports over loopback: what clients get who do not behave, and that stock git gets all it asks for.

mod folder;
mod served;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use folder::{Served, until};
use packrace_server::limits::Limits;
use packrace_testkit::peer::{Feed, HttpReply, Script, http, tcp};
use packrace_testkit::{Git, RepoBuilder, Size, reachable_objects};

/// Long enough for anything but a hang.
const PATIENCE: Duration = Duration::from_secs(60);

const REQUEST: &str = "Content-Type: application/x-git-upload-pack-request";
const MAX_REQUEST_BYTES: usize = 64 << 10;
const DENIED: &str = "ERR access denied or repository not exported: ";

/// `a.git` of this size, with permits for this many connections and requests.
fn served(size: Size, permits: usize) -> Served {
    let limits = Limits {
        max_connections: permits,
        max_requests: permits,
        max_request_bytes: MAX_REQUEST_BYTES,
        ..Limits::default()
    };
    Served::new(size, limits)
}

impl Served {
    #[track_caller]
    fn check(&self, head: &str, body: &[u8], expect: u16) -> HttpReply {
        let reply = http(self.http, head, body, Feed::Whole);
        assert_eq!(reply.status, expect, "{head}: {}", String::from_utf8_lossy(&reply.body));
        assert_eq!(reply.header("expires"), Some("Fri, 01 Jan 1980 00:00:00 GMT"), "{head}");
        assert_eq!(reply.header("pragma"), Some("no-cache"), "{head}");
        assert_eq!(reply.header("cache-control"), Some("no-cache, max-age=0, must-revalidate"), "{head}");
        reply
    }

    fn git_request(&self, request: &[u8]) -> String {
        let script = Script::new().data(request);
        String::from_utf8_lossy(&tcp(self.git, script.bytes(), Feed::Whole)).into_owned()
    }
}

fn ls_refs() -> Vec<u8> {
    Script::new().line("command=ls-refs").delim().line("ref-prefix HEAD").flush().bytes().to_vec()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn http_statuses_and_types() {
    let served = served(Size::Tiny, 16);
    let advertised = "GET /a.git/info/refs?service=git-upload-pack HTTP/1.1";
    let v0 = served.check(advertised, b"", 200);
    assert_eq!(v0.header("content-type"), Some("application/x-git-upload-pack-advertisement"));
    assert!(v0.body.starts_with(b"001e# service=git-upload-pack\n0000"));
    let v2 = served.check(&format!("{advertised}\nGit-Protocol: version=2"), b"", 200);
    assert!(v2.body.starts_with(b"000eversion 2\n"));
    let v1 = served.check(&format!("{advertised}\nGit-Protocol: x=y:version=1"), b"", 200);
    assert!(v1.body.starts_with(b"001e# service=git-upload-pack\n0000000eversion 1\n"));
    let encoded = served.check("GET /a.git/info/refs?service=git%2Dupload%2Dpack HTTP/1.1", b"", 200);
    assert_eq!(encoded.body, v0.body);
    let head = served.check("HEAD /a/info/refs?service=git-upload-pack HTTP/1.1", b"", 200);
    assert!(head.body.is_empty());
    assert_eq!(head.header("content-type"), Some("application/x-git-upload-pack-advertisement"));

    for (head, status) in [
        ("GET / HTTP/1.1", 404),
        ("GET /b.git/info/refs?service=git-upload-pack HTTP/1.1", 404),
        ("GET /a.git/config HTTP/1.1", 404),
        ("GET /a.git/config/info/refs?service=git-upload-pack HTTP/1.1", 404),
        ("GET /a.git/config/x/info/refs?service=git-upload-pack HTTP/1.1", 404),
        ("GET /info/refs?service=git-upload-pack HTTP/1.1", 404),
        ("GET /a.git/info/refs HTTP/1.1", 403),
        ("GET /a.git/HEAD HTTP/1.1", 403),
        ("GET /a.git/info/refs?service=git-receive-pack HTTP/1.1", 403),
        ("GET /a.git/info/refs?service=git-x HTTP/1.1", 403),
        ("POST /a.git/git-receive-pack HTTP/1.1", 403),
    ] {
        served.check(head, b"", status);
    }
    let post = served.check("POST /a.git/info/refs?service=git-upload-pack HTTP/1.1", b"", 405);
    assert_eq!(post.header("allow"), Some("GET, HEAD"));
    let get = served.check("GET /a.git/git-upload-pack HTTP/1.1", b"", 405);
    assert_eq!(get.header("allow"), Some("POST"));
    served.check("PUT /a.git/git-upload-pack HTTP/1.1", b"x", 405);
    served.check("POST /a.git/git-upload-pack HTTP/1.1", b"0000", 415);
    served.check("POST /a.git/git-upload-pack HTTP/1.1\nContent-Type: text/plain", b"0000", 415);

    let repo = served.root().join("a.git");
    Git::stock().run(&repo, &["config", "http.uploadpack", "false"]);
    served.check(advertised, b"", 403);
    served.check(&format!("POST /a.git/git-upload-pack HTTP/1.1\n{REQUEST}"), b"0000", 403);
    Git::stock().run(&repo, &["config", "http.uploadpack", "perhaps"]);
    served.check(advertised, b"", 500);
}

#[test]
fn http_paths_stay_inside() {
    let served = served(Size::Tiny, 16);
    RepoBuilder::new(Size::Tiny).build_at(&served.folder.path().join("outside.git"), Git::stock());
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, served.root().join(name)).unwrap();
    link("../outside.git", "link.git");
    link("a.git", "inside.git");
    link("loop.git", "loop.git");
    std::fs::write(served.root().join("gitfile"), "gitdir: ../outside.git\n").unwrap();
    let info_refs = "info/refs?service=git-upload-pack HTTP/1.1";
    for (path, status) in [
        ("inside.git", 200),
        ("a%2egit", 200),
        ("../outside.git", 404),
        ("a.git/../../outside.git", 404),
        ("%2e%2e/outside.git", 404),
        ("%2E%2e%2foutside.git", 404),
        ("/a.git", 404),
        ("./a.git", 404),
        ("a.git/.", 404),
        ("a.git/..", 404),
        ("a.git%00", 404),
        ("link.git", 404),
        ("gitfile", 404),
        ("loop.git", 404),
        ("%zz", 400),
        ("a.git%", 400),
    ] {
        served.check(&format!("GET /{path}/{info_refs}"), b"", status);
    }
    let long = "x".repeat(5000);
    served.check(&format!("GET /{long}/{info_refs}"), b"", 404);
    served.check(&format!("GET /{}/{info_refs}", "x".repeat(300)), b"", 404);
    for path in ["/../outside.git", "/link.git", "/gitfile", "/loop.git"] {
        let answer = served.git_request(format!("git-upload-pack {path}\0host=h\0").as_bytes());
        assert_eq!(&answer[4..], format!("{DENIED}{path}"));
    }
}

#[test]
fn http_request_bodies() {
    let served = served(Size::Tiny, 16);
    let post = format!("POST /a.git/git-upload-pack HTTP/1.1\n{REQUEST}\nGit-Protocol: version=2");
    let tip = served.tip();
    let expect = served.check(&post, &ls_refs(), 200);
    assert_eq!(expect.header("content-type"), Some("application/x-git-upload-pack-result"));
    assert!(String::from_utf8_lossy(&expect.body).contains(&format!("{tip} HEAD\n")));
    for encoding in ["gzip", "x-gzip", "GZIP", "X-Gzip"] {
        let head = format!("{post}\nContent-Encoding: {encoding}");
        assert_eq!(served.check(&head, &gzip(&ls_refs()), 200).body, expect.body);
        served.check(&head, &gzip(&vec![b'0'; MAX_REQUEST_BYTES + 1]), 413);
        served.check(&head, &gzip(&vec![b'0'; 100 << 20]), 413);
        served.check(&head, b"0000", 400);
        served.check(&head, &gzip(&ls_refs())[..20], 400);
    }
    served.check(&format!("{post}\nContent-Encoding: br"), b"0000", 415);

    let mut chunked = Vec::new();
    for chunk in ls_refs().chunks(7) {
        chunked.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunked.extend_from_slice(chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let head = format!("{post}\nTransfer-Encoding: chunked");
    assert_eq!(served.check(&head, &chunked, 200).body, expect.body);
    let reply = http(served.http, &head, &chunked, Feed::ByteByByte);
    assert_eq!((reply.status, reply.body), (200, expect.body));
    served.check(&head, b"xyz\r\n", 400);

    served.check(&post, &vec![b'0'; MAX_REQUEST_BYTES + 1], 413);
    served.check(&post, &vec![b'0'; 20 << 20], 413);
    // Nothing asked for, nothing said; half a request; words that git knows.
    assert!(served.check(&post, b"0000", 200).body.is_empty());
    served.check(&post, b"0014command=ls-refs\n", 400);
    let refused = served.check(&post, b"0015command=frobnic\n0000", 200);
    assert!(refused.body[4..].starts_with(b"ERR "), "{}", String::from_utf8_lossy(&refused.body));
    let unknown = Script::new().fetch_v2("sha1", &[&"1".repeat(40)], &[]);
    let refused = served.check(&post, unknown.bytes(), 200);
    assert!(String::from_utf8_lossy(&refused.body).contains("not our ref"));
}

#[test]
fn http_connections_are_kept_and_bad_ones_disturb_nobody() {
    let served = served(Size::Tiny, 3);
    let get = "GET /a.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: localhost\r\nGit-Protocol: version=2\r\n\r\n";
    let mut kept = TcpStream::connect(served.http).unwrap();
    let read_answer = |stream: &mut TcpStream| {
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n0\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        answer
    };
    kept.write_all(get.as_bytes()).unwrap();
    assert!(read_answer(&mut kept).starts_with(b"HTTP/1.1 200 OK\r\n"));
    // One that never finishes its head takes a place, and no more.
    let mut slow = TcpStream::connect(served.http).unwrap();
    slow.write_all(b"GET / HT").unwrap();
    let mut rubbish = TcpStream::connect(served.http).unwrap();
    rubbish.write_all(b"\x16\x03\x01\x00\x00 rubbish\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    rubbish.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&answer));
    kept.write_all(get.as_bytes()).unwrap();
    assert!(read_answer(&mut kept).starts_with(b"HTTP/1.1 200 OK\r\n"));

    // The last permits go, whenever the server has them back from those above; then there is none.
    let mut held = Vec::new();
    let is_refused = until(PATIENCE, || {
        let mut stream = TcpStream::connect(served.http).unwrap();
        stream.write_all(get.as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        held.push(stream);
        &answer == b"HTTP/1.1 503"
    });
    assert!(is_refused);
}

#[test]
fn git_requests() {
    let served = served(Size::Tiny, 16);
    let check = |request: &str, expect: &str| {
        let answer = served.git_request(request.as_bytes());
        assert!(answer.get(4..).is_some_and(|answer| answer.starts_with(expect)), "{request:?}: {answer}");
    };
    let tip = served.tip();
    check("git-upload-pack /a.git\0host=h\0", &format!("{tip} HEAD\0"));
    check("git-upload-pack /a\0host=h:9418\0", &format!("{tip} HEAD\0"));
    check("git-upload-pack /a.git\n", &format!("{tip} HEAD\0"));
    check("git-upload-pack /a.git\0host=h\0\0version=2\0", "version 2\n");
    check("git-upload-pack /a.git\0host=h\0\0version=1\0", "version 1\n");
    for path in ["/b.git", "a.git", "//a.git", "/./a.git", "/x/../a.git", "/a.git/..", "~x/a.git", "", "/"] {
        check(&format!("git-upload-pack {path}\0host=h\0"), &format!("{DENIED}{path}"));
    }
    check(&format!("git-upload-pack /{}\0", "x".repeat(6000)), DENIED);
    check("git-receive-pack /a.git\0host=h\0", &format!("{DENIED}/a.git"));
    check("git-upload-archive /a.git\0host=h\0", &format!("{DENIED}/a.git"));
    check("frobnicate", DENIED);
    for nonsense in
        ["zzzz", "0000", "0004", "0001", "+123", "00", "", "fff5x", "0100git-upload-pack /a.git\0"]
    {
        assert!(tcp(served.git, nonsense.as_bytes(), Feed::Whole).is_empty(), "{nonsense:?}");
    }
    Git::stock().run(&served.root().join("a.git"), &["config", "daemon.uploadpack", "false"]);
    check("git-upload-pack /a.git\0host=h\0", &format!("{DENIED}/a.git"));
}

#[test]
fn stock_git_clones_through_both_doors() {
    let served = served(Size::Small, 16);
    let git = Git::stock();
    let source = served.root().join("a.git");
    let expect = reachable_objects(git, &source);
    for version in ["0", "1", "2"] {
        for url in [format!("http://{}/a.git", served.http), format!("git://{}/a.git", served.git)] {
            let name = format!("{}-{version}", &url[..3]);
            let protocol = format!("protocol.version={version}");
            git.run(served.folder.path(), &["-c", &protocol, "clone", "-q", "--mirror", &url, &name]);
            let clone = served.folder.path().join(name);
            git.run(&clone, &["fsck", "--full", "--strict"]);
            assert_eq!(reachable_objects(git, &clone), expect, "{url} {version}");
        }
    }
}

/// A client that asks for everything and leaves without reading it must give its place back.
#[track_caller]
fn check_leaving(address: SocketAddr, request: &[u8], beginning: &[u8], next: impl Fn() -> bool) {
    let ask = || {
        let mut stream = TcpStream::connect(address).unwrap();
        // Otherwise a kernel with large buffers may take the whole answer for it, and the work is done.
        rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096).unwrap();
        stream.write_all(request).unwrap();
        let mut first = vec![0; beginning.len()];
        stream.read_exact(&mut first).unwrap();
        (first == beginning).then_some(stream)
    };
    // Whoever had the place before may not quite have left it.
    let mut stream = None;
    assert!(until(PATIENCE, || {
        stream = ask();
        stream.is_some()
    }));
    assert!((0..20).all(|_| !next()), "the only place is taken");
    drop(stream);
    assert!(until(PATIENCE, next), "the work goes on for nobody");
}

#[test]
fn clients_that_leave_give_their_place_back() {
    let served = served(Size::Medium, 1);
    let fetch = Script::new().fetch_v2("sha1", &[&served.tip()], &[]);
    let request = Script::new().data(b"git-upload-pack /a.git\0host=h\0\0version=2\0").raw(fetch.bytes());
    let hello = Script::new().data(b"git-upload-pack /a.git\0host=h\0");
    check_leaving(served.git, request.bytes(), b"000eversion 2\n", || {
        let answer = tcp(served.git, hello.bytes(), Feed::Whole);
        let is_refused = answer.ends_with(b"ERR server is busy; try again later");
        assert!(is_refused || answer.len() > 100, "{}", String::from_utf8_lossy(&answer));
        !is_refused
    });
    let body = fetch.bytes();
    let head = format!(
        "POST /a.git/git-upload-pack HTTP/1.1\r\nHost: localhost\r\n{REQUEST}\r\nGit-Protocol: version=2\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let get = "GET /a.git/info/refs?service=git-upload-pack HTTP/1.1";
    check_leaving(served.http, &[head.as_bytes(), body].concat(), b"HTTP/1.1 200 OK", || {
        http(served.http, get, b"", Feed::Whole).status == 200
    });
}

#[test]
fn a_damaged_pack_never_looks_complete() {
    let served = served(Size::Small, 16);
    let pack_dir = served.root().join("a.git/objects/pack");
    for entry in std::fs::read_dir(&pack_dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "pack") {
            damage(&path);
        }
    }
    let git = Git::stock();
    for url in [format!("http://{}/a.git", served.http), format!("git://{}/a.git", served.git)] {
        let mut clone = git.command(served.folder.path());
        let output = clone.args(["clone", "-q", "--mirror", &url, "never"]).output().unwrap();
        assert!(!output.status.success(), "{url}");
    }
}

/// Overwrites the middle.
fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0);
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}
