//! `/-/events`: users with read access to a repository see its events, and pushes do not wait for followers
//! that do not read.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use packrace_journal::{Action, Journal, JournalEvent, JournalOptions, RefEvent};
use serde_json::{Value, json};

use super::access::Guarded;
use super::*;

const RULES: &str = r#"
admins = ["root"]
[[rule]]
repository = "a.git"
who = "anyone"
allow = ["read"]

[[rule]]
repository = "**"
who = "root"
allow = ["read", "write", "create"]
"#;

const ROOT: &str = "Authorization: Basic cm9vdDpyb290\r\n";

struct Follower(BufReader<TcpStream>);

impl Follower {
    fn asks(server: &Server, target: &str, headers: &str) -> (u16, Self) {
        let address = server.address("http");
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n").unwrap();
        let mut follower = Follower(BufReader::new(stream));
        let status = follower.line().split(' ').nth(1).unwrap().parse().unwrap();
        while !follower.line().is_empty() {}
        (status, follower)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Number and data of the next event. The framing of chunks is skipped.
    fn event(&mut self) -> (u64, Value) {
        let mut id = 0;
        loop {
            let line = self.line();
            if let Some(number) = line.strip_prefix("id: ") {
                id = number.parse().unwrap();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (id, serde_json::from_str(data).unwrap());
            }
        }
    }
}

fn guarded(journal: &Path, more: &[(&str, &str)]) -> Guarded {
    let journal = journal.display().to_string();
    let variables = [&[("PACKRACE_SERVE_EVENTS_JOURNAL", journal.as_str())], more].concat();
    Guarded::start_with(RULES, &variables)
}

fn push(guarded: &Guarded, repository: &str, name: &str) {
    let from = guarded.file("root").join(repository);
    let url = guarded.url(repository).replace("http://", "http://root:root@");
    Git::stock().run(&from, &["push", "-q", &url, &format!("HEAD:refs/heads/{name}")]);
}

#[test]
fn who_may_read_sees_events() {
    let folder = tempfile::tempdir().unwrap();
    let guarded = guarded(&folder.path().join("j"), &[("PACKRACE_SERVE_EVENTS_MAX_FOLLOWERS", "3")]);
    let server = &guarded.server;
    push(&guarded, "a.git", "1");
    let (_, mut anyone) = Follower::asks(server, "/-/events", "");
    let (_, mut resumed) = Follower::asks(server, "/-/events?from=1&repository=a", "Last-Event-ID: 0\r\n");
    let (_, mut root) = Follower::asks(server, "/-/events", ROOT);
    let (full, _) = Follower::asks(server, "/-/events", "");
    assert_eq!(full, 503);
    push(&guarded, "private/b.git", "2");
    push(&guarded, "a.git", "3");
    let (id, event) = resumed.event();
    assert_eq!((id, &event["user"], &event["refs"][0]["ref"]), (1, &json!("root"), &json!("refs/heads/1")));
    for hidden in ["peer", "session", "door"] {
        assert_eq!(event[hidden], Value::Null, "{event}");
    }
    assert_eq!(resumed.event().0, 3);
    assert_eq!(anyone.event().0, 3, "what anyone may not read is not told");
    assert_eq!((root.event().0, root.event().0), (2, 3));
    // After a change of the rules, the follower sees no more.
    std::fs::write(guarded.file("rules"), RULES.replace("\"anyone\"", "\"alice\"")).unwrap();
    server.signal("-HUP");
    server.wait_until("the rules", |server| {
        server.get("/a.git/info/refs?service=git-upload-pack").status == 401
    });
    push(&guarded, "a.git", "4");
    assert_eq!(root.event().0, 4);
    std::fs::write(guarded.file("rules"), RULES).unwrap();
    server.signal("-HUP");
    server.wait_until("the rules", |server| {
        server.get("/a.git/info/refs?service=git-upload-pack").status == 200
    });
    push(&guarded, "a.git", "5");
    assert_eq!(anyone.event().0, 5);
    // A stopping server ends the stream properly.
    server.signal("-TERM");
    let mut rest = String::new();
    root.0.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("id: 5\n") && rest.ends_with("0\r\n\r\n"), "{rest}");
}

#[test]
fn there_is_no_stream_without_rules_and_a_journal() {
    let server = Server::start(LOOPBACK, &[], &[]);
    assert_eq!(server.get("/-/events").status, 404);
    let folder = tempfile::tempdir().unwrap();
    let guarded = guarded(&folder.path().join("j"), &[]);
    let ask = |head: &str| http(guarded.server.address("http"), head, b"", Feed::Whole).status;
    assert_eq!(ask("POST /-/events HTTP/1.1"), 405);
    assert_eq!(ask("GET /-/events?from=x HTTP/1.1"), 400);
    assert_eq!(ask("GET /-/events HTTP/1.1\nAuthorization: Basic cm9vdDp3cm9uZw=="), 401);
}

#[test]
fn who_does_not_listen_is_cut_and_delays_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("j");
    // More than sockets hold.
    let (journal, _) = Journal::open(&dir, JournalOptions::default(), Box::new(|_| {})).unwrap();
    let one = |at: usize| RefEvent {
        name: format!("refs/heads/{at:0>200}").into_bytes(),
        old: "0".repeat(40),
        new: "1".repeat(40),
    };
    let event = JournalEvent {
        action: Action::Push,
        time: "2026-11-23T21:00:00Z".into(),
        repository: b"a.git".to_vec(),
        to: None,
        user: None,
        peer: String::new(),
        door: "http".into(),
        session: "before".into(),
        refs: (0..100_000).map(one).collect(),
        options: Vec::new(),
        is_recovered: false,
    };
    journal.record(journal.announce(&event).unwrap(), &event).unwrap();
    let before = journal.durable();
    drop(journal);
    let guarded = guarded(&dir, &[("PACKRACE_SERVE_LIMITS_STALL_TIME", "1s")]);
    let (status, _silent) = Follower::asks(&guarded.server, "/-/events?from=1", "");
    assert_eq!(status, 200);
    let (_, mut listening) = Follower::asks(&guarded.server, "/-/events", "");
    for number in 1..=3 {
        push(&guarded, "a.git", &number.to_string());
        assert_eq!(listening.event().0, before + number);
    }
    let metrics = |server: &Server| {
        let head = "GET /-/metrics HTTP/1.1\nAuthorization: Basic cm9vdDpyb290";
        String::from_utf8(http(server.address("http"), head, b"", Feed::Whole).body).unwrap()
    };
    guarded.server.wait_until("the cut", |server| metrics(server).contains("\npackrace_event_followers 1\n"));
}
