//! Invalid requests: git's messages and exit codes, no panic, no hang, no complete pack.

use std::time::{Duration, Instant};

use packrace_testkit::peer::{self, Feed, HttpReply, Script};
use packrace_testkit::received::{self, Packet, fetch_answer};
use packrace_testkit::{Git, Repo, RepoBuilder, Size, sampled};

use crate::running::{PACKRACE, Server, answer_to, assert_no_panic, stock_git, upload_pack};

/// An object name that no repository here contains.
const ABSENT: &str = "1234123412341234123412341234123412341234";

/// Stock git and packrace end with the same code, and both print these words; if stock git sends `ERR`, so
/// does packrace.
fn check(repo: &Repo, version: u32, script: Script, words: &str) {
    let mut stock = Git::stock().command(repo.path());
    stock.args(["upload-pack", "."]).env("GIT_PROTOCOL", format!("version={version}"));
    let expected = peer::stdio(&mut stock, script.bytes(), Feed::Whole);
    for feed in [Feed::Whole, Feed::ByteByByte] {
        let got = answer_to(repo.path(), version, script.bytes(), feed);
        let what = format!("v{version} {:?}\n{}", String::from_utf8_lossy(script.bytes()), got.stderr);
        assert_eq!(got.status.code(), expected.status.code(), "{what}");
        // Where stock git prints only to its standard error, packrace may send the same words to the client,
        // too.
        let errors = error_packets(&got.stdout);
        assert!(errors.starts_with(&error_packets(&expected.stdout)) && errors.len() <= 1, "{what}");
        for reply in [&expected, &got] {
            let said = format!("{}{}", String::from_utf8_lossy(&reply.stdout), reply.stderr);
            assert!(said.contains(words), "{words:?} is not said: {what}");
        }
    }
}

fn error_packets(answer: &[u8]) -> Vec<Vec<u8>> {
    let packets = received::packets(answer).unwrap_or_default();
    let errors = packets.into_iter().filter_map(|packet| match packet {
        Packet::Data(data) if data.starts_with(b"ERR ") => Some(data.trim_ascii_end().to_vec()),
        _ => None,
    });
    errors.collect()
}

#[test]
fn requests_of_version_2() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let main = repo.git(&["rev-parse", "main"]);
    let want = format!("want {}", main.trim());
    let fetch = || Script::new().line("command=fetch").delim();
    let check = |script: Script, words: &str| check(&repo, 2, script, words);
    check(Script::new().line("command=nope").flush(), "invalid command 'nope'");
    check(
        Script::new().line("command=fetch").line("command=ls-refs").flush(),
        "requested after already requesting",
    );
    check(Script::new().line("agent=x").flush(), "no command requested");
    check(Script::new().line("command=fetch").line("foo=bar").flush(), "unknown capability 'foo=bar'");
    let hash = |name: &str| {
        Script::new().line("command=fetch").line(&format!("object-format={name}")).delim().flush()
    };
    check(hash("sha256"), "mismatched object format: server sha1; client sha256");
    check(hash("sha9"), "unknown object format 'sha9'");
    check(fetch().line("bogus").flush(), "unexpected line: 'bogus'");
    check(
        fetch().line("filter blob:none").line(&want).line("done").flush(),
        "unexpected line: 'filter blob:none'",
    );
    check(Script::new().line("command=ls-refs").delim().line("bogus").flush(), "unexpected line: 'bogus'");
    check(
        fetch().line(&format!("want {ABSENT}")).line("done").flush(),
        &format!("upload-pack: not our ref {ABSENT}"),
    );
    check(fetch().line("want zz").line("done").flush(), "protocol error, expected to get oid, not 'want zz'");
    check(fetch().line("have zz").line("done").flush(), "expected SHA1 object, got 'zz'");
    for depth in ["deepen -1", "deepen 0", "deepen x", "deepen-since x"] {
        let words = format!("Invalid {}: {depth}", depth.split(' ').next().unwrap());
        check(fetch().line(depth).line(&want).line("done").flush(), &words);
    }
    check(fetch().line("deepen-not nope").line(&want).line("done").flush(), ": deepen-not nope");
    check(Script::new().line("command=fetch"), "the remote end hung up unexpectedly");
    check(fetch().line(&want), "the remote end hung up unexpectedly");
}

#[test]
fn requests_of_versions_0_and_1() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let main = repo.git(&["rev-parse", "main"]);
    let want = format!("want {}", main.trim());
    for version in [0, 1] {
        let check = |script: Script, words: &str| check(&repo, version, script, words);
        check(Script::new().flush(), "");
        check(Script::new(), "the remote end hung up unexpectedly");
        let absent = format!("want {ABSENT}");
        check(
            Script::new().line(&absent).flush().line("done"),
            &format!("upload-pack: not our ref {ABSENT}"),
        );
        for bad in ["want zz", "bogus"] {
            check(
                Script::new().line(bad).flush().line("done"),
                "protocol error, expected to get object ID, not '",
            );
        }
        check(Script::new().line(&want).line("deepen x").flush().line("done"), "Invalid deepen: deepen x");
        check(
            Script::new().line(&want).line("shallow zz").flush().line("done"),
            "invalid shallow line: shallow zz",
        );
        check(
            Script::new().line(&want).flush().line("have zz").line("done"),
            "expected SHA1 object, got 'zz'",
        );
        check(
            Script::new().line(&want).flush().line("bogus").line("done"),
            "expected SHA1 list, got 'bogus'",
        );
        check(Script::new().line(&want), "the remote end hung up unexpectedly");
        check(Script::new().line(&want).flush(), "the remote end hung up unexpectedly");
    }
}

#[test]
fn what_is_no_pkt_line() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    for version in [0, 1, 2] {
        for garbage in ["zzzz", "-001", "+004", " 004", "0x04", "GET / HTTP/1.1\r\n\r\n"] {
            let words = format!("bad line length character: {}", &garbage[..4]);
            check(&repo, version, Script::new().raw(garbage.as_bytes()), &words);
        }
        check(&repo, version, Script::new().raw(b"0003"), "bad line length 3");
    }
}

sampled! {
    fn requests_cut_anywhere_end_without_a_pack(extent) {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let main = repo.git(&["rev-parse", "main"]);
        let fetch = Script::new().fetch_v2("sha1", &[main.trim()], &[]);
        let lengths = fetch.bytes().len();
        for length in (0..lengths).step_by(extent.step(lengths, 24)) {
            let reply = answer_to(repo.path(), 2, &fetch.bytes()[..length], Feed::Whole);
            assert!(!contains(&reply.stdout, b"PACK"), "cut at {length}");
        }
        let caps = "ofs-delta side-band-64k multi_ack_detailed agent=x";
        let fetch = Script::new().line(&format!("want {} {caps}", main.trim())).flush().line("done");
        let lengths = fetch.bytes().len() - 1;
        for length in (0..lengths).step_by(extent.step(lengths, 24)) {
            let reply = answer_to(repo.path(), 0, &fetch.bytes()[..length], Feed::Whole);
            assert!(!contains(&reply.stdout, b"PACK"), "cut at {length}");
        }
    }
}

sampled! {
    fn requests_with_a_flipped_byte_never_panic(extent) {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let main = repo.git(&["rev-parse", "main"]);
        let fetch = Script::new().fetch_v2("sha1", &[main.trim()], &[]);
        let length = fetch.bytes().len();
        for at in (0..length).step_by(extent.step(length, 24)) {
            let mut bytes = fetch.bytes().to_vec();
            bytes[at] ^= 0x11;
            answer_to(repo.path(), 2, &bytes, Feed::Whole);
        }
    }
}

#[test]
fn a_client_that_leaves_ends_the_work() {
    let repo = RepoBuilder::new(Size::Small).build();
    let main = repo.git(&["rev-parse", "main"]);
    let script = Script::new().fetch_v2("sha1", &[main.trim()], &[]);
    let mut command = upload_pack(repo.path(), 2);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, script.bytes()).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    std::io::Read::read_exact(&mut stdout, &mut [0; 100_000]).unwrap();
    drop(stdout);
    let left = Instant::now();
    // Standard input stays open: only the reader of the answer has left.
    while child.try_wait().unwrap().is_none() {
        if left.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it still runs");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(stdin);
    assert_no_panic(&String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr));
}

#[test]
fn what_cannot_be_read_cuts_the_stream_and_gives_no_pack() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    // The only object of its kind, in a second root, so that it is not compared with others before it is
    // sent.
    let noise: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    let blob = repo.git_with_input(&["hash-object", "-w", "--stdin"], &noise);
    let tree = repo.git_with_input(&["mktree"], format!("100644 blob {}\tnoise\n", blob.trim()).as_bytes());
    let commit = repo.git(&["commit-tree", "-m", "noise", tree.trim()]);
    repo.git(&["update-ref", "refs/heads/noise", commit.trim()]);
    let file = repo.path().join("objects").join(&blob[..2]).join(&blob.trim()[2..]);
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.len() - 1;
    bytes[end] ^= 1;
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, bytes).unwrap();
    let script = Script::new().fetch_v2("sha1", &[commit.trim()], &[]);
    let reply = answer_to(repo.path(), 2, script.bytes(), Feed::Whole);
    assert!(contains(&reply.stdout, b"PACK"), "the fault is met when the pack has begun");
    let client = repo.path().with_file_name("client.git");
    Git::stock().run(repo.path(), &["init", "-q", "--bare", client.to_str().unwrap()]);
    for version in [0, 2] {
        let upload_pack = format!("--upload-pack={PACKRACE} upload-pack");
        let version = format!("protocol.version={version}");
        let url = format!("file://{}", repo.path().display());
        let args = ["-c", &version, "fetch", &upload_pack, &url, "+refs/heads/*:refs/heads/*"];
        let said = stock_git(&client, &args, "");
        let words = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(128), "{words}");
        assert!(words.contains(&format!("loose object {} (stored in ", blob.trim())), "{words}");
        assert_no_panic(&words);
        let packs =
            std::fs::read_dir(client.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
        let finished: Vec<_> = packs.filter(|path| path.extension().is_some()).collect();
        assert!(finished.is_empty(), "{finished:?}");
        assert_eq!(Git::stock().run(&client, &["for-each-ref"]), "");
    }
}

/// A served repository `repo.git`, and `secret.git` outside the root.
fn served() -> (Repo, Server) {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let root = repo.path().parent().unwrap().join("root");
    std::fs::create_dir(&root).unwrap();
    repo.git(&["clone", "-q", "--mirror", ".", root.join("repo.git").to_str().unwrap()]);
    repo.git(&["clone", "-q", "--mirror", ".", "../secret.git"]);
    let server = Server::start(&root);
    (repo, server)
}

#[test]
fn http_requests() {
    let (_repo, server) = served();
    let get = |path: &str| peer::http(server.http, &format!("GET {path} HTTP/1.1"), b"", Feed::Whole);
    let service = "service=git-upload-pack";
    let found = get(&format!("/repo.git/info/refs?{service}"));
    assert_eq!(found.status, 200);
    assert_eq!(found.header("content-type"), Some("application/x-git-upload-pack-advertisement"));
    assert!(found.header("cache-control").unwrap().contains("no-cache"));
    for (path, status) in [
        ("/nothing.git/info/refs", 404),
        ("/repo.git/nothing", 404),
        ("/", 404),
        ("/../secret.git/info/refs", 404),
        ("/%2e%2e/secret.git/info/refs", 404),
        ("/repo.git/../../secret.git/info/refs", 404),
        ("/repo.git/%2E./%2e%2E/secret.git/info/refs", 404),
        ("//repo.git//info/refs", 404),
        ("/repo.git%00/info/refs", 404),
        ("/%2fetc/info/refs", 404),
        ("/repo.git/%zz/info/refs", 404),
    ] {
        let reply = get(&format!("{path}?{service}"));
        assert!(reply.status == status || reply.status == 400, "{path}: {}", reply.status);
        assert!(!contains(&reply.body, b"refs/heads/main"), "{path}");
    }
    assert_eq!(get("/repo.git/info/refs?service=git-nothing").status, 403);
    assert_eq!(get("/repo.git/git-upload-pack").status, 405);
    assert!(get("/repo.git/git-upload-pack").header("allow").is_some());
}

fn post(server: &Server, headers: &str, body: &[u8], feed: Feed) -> HttpReply {
    let head = format!("POST /repo.git/git-upload-pack HTTP/1.1\n{headers}");
    peer::http(server.http, &head, body, feed)
}

const REQUEST: &str = "Content-Type: application/x-git-upload-pack-request\nGit-Protocol: version=2";

#[test]
fn http_bodies() {
    let (repo, server) = served();
    let main = repo.git(&["rev-parse", "main"]);
    let fetch = Script::new().fetch_v2("sha1", &[main.trim()], &[]);
    for feed in [Feed::Whole, Feed::ByteByByte] {
        let reply = post(&server, REQUEST, fetch.bytes(), feed);
        assert_eq!(reply.status, 200);
        assert!(fetch_answer(&reply.body).unwrap().bands.pack.starts_with(b"PACK"));
    }
    let chunk = format!("{:x}\r\n", fetch.bytes().len());
    let chunked = [chunk.as_bytes(), fetch.bytes(), b"\r\n0\r\n\r\n"].concat();
    let reply = post(&server, &format!("{REQUEST}\nTransfer-Encoding: chunked"), &chunked, Feed::Whole);
    assert!(fetch_answer(&reply.body).unwrap().bands.pack.starts_with(b"PACK"));

    assert_eq!(post(&server, "Content-Type: text/plain", fetch.bytes(), Feed::Whole).status, 415);
    let gzip = format!("{REQUEST}\nContent-Encoding: gzip");
    assert_eq!(post(&server, &gzip, b"no gzip at all", Feed::Whole).status, 400);
    let reply = post(&server, REQUEST, b"zzzz", Feed::Whole);
    assert!(!contains(&reply.body, b"PACK"), "{}", reply.status);
    // The server survives.
    assert_eq!(post(&server, REQUEST, fetch.bytes(), Feed::Whole).status, 200);
}

#[test]
fn git_daemon_requests() {
    let (_repo, server) = served();
    let ask = |path: &str| {
        let line = format!("git-upload-pack {path}\0host=localhost\0\0version=2\0");
        peer::tcp(server.git, Script::new().data(line.as_bytes()).flush().bytes(), Feed::ByteByByte)
    };
    assert!(ask("/repo.git").starts_with(b"000eversion 2\n"));
    let long = format!("/{}", "x".repeat(5000));
    for path in [
        "/nothing.git",
        "/../secret.git",
        "/repo.git/../../secret.git",
        "//repo.git",
        "/./repo.git",
        "repo.git",
        "",
        &long,
    ] {
        let answer = ask(path);
        let errors = error_packets(&answer);
        assert!(errors.len() == 1 && !contains(&answer, b"version 2"), "{path}: {answer:?}");
        assert!(errors[0].starts_with(b"ERR access denied or repository not exported"), "{path}: {answer:?}");
    }
    for garbage in
        [&b"zzzz"[..], b"0003", b"000bgit-nope", b"0000", b"fff0git-upload-pack", b"0010no service x"]
    {
        let answer = peer::tcp(server.git, garbage, Feed::Whole);
        assert!(!contains(&answer, b"refs/"), "{garbage:?}");
    }
    assert!(ask("/repo.git").starts_with(b"000eversion 2\n"));
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
