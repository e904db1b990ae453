//! What a few clients hold, others still get: memory for bodies, requests, connections; and what one push may cost.

mod folder;
mod served;

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use folder::until;
use packrace_object::{Kind, ObjectId};
use packrace_pack::ingest::MaxUnpacked;
use packrace_server::limits::Limits;
use packrace_server::receive::{Committer, PushBudget};
use packrace_server::settings::{PushMemory, Pushing, Settings};
use packrace_testkit::handmade::{HandmadeDelta, HandmadeEntry, HandmadePack};
use packrace_testkit::peer::{Feed, HttpReply, Script, http, tcp};
use packrace_testkit::{Git, RepoBuilder, Size};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

const PATIENCE: Duration = Duration::from_secs(60);

/// One who has far more than others.
const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Where the first entry of a pack begins.
const FIRST_ENTRY: usize = 12;

struct Server {
    folder: tempfile::TempDir,
    http: SocketAddr,
    git: SocketAddr,
}

impl Server {
    fn new(limits: Limits, budget: PushBudget, memory: PushMemory) -> Self {
        let folder = packrace_testkit::scratch_dir();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        RepoBuilder::new(Size::Tiny).build_at(&root.join("a.git"), Git::stock());
        let settings = served::settings(folder.path());
        let pushing = Pushing {
            is_allowed: true,
            committer: Committer::new(|_, _| Ok(b"A U Thor <author@example.com> 1112911993 +0000".to_vec())),
            budget,
            memory,
            ..settings.pushing
        };
        let addresses = served::start(&root, Settings { limits, pushing, ..settings });
        Server { folder, http: addresses[0], git: addresses[1] }
    }

    fn with_limits(limits: Limits) -> Self {
        Server::new(limits, PushBudget::default(), PushMemory::default())
    }

    fn with_budget(budget: PushBudget) -> Self {
        Server::new(Limits::default(), budget, PushMemory::default())
    }

    fn repo(&self) -> std::path::PathBuf {
        self.folder.path().join("root/a.git")
    }

    fn tip(&self) -> String {
        Git::stock().run(&self.repo(), &["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Somebody who behaves fetches one commit, over both transports.
    #[track_caller]
    fn check_fetch(&self) {
        self.fetch().unwrap();
    }

    /// The same, or what came instead.
    fn fetch(&self) -> Result<(), String> {
        let fetch = Script::new().fetch_v2("sha1", &[&self.tip()], &[]);
        let head = post("a.git/git-upload-pack", "upload") + "\nGit-Protocol: version=2";
        let reply = http(self.http, &head, fetch.bytes(), Feed::Whole);
        if reply.status != 200 || !contains(&reply.body, b"PACK") {
            return Err(format!("{}: {}", reply.status, text(&reply.body)));
        }
        let hello = Script::new().data(b"git-upload-pack /a.git\0host=h\0\0version=2\0").raw(fetch.bytes());
        let answer = tcp(self.git, hello.bytes(), Feed::Whole);
        if contains(&answer, b"PACK") { Ok(()) } else { Err(text(&answer)) }
    }

    /// What was not served so far for a reason, as the metrics have it.
    fn refused(&self, reason: &str) -> u64 {
        self.number(&format!("packrace_refusals_total{{reason=\"{reason}\"}}"))
    }

    fn number(&self, metric: &str) -> u64 {
        let (metrics, line) = (self.metrics(), format!("{metric} "));
        metrics.lines().find_map(|other| other.strip_prefix(&line)).unwrap().parse().unwrap()
    }

    fn metrics(&self) -> String {
        text(&http(self.http, "GET /-/metrics HTTP/1.1", b"", Feed::Whole).body)
    }

    /// Nothing is held any more, but by who asks.
    #[track_caller]
    fn check_all_free(&self) {
        let is_free = |metrics: &str| {
            ["packrace_requests_running 0", "packrace_body_memory_bytes 0", "packrace_push_memory_bytes 0"]
                .iter()
                .all(|line| metrics.lines().any(|other| other == *line))
        };
        assert!(until(PATIENCE, || is_free(&self.metrics())), "{}", self.metrics());
    }

    /// Pushes one new branch that way.
    fn push(&self, branch: &str, tip: &ObjectId, pack: &HandmadePack) -> String {
        let line = format!("{} {tip} refs/heads/{branch}\0report-status side-band-64k", "0".repeat(40));
        let body = Script::new().line(&line).flush().raw(&pack.sealed());
        let reply = self.post_push(body.bytes());
        assert_eq!(reply.status, 200);
        text(&reply.body)
    }

    fn post_push(&self, body: &[u8]) -> HttpReply {
        http(self.http, &post("a.git/git-receive-pack", "receive"), body, Feed::Whole)
    }

    fn has_branch(&self, branch: &str) -> bool {
        let refs = Git::stock().run(&self.repo(), &["for-each-ref", "--format=%(refname:short)"]);
        refs.lines().any(|line| line == branch)
    }

    fn has_no_quarantine(&self) -> bool {
        let objects = std::fs::read_dir(self.repo().join("objects")).unwrap();
        !objects
            .map(|entry| entry.unwrap().file_name())
            .any(|name| text(name.as_encoded_bytes()).contains("tmp"))
    }
}

fn post(path: &str, service: &str) -> String {
    format!("POST /{path} HTTP/1.1\nContent-Type: application/x-git-{service}-pack-request")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// A connection from another address of this machine, which has said this much.
fn said_from(from: Ipv4Addr, to: SocketAddr, bytes: &[u8]) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    connect(&socket, &to).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// The beginning of a request whose body stops after so many bytes of more.
fn stalled(path: &str, service: &str, bytes: usize) -> Vec<u8> {
    let head = post(path, service).replace('\n', "\r\n");
    let mut request =
        format!("{head}\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", bytes + 1).into_bytes();
    request.resize(request.len() + bytes, b'0');
    request
}

fn status(stream: &mut TcpStream) -> String {
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    text(&status[9..])
}

#[test]
fn a_body_for_nothing_holds_nothing() {
    let server = Server::with_limits(Limits {
        max_request_bytes: 256 << 10,
        body_memory_bytes: 1 << 20,
        ..Limits::default()
    });
    // Far more than there is memory for, and the answer comes before the rest of the body.
    for (path, service, expect) in
        [("none.git/git-upload-pack", "upload", "404"), ("none.git/git-receive-pack", "receive", "404")]
    {
        let request = stalled(path, service, 200 << 10);
        let mut streams: Vec<_> = (0..26).map(|_| said_from(GREEDY, server.http, &request)).collect();
        server.check_fetch();
        for stream in &mut streams {
            assert_eq!(status(stream), expect, "{path}");
        }
    }
    assert_eq!((server.refused("body-memory"), server.refused("idle")), (0, 0));
    server.check_all_free();
}

/// It is opened before the rest of the body is asked for, and then served.
#[test]
fn a_slow_body_opens_its_repository_once() {
    let server = Server::with_limits(Limits::default());
    let opened = || {
        server.number("packrace_repository_cache_hits_total")
            + server.number("packrace_repository_cache_misses_total")
    };
    let before = opened();
    let fetch = Script::new().fetch_v2("sha1", &[&server.tip()], &[]);
    let (last, first) = fetch.bytes().split_last().unwrap();
    let head = format!(
        "{}\nGit-Protocol: version=2\nHost: localhost\nConnection: close\nContent-Length: {}\n\n",
        post("a.git/git-upload-pack", "upload"),
        fetch.bytes().len()
    );
    let request = [head.replace('\n', "\r\n").as_bytes(), first].concat();
    let mut stream = said_from(GREEDY, server.http, &request);
    assert!(until(PATIENCE, || opened() == before + 1));
    stream.write_all(&[*last]).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 OK") && contains(&answer, b"PACK"), "{}", text(&answer));
    assert_eq!(opened(), before + 1);
}

#[test]
fn the_slowest_bodies_lose_to_others() {
    let server = Server::with_limits(Limits {
        max_request_bytes: 256 << 10,
        body_memory_bytes: 1 << 20,
        body_time: Duration::from_secs(3600),
        ..Limits::default()
    });
    let request = stalled("a.git/git-upload-pack", "upload", 250 << 10);
    let mut streams: Vec<_> = (0..16).map(|_| said_from(GREEDY, server.http, &request)).collect();
    // Exempt from the share of a client, they fill the memory all the same; and go first.
    assert!(until(PATIENCE, || {
        server.check_fetch();
        server.refused("body-memory") + server.refused("idle") >= 12
    }));
    for _ in 0..50 {
        server.check_fetch();
    }
    let stalls = streams.iter_mut().filter_map(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).is_ok().then(|| text(&status[9..]))
    });
    assert!(
        stalls.fold(0, |count, status| {
            assert_eq!(status, "503");
            count + 1
        }) >= 12
    );
    drop(streams);
    server.check_all_free();
}

#[test]
fn one_address_has_a_share_of_the_memory_for_bodies() {
    let server = Server::with_limits(Limits {
        max_request_bytes: 64 << 10,
        body_memory_bytes: 1 << 20,
        body_memory_bytes_per_address: 128 << 10,
        exempt_addresses: Vec::new(),
        body_time: Duration::from_secs(3600),
        ..Limits::default()
    });
    let request = stalled("a.git/git-upload-pack", "upload", 60 << 10);
    let _streams: Vec<_> = (0..8).map(|_| said_from(GREEDY, server.http, &request)).collect();
    assert!(until(PATIENCE, || server.refused("body-memory") + server.refused("idle") >= 6));
    server.check_fetch();
}

#[test]
fn idle_sessions_go_first_when_places_run_out() {
    let server = Server::with_limits(Limits { max_requests: 8, ..Limits::default() });
    let hello = Script::new().data(b"git-upload-pack /a.git\0host=h\0\0version=2\0");
    let silent = |from, bytes: &[u8]| {
        let mut stream = said_from(from, server.git, bytes);
        stream.read_exact(&mut [0; 14]).unwrap();
        stream
    };
    let begun = Script::new().raw(hello.bytes()).raw(b"0014command=fetch");
    let other = Ipv4Addr::new(127, 0, 0, 3);
    let mut streams: Vec<TcpStream> = Vec::new();
    for from in [GREEDY, other] {
        for bytes in [hello.bytes(), begun.bytes(), hello.bytes(), begun.bytes()] {
            streams.push(silent(from, bytes));
        }
    }
    for _ in 0..20 {
        server.check_fetch();
    }
    assert!(server.refused("idle") >= 1);
    assert_eq!(server.refused("too-many-connections"), 0);
    // They are told.
    let told = streams.iter_mut().any(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        contains(&rest, b"ERR disconnected: idle while other clients waited")
    });
    assert!(told);
    drop(streams);
    server.check_all_free();
}

#[test]
fn idle_pushes_over_http_go_first_too() {
    let server = Server::with_limits(Limits { max_requests: 4, ..Limits::default() });
    let request = stalled("a.git/git-receive-pack", "receive", 0);
    let streams: Vec<_> = (0..4).map(|_| said_from(GREEDY, server.http, &request)).collect();
    assert!(until(PATIENCE, || server.metrics().contains("packrace_requests_running 4")));
    for _ in 0..20 {
        server.check_fetch();
    }
    assert!(server.refused("idle") >= 1);
    drop(streams);
    server.check_all_free();
}

#[test]
fn idle_connections_go_first_too() {
    let server = Server::with_limits(Limits { max_connections: 8, ..Limits::default() });
    let starts: [(SocketAddr, &[u8]); 4] =
        [(server.http, b""), (server.git, b""), (server.http, b"GET / HT"), (server.git, b"0040git-up")];
    let _streams: Vec<_> =
        starts.iter().cycle().take(32).map(|(to, bytes)| said_from(GREEDY, *to, bytes)).collect();
    // One that was only just accepted is not idle yet, so it is not closed for others.
    assert!(until(PATIENCE, || server.fetch().is_ok()));
    for _ in 0..20 {
        server.check_fetch();
    }
    assert!(server.refused("idle") >= 1);
}

#[test]
fn commands_claim_from_a_shared_memory() {
    let memory = PushMemory { bytes: 256 << 10, bytes_per_address: 256 << 10 };
    let server = Server::new(Limits::default(), PushBudget::default(), memory);
    let tip = server.tip();
    let commands = |count: usize| {
        let mut script = Script::new();
        for number in 0..count {
            let capabilities = if number == 0 { "\0report-status" } else { "" };
            let line = format!("{tip} {} refs/heads/none-{number}{capabilities}", "0".repeat(40));
            script = script.line(&line);
        }
        script.flush()
    };
    let reply = server.post_push(commands(5000).bytes());
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("10")));
    let hello = Script::new().data(b"git-receive-pack /a.git\0host=h\0").raw(commands(5000).bytes());
    let answer = tcp(server.git, hello.bytes(), Feed::Whole);
    assert!(
        answer.is_empty() || contains(&answer, b"ERR too many refs are being pushed"),
        "{}",
        text(&answer)
    );
    assert_eq!(server.refused("push-budget"), 2);
    assert!(text(&server.post_push(commands(10).bytes()).body).contains("unpack ok"));
    server.check_all_free();
}

/// One megabyte, and deltas that make as much each from some bytes.
fn delta_bomb(deltas: usize) -> (HandmadePack, ObjectId) {
    let mut pack = HandmadePack::default();
    let zeros = vec![0; 1 << 20];
    let blob = pack.whole(Kind::Blob, &zeros);
    for number in 0..deltas {
        let tail = format!("{number:04}");
        let delta = HandmadeDelta::new(1 << 20, (1 << 20) + 4).copy(0, 1 << 20).insert(tail.as_bytes());
        let content = [&zeros, tail.as_bytes()].concat();
        let id = packrace_object::object_id(packrace_object::HashKind::Sha1, Kind::Blob, &content).unwrap();
        pack.delta(&id, HandmadeEntry::ByDistance(FIRST_ENTRY), delta.bytes());
    }
    let tip = commit(&mut pack, &[(b"100644 a\0", &blob)]);
    (pack, tip)
}

fn commit(pack: &mut HandmadePack, entries: &[(&[u8], &ObjectId)]) -> ObjectId {
    let tree: Vec<u8> = entries.iter().flat_map(|(head, id)| [*head, id.as_bytes()].concat()).collect();
    let tree = pack.whole(Kind::Tree, &tree);
    let who = "A U Thor <author@example.com> 1112911993 +0000";
    pack.whole(Kind::Commit, format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nx\n").as_bytes())
}

#[test]
fn a_push_has_a_budget() {
    let few = PushBudget {
        max_objects: 50,
        max_unpacked: MaxUnpacked { bytes: 16 << 20, times_pack: 100 },
        ..PushBudget::default()
    };
    let server = Server::with_budget(few);
    let check = |branch, deltas, expect: &str| {
        let (pack, tip) = delta_bomb(deltas);
        let said = server.push(branch, &tip, &pack);
        assert!(said.contains(expect), "{branch}: {said}");
        assert_eq!(server.has_branch(branch), expect == "unpack ok", "{branch}");
        assert!(server.has_no_quarantine());
    };
    check("some", 10, "unpack ok");
    check("bomb", 30, "objects of the pack exceed maximum allowed unpacked size (16.00 MiB)");
    check("many", 60, "pack has 63 objects, more than the 50 that are allowed");
    assert_eq!(server.refused("push-budget"), 2);

    let none = Server::with_budget(PushBudget { cpu_time: Duration::ZERO, ..PushBudget::default() });
    let (pack, tip) = delta_bomb(10);
    let said = none.push("some", &tip, &pack);
    assert!(said.contains("push exceeds maximum allowed CPU time (0 s)"), "{said}");
    assert!(!none.has_branch("some") && none.has_no_quarantine());
    assert_eq!(none.refused("push-budget"), 1);
}

/// A commit with trees that are nested so deep.
fn nested(depth: usize) -> (HandmadePack, ObjectId) {
    let mut pack = HandmadePack::default();
    let blob = pack.whole(Kind::Blob, b"/deep\n");
    let mut tree = pack.whole(Kind::Tree, &[b"100644 f\0", blob.as_bytes()].concat());
    for _ in 1..depth {
        tree = pack.whole(Kind::Tree, &[b"40000 d\0", tree.as_bytes()].concat());
    }
    let tip = commit(&mut pack, &[(b"40000 d\0", &tree)]);
    (pack, tip)
}

fn allow_filters(repo: &Path) {
    Git::stock().run(repo, &["config", "uploadpack.allowFilter", "true"]);
}

#[test]
fn trees_are_not_too_deep() {
    let server = Server::with_budget(PushBudget::default());
    let deep = "exceeded maximum allowed tree depth";
    let check = |branch, depth, is_taken: bool| {
        let (pack, tip) = nested(depth);
        let said = server.push(branch, &tip, &pack);
        assert_eq!(said.contains("unpack ok") && !said.contains(deep), is_taken, "{branch}: {said}");
        assert_eq!(said.contains("missing necessary objects"), !is_taken, "{branch}: {said}");
        assert_eq!(server.has_branch(branch), is_taken);
    };
    check("most", 2048, true);
    check("more", 2049, false);
    Git::stock().run(&server.repo(), &["config", "core.maxTreeDepth", "10"]);
    check("ten", 10, true);
    check("eleven", 11, false);
    Git::stock().run(&server.repo(), &["config", "core.maxTreeDepth", "5000"]);
    check("thousands", 2049, true);

    // Who has such trees stored: what a filter makes of them does not cost the square of their depth.
    let server = Server::with_budget(PushBudget::default());
    allow_filters(&server.repo());
    let (pack, tip) = nested(40_000);
    pack.put(&server.repo(), "deep");
    Git::stock().run(&server.repo(), &["update-ref", "refs/heads/deep", &tip.to_string()]);
    let patterns =
        packrace_object::object_id(packrace_object::HashKind::Sha1, Kind::Blob, b"/deep\n").unwrap();
    let mut want = String::new();
    write!(want, "want {tip}").unwrap();
    let fetch = Script::new()
        .line("command=fetch")
        .delim()
        .line(&want)
        .line(&format!("filter sparse:oid={patterns}"))
        .line("done")
        .flush();
    let head = post("a.git/git-upload-pack", "upload") + "\nGit-Protocol: version=2";
    let reply = http(server.http, &head, fetch.bytes(), Feed::Whole);
    assert!(text(&reply.body).contains(deep), "{} {}", reply.status, text(&reply.body));
}
