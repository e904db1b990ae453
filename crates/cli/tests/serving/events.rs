//! The journal of events: every push that was acknowledged to its client has a line.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use serde_json::{Value, json};

use super::hostile::PUSHING;
use super::*;

/// A folder for a server with a journal.
pub(super) struct Recorded {
    pub(super) server: Server,
    clone: tempfile::TempDir,
    config: String,
}

impl Recorded {
    pub(super) fn start(more: &str) -> Self {
        Recorded::start_with(more, "")
    }

    /// With additional tables of settings, and additional settings of events.
    pub(super) fn start_with(more: &str, of_events: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        RepoBuilder::new(Size::Tiny).build_at(&root.join("a.git"), Git::stock());
        Git::stock().run(&root.join("a.git"), &["config", "receive.advertisePushOptions", "true"]);
        let journal = folder.path().join("journal").display().to_string();
        let config = format!("{PUSHING}{more}[events]\njournal = \"{journal}\"\n{of_events}");
        let server = Server::start_for(folder, &root, &config, &[], &[]);
        let clone = tempfile::tempdir().unwrap();
        let from = server.repository();
        Git::stock().run(clone.path(), &["clone", "-q", "--bare", from.to_str().unwrap(), "c"]);
        Recorded { server, clone, config }
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.server.folder.path().join("journal")
    }

    /// Kills the server and starts another.
    pub(super) fn kill_and_start(&mut self) {
        self.server.child.kill().unwrap();
        self.server.child.wait().unwrap();
        let folder = std::mem::replace(&mut self.server.folder, tempfile::tempdir().unwrap());
        let root = folder.path().join("root");
        self.server = Server::start_for(folder, &root, &self.config, &[], &[]);
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/a.git", self.server.address(scheme))
    }

    pub(super) fn push(&self, scheme: &str, args: &[&str]) -> Output {
        let mut git = Command::new("git");
        clean_environment(&mut git);
        git.current_dir(self.clone.path().join("c")).args(["push", "-q"]).args(&args[1..]);
        output(git.arg(self.url(scheme)).arg(args[0]))
    }

    pub(super) fn lines(&self, args: &[&str]) -> Vec<Value> {
        let read = output(packrace().args(["events", "follow", "--no-wait"]).args(args).arg(self.journal()));
        assert!(read.status.success() && read.stderr.is_empty(), "{}", String::from_utf8_lossy(&read.stderr));
        let text = String::from_utf8(read.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(super) fn tip(&self) -> String {
        Git::stock().run(&self.clone.path().join("c"), &["rev-parse", "HEAD"]).trim().to_owned()
    }
}

#[test]
fn each_push_is_a_line() {
    let recorded = Recorded::start("");
    assert_eq!(recorded.lines(&[]), Vec::<Value>::new());
    let (tip, none) = (recorded.tip(), "0".repeat(40));
    let ok = |output: Output| assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ok(recorded.push("http", &["HEAD:refs/heads/one", "-o", "ci.skip"]));
    ok(recorded.push("git", &["HEAD:refs/heads/two"]));
    ok(recorded.push("http", &[":refs/heads/one"]));
    let lines = recorded.lines(&[]);
    let expect = [
        json!({"ref": "refs/heads/one", "old": none, "new": tip}),
        json!({"ref": "refs/heads/two", "old": none, "new": tip}),
        json!({"ref": "refs/heads/one", "old": tip, "new": none}),
    ];
    for ((at, line), expect) in lines.iter().enumerate().zip(expect) {
        assert_eq!((&line["seq"], &line["event"]), (&json!(at + 1), &json!("push")), "{line}");
        assert_eq!((&line["repository"], &line["user"]), (&json!("a.git"), &Value::Null), "{line}");
        assert_eq!(line["refs"], json!([expect]));
        assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
        assert!(line["time"].as_str().unwrap().ends_with('Z') && line["session"].is_string(), "{line}");
    }
    assert_eq!(
        (lines.len(), &lines[0]["options"], &lines[1]["door"]),
        (3, &json!(["ci.skip"]), &json!("git"))
    );
    assert_eq!(recorded.lines(&["--from", "3"]).len(), 1);
    assert_eq!(recorded.lines(&["--repository", "a"]).len(), 3);
    assert_eq!(recorded.lines(&["--repository", "b/**"]).len(), 0);

    // Refused changes have no line: a hook refuses one of two refs.
    let hook = recorded.server.repository().join("hooks/update");
    packrace_testkit::write_program(&hook, "#!/bin/sh\ntest \"$1\" != refs/heads/no\n");
    let refused = recorded.push("http", &["HEAD:refs/heads/no"]);
    assert!(!refused.status.success());
    let body = recorded.push("http", &["refs/heads/*:refs/heads/x/*"]);
    assert!(body.status.success());
    let lines = recorded.lines(&["--from", "4"]);
    assert_eq!(lines.len(), 1);
    let metrics = String::from_utf8(recorded.server.get("/-/metrics").body).unwrap();
    assert!(metrics.contains("\npackrace_events_recorded_total 4\n"), "{metrics}");
    assert_eq!(std::fs::read_dir(recorded.journal()).unwrap().count(), 2, "a segment and the lock");
}

#[test]
fn a_follower_sees_what_comes() {
    let recorded = Recorded::start("");
    let mut command = packrace();
    command.args(["events", "follow"]).arg(recorded.journal()).stdout(Stdio::piped());
    let mut follower = command.spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    for number in 1..=3 {
        assert!(recorded.push("http", &[&format!("HEAD:refs/heads/{number}")]).status.success());
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["seq"], number);
    }
    follower.kill().unwrap();
    follower.wait().unwrap();
    let nothing = output(packrace().args(["events", "follow", "/nowhere"]));
    assert_eq!(String::from_utf8_lossy(&nothing.stderr), "fatal: /nowhere: no event journal\n");
}

#[test]
fn what_cannot_be_recorded_does_not_change() {
    let recorded = Recorded::start("");
    // The directory is moved away.
    std::fs::rename(recorded.journal(), recorded.server.folder.path().join("gone")).unwrap();
    let refused = recorded.push("http", &["HEAD:refs/heads/new"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("server cannot record changes") && said.contains("(cannot be recorded)"), "{said}");
    assert!(!said.contains("journal/"), "{said}");
    let refs = Git::stock().run(&recorded.server.repository(), &["for-each-ref", "refs/heads/new"]);
    assert_eq!(refs, "");
    std::fs::rename(recorded.server.folder.path().join("gone"), recorded.journal()).unwrap();
    assert!(recorded.push("http", &["HEAD:refs/heads/new"]).status.success());
    assert_eq!(recorded.lines(&[]).len(), 1);
    // Only one server can write.
    let mut second = packrace();
    second
        .args(["serve", "--config"])
        .arg(recorded.server.config())
        .arg(recorded.server.folder.path().join("root"));
    let second = output(&mut second);
    assert!(String::from_utf8_lossy(&second.stderr).contains("in use by another process"), "{second:?}");
    let mut shell = packrace();
    shell.args(["shell", "--config"]).arg(recorded.server.config());
    shell
        .arg(recorded.server.folder.path().join("root"))
        .arg("alice")
        .env("SSH_ORIGINAL_COMMAND", "git-receive-pack 'a.git'");
    let shell = output(&mut shell);
    let said = String::from_utf8_lossy(&shell.stderr).into_owned();
    assert!(
        !shell.status.success() && said.contains("pushes are only possible through the running server"),
        "{said}"
    );
}

#[test]
fn what_a_kill_came_before_is_recorded_at_the_next_start() {
    let mut recorded = Recorded::start("");
    let (tip, none) = (recorded.tip(), "0".repeat(40));
    Git::stock().run(&recorded.server.repository(), &["update-ref", "refs/heads/moved", &tip]);
    // As the server writes it before refs change.
    let announced = json!({
        "action": "push", "time": "2026-11-23T21:00:00Z", "repository": b"a.git", "to": null, "user": "alice",
        "peer": "192.0.2.7:1", "door": "http", "session": "killed", "options": [], "is_recovered": false,
        "refs": [{"name": "refs/heads/moved", "old": none, "new": tip}, {"name": "refs/heads/not", "old": none, "new": tip}],
    });
    std::fs::write(recorded.journal().join("pending-0"), announced.to_string()).unwrap();
    recorded.kill_and_start();
    let lines = recorded.lines(&[]);
    assert_eq!((lines.len(), &lines[0]["recovered"], &lines[0]["user"]), (1, &json!(true), &json!("alice")));
    assert_eq!(lines[0]["refs"], json!([{"ref": "refs/heads/moved", "old": none, "new": tip}]));
    recorded.kill_and_start();
    assert_eq!(recorded.lines(&[]).len(), 1);
}

#[test]
fn kills_lose_no_push_that_a_client_saw_acknowledged() {
    const ROUNDS: usize = 6;
    let mut recorded = Recorded::start("[log]\nlevel = \"warn\"\n");
    let acknowledged = Mutex::new(Vec::new());
    for round in 0..ROUNDS {
        let (is_over, begun) = (AtomicBool::new(false), std::sync::mpsc::channel());
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (recorded, acknowledged, is_over, begun) =
                    (&recorded, &acknowledged, &is_over, begun.0.clone());
                scope.spawn(move || {
                    for number in 0.. {
                        let name = format!("refs/heads/{round}/{thread}/{number}");
                        let pushed = recorded.push(["http", "git"][thread], &[&format!("HEAD:{name}")]);
                        if pushed.status.success() {
                            acknowledged.lock().unwrap().push(name);
                            let _ = begun.send(());
                        }
                        if is_over.load(SeqCst) || !pushed.status.success() {
                            return;
                        }
                    }
                });
            }
            // Each round kills the server at another moment of a push.
            begun.1.recv().unwrap();
            (0..round * 200_000).for_each(|turn| {
                std::hint::black_box(turn);
            });
            recorded.server.signal("-KILL");
            is_over.store(true, SeqCst);
        });
        recorded.kill_and_start();
    }
    let lines = recorded.lines(&[]);
    let mut recorded_refs = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        assert_eq!(line["seq"], at + 1);
        for one in line["refs"].as_array().unwrap() {
            let before = recorded_refs.insert(one["ref"].as_str().unwrap().to_owned(), line["seq"].clone());
            assert_eq!(before, None, "{line}");
        }
    }
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.len() >= ROUNDS, "{acknowledged:?}");
    for name in &acknowledged {
        assert!(recorded_refs.contains_key(name), "{name}");
    }
    // No other ref has changed, acknowledged or not.
    let refs = Git::stock()
        .run(&recorded.server.repository(), &["for-each-ref", "--format=%(refname)", "refs/heads/*/*/*"]);
    assert_eq!(refs.lines().collect::<Vec<_>>(), recorded_refs.keys().collect::<Vec<_>>());
    assert_eq!(
        std::fs::read_dir(recorded.journal())
            .unwrap()
            .filter(|entry| { entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("pending") })
            .count(),
        0
    );
}

#[test]
fn repositories_that_come_and_go_have_lines() {
    const RULES: &str = "admins = [\"root\"]\n[[rule]]\nrepository = \"**\"\nwho = \"root\"\nallow = [\"read\", \"write\", \"create\"]\n";
    let journal = tempfile::tempdir().unwrap();
    let journal = journal.path().join("j").display().to_string();
    let guarded = access::Guarded::start_with(RULES, &[("PACKRACE_SERVE_EVENTS_JOURNAL", &journal)]);
    let ask = |method: &str, path: &str, body: &str| {
        let head = format!(
            "{method} /-/api/v1/repositories{path} HTTP/1.1\nAuthorization: Basic cm9vdDpyb290\nContent-Type: application/json"
        );
        http(guarded.server.address("http"), &head, body.as_bytes(), Feed::Whole).status
    };
    assert_eq!(ask("POST", "", "{\"name\":\"team/tool\"}"), 201);
    assert_eq!(ask("POST", "", "{\"name\":\"team/tool\"}"), 409);
    assert_eq!(ask("PATCH", "/team%2Ftool", "{\"name\":\"new\"}"), 200);
    assert_eq!(ask("DELETE", "/new", ""), 200);
    let read = output(packrace().args(["events", "follow", "--no-wait", &journal]));
    let text = String::from_utf8(read.stdout).unwrap();
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["user"], line.get("refs")), (&json!("root"), None), "{line}");
        json!([line["event"], line["repository"], line["to"]])
    });
    let expect = [
        json!(["create", "team/tool.git", null]),
        json!(["rename", "team/tool.git", "new.git"]),
        json!(["delete", "new.git", null]),
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expect);
}
