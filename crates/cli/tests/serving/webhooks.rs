//! Webhooks: pushes by stock git are posted, and no kill loses an event.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use super::events::Recorded;
use super::*;

/// Longer than anything takes, unless it hangs.
const HANG: Duration = Duration::from_secs(60);

const SECRET: &str = "a secret for nobody else";

/// The number and body of an event as received, and whether it was accepted.
struct Posted {
    id: u64,
    signature: String,
    body: Value,
    is_taken: bool,
}

/// A receiver that accepts everything and passes it to the channel.
fn receiver() -> (u16, Receiver<Posted>) {
    receiver_while(Arc::new(AtomicBool::new(true)))
}

/// The same, but it responds 503 unless it `is_taking`.
fn receiver_while(is_taking: Arc<AtomicBool>) -> (u16, Receiver<Posted>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, posted) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut headers = std::collections::HashMap::new();
            loop {
                let mut line = String::new();
                // A killed server sends no more.
                if stream.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                    break;
                }
                if let Some((name, value)) = line.trim_end().split_once(": ") {
                    headers.insert(name.to_lowercase(), value.to_owned());
                }
            }
            let length = headers.get("content-length").and_then(|length| length.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            if length.is_none() || stream.read_exact(&mut body).is_err() {
                continue;
            }
            let is_taken = is_taking.load(SeqCst);
            let posted = Posted {
                id: headers["x-packrace-event-id"].parse().unwrap(),
                signature: headers["x-packrace-signature-256"].clone(),
                body: serde_json::from_slice(&body).unwrap(),
                is_taken,
            };
            let status = if is_taken { "204 OK" } else { "503 No" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.get_mut().write_all(answer.as_bytes());
            if sender.send(posted).is_err() {
                return;
            }
        }
    });
    (port, posted)
}

/// A webhook file with a hook to this port, and its secret, in a folder.
fn hooks(dir: &Path, port: u16, more: &str) -> String {
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.display().to_string()
    };
    let secret = write("secret", SECRET);
    let url = format!("http://127.0.0.1:{port}/t0ken");
    write(
        "hooks.toml",
        &format!("[[webhook]]\nname = \"ci\"\nurl = \"{url}\"\nsecret-file = \"{secret}\"\n{more}"),
    )
}

fn metric(server: &Server, line: &str) -> bool {
    let metrics = String::from_utf8(server.get("/-/metrics").body).unwrap();
    metrics.lines().any(|other| other == line)
}

#[test]
fn pushes_are_posted_and_a_kill_loses_none() {
    let dir = tempfile::tempdir().unwrap();
    let (port, posted) = receiver();
    let file = hooks(dir.path(), port, "allow-addresses = [\"127.0.0.1\"]\n");
    let mut recorded = Recorded::start_with("", &format!("webhooks = \"{file}\"\n"));
    let push = |recorded: &Recorded, name: &str| {
        let pushed = recorded.push("http", &[&format!("HEAD:refs/heads/{name}")]);
        assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
    };
    push(&recorded, "one");
    let first = posted.recv_timeout(HANG).unwrap();
    assert_eq!((first.id, &first.body["refs"][0]["ref"]), (1, &"refs/heads/one".into()));
    assert_eq!((&first.body["repository"], first.body.get("peer")), (&"a.git".into(), None));
    assert!(first.signature.starts_with("sha256=") && first.signature.len() == 71, "{}", first.signature);
    let cursor = recorded.journal().join("webhook-ci");
    recorded.server.wait_until("the cursor", |_| std::fs::read_to_string(&cursor).unwrap() == "2\n");
    let delivered = "packrace_webhook_attempts_total{hook=\"ci\",outcome=\"delivered\"} 1";
    recorded.server.wait_until("the number", |server| metric(server, delivered));
    assert!(metric(&recorded.server, "packrace_webhook_lag{hook=\"ci\"} 0"));
    assert!(metric(&recorded.server, "packrace_webhook_lost_events_total{hook=\"ci\",reason=\"gone\"} 0"));
    let before = recorded.server.log();

    // It continues at its cursor; an event that was sent but not recorded is sent again, with the same
    // number.
    recorded.kill_and_start();
    push(&recorded, "two");
    assert_eq!(posted.recv_timeout(HANG).unwrap().id, 2);
    recorded.kill_and_start();
    push(&recorded, "three");
    let next = posted.recv_timeout(HANG).unwrap().id;
    assert!([2, 3].contains(&next), "{next}");
    if next == 2 {
        assert_eq!(posted.recv_timeout(HANG).unwrap().id, 3);
    }
    for log in [before, recorded.server.log()] {
        assert!(log.contains("webhook ci: started at event"), "{log}");
        assert!(!log.contains(SECRET) && !log.contains("t0ken"), "{log}");
    }
    // The server stops at once, whatever receivers do.
    recorded.server.signal("-TERM");
    let status = recorded.server.child.wait().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn what_was_acknowledged_and_not_posted_before_a_kill_is_posted_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let is_taking = Arc::new(AtomicBool::new(false));
    let (port, posted) = receiver_while(is_taking.clone());
    let file = hooks(dir.path(), port, "allow-addresses = [\"127.0.0.1\"]\n");
    let mut recorded = Recorded::start_with("", &format!("webhooks = \"{file}\"\n"));
    // Pushes do not wait for the receiver.
    for name in ["one", "two", "three"] {
        assert!(recorded.push("http", &[&format!("HEAD:refs/heads/{name}")]).status.success());
    }
    assert_eq!(posted.recv_timeout(HANG).unwrap().id, 1);
    recorded.server.child.kill().unwrap();
    is_taking.store(true, SeqCst);
    recorded.kill_and_start();
    let mut taken = Vec::new();
    while taken.last() != Some(&3) {
        let one = posted.recv_timeout(HANG).unwrap();
        taken.extend(one.is_taken.then_some(one.id));
    }
    // An attempt during the kill may have been accepted; then it is sent again.
    taken.dedup();
    assert_eq!(taken, [1, 2, 3]);
}

#[test]
fn sighup_has_the_file_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let allowed = "allow-addresses = [\"127.0.0.1\"]\n";
    // This receiver accepts nothing.
    let (wrong, misled) = receiver_while(Arc::default());
    let (port, posted) = receiver();
    let file = hooks(dir.path(), wrong, allowed);
    let recorded = Recorded::start_with("", &format!("webhooks = \"{file}\"\n"));
    let push = |name: &str| {
        assert!(recorded.push("http", &[&format!("HEAD:refs/heads/{name}")]).status.success());
    };
    push("one");
    assert_eq!(misled.recv_timeout(HANG).unwrap().id, 1);
    // New files replace the existing ones, as with an editor.
    for name in ["hooks.toml", "secret"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    hooks(dir.path(), port, allowed);
    recorded.server.signal("-HUP");
    assert_eq!(posted.recv_timeout(HANG).unwrap().id, 1);

    // An invalid file changes nothing.
    std::fs::write(dir.path().join("hooks.toml"), "\n[[webhook]]\nname = \"t0ken\n").unwrap();
    recorded.server.signal("-HUP");
    let words = format!("reload failed, settings unchanged: events.webhooks: {file}:3:");
    recorded.server.wait_until("the complaint", |server| server.log().contains(&words));
    assert!(!recorded.server.log().contains("t0ken"), "{}", recorded.server.log());
    push("two");
    assert_eq!(posted.recv_timeout(HANG).unwrap().id, 2);
    // No more hooks.
    std::fs::write(dir.path().join("hooks.toml"), "").unwrap();
    recorded.server.signal("-HUP");
    recorded.server.wait_until("the end", |server| {
        !String::from_utf8(server.get("/-/metrics").body).unwrap().contains("{hook=\"ci\"")
    });
    push("three");
    assert!(posted.try_recv().is_err());
}

#[test]
fn private_addresses_need_leave() {
    let dir = tempfile::tempdir().unwrap();
    let (port, posted) = receiver();
    let file = hooks(dir.path(), port, "");
    let recorded = Recorded::start_with("", &format!("webhooks = \"{file}\"\nwebhook-retry-time = 0\n"));
    assert!(recorded.push("http", &["HEAD:refs/heads/one"]).status.success());
    let given_up = "packrace_webhook_lost_events_total{hook=\"ci\",reason=\"given-up\"} 1";
    recorded.server.wait_until("the number", |server| metric(server, given_up));
    assert!(metric(
        &recorded.server,
        "packrace_webhook_attempts_total{hook=\"ci\",outcome=\"address-refused\"} 1"
    ));
    let words = "webhook ci: event 1 dropped: address 127.0.0.1 is not public";
    assert!(recorded.server.log().contains(words), "{}", recorded.server.log());
    assert!(posted.try_recv().is_err());
}

#[test]
fn a_server_does_not_start_with_hooks_that_are_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let file = hooks(dir.path(), 1, "");
    let serve = |args: &[&str]| {
        let mut command = packrace();
        command
            .args(["serve", "--set", "listen.http=127.0.0.1:0", "--set"])
            .arg(format!("events.webhooks={file}"));
        let output = output(command.args(args).arg(dir.path()));
        assert_eq!(output.status.code(), Some(128));
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(serve(&[]), "fatal: events.webhooks: needs events.journal\n");
    let journal = format!("events.journal={}", dir.path().join("journal").display());
    let said = serve(&["--set", &journal, "--set", "events.webhook-timeout=0"]);
    assert_eq!(said, "fatal: events.webhook-timeout: must be greater than 0\n");
    std::fs::remove_file(dir.path().join("secret")).unwrap();
    let said = serve(&["--set", &journal]);
    assert!(said.starts_with(&format!("fatal: events.webhooks: {file}:1:1: ci: secret-file: ")), "{said}");
    assert!(!said.contains("t0ken"), "{said}");
}
