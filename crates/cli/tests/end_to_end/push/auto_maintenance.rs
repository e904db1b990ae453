//! Maintenance after a push to a process that ends with the push: `receive.autogc`, `gc.autoPackLimit`,
//! `gc.auto`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use packrace_object::{HashKind, Kind, object_id};
use packrace_testkit::peer::Script;
use packrace_testkit::{Git, clean_environment};

use super::Pair;
use crate::running::{PACKRACE, packrace};

/// Time limit for the background process.
const LONGEST: Duration = Duration::from_secs(60);

/// Each push is kept as a pack, and the third one exceeds the limit.
const SETTINGS: [(&str, &str); 2] = [("receive.unpackLimit", "1"), ("gc.autoPackLimit", "2")];

fn packs(server: &Path) -> usize {
    let names = std::fs::read_dir(server.join("objects/pack")).unwrap();
    names.filter(|name| name.as_ref().unwrap().path().extension().is_some_and(|end| end == "pack")).count()
}

fn push_commits(pair: &Pair, count: usize) {
    for _ in 0..count {
        let before = pair.id("HEAD");
        pair.commit(&before);
        let output = pair.push(&["HEAD:refs/heads/main"]);
        assert!(output.status.success(), "{output:?}");
    }
}

/// A pair whose server has no pack yet, or one.
fn pair(settings: &[(&str, &str)]) -> Pair {
    let pair = Pair::new();
    pair.config(&SETTINGS);
    pair.config(settings);
    pair
}

#[test]
fn packs_that_pushes_leave_are_made_one() {
    for setting in ["maintenance.autoDetach", "gc.autoDetach"] {
        let pair = pair(&[(setting, "false")]);
        push_commits(&pair, 2);
        assert_eq!(packs(&pair.server()), 2);
        push_commits(&pair, 1);
        assert_eq!(packs(&pair.server()), 1, "{setting}");
        pair.check_sound();
    }
}

#[test]
fn nobody_waits_for_it() {
    let pair = pair(&[]);
    push_commits(&pair, 3);
    check_made_one(&pair);
}

/// `--detach` does the same for requested maintenance.
#[test]
fn asked_for_in_the_background() {
    let pair = pair(&[("receive.autogc", "false")]);
    push_commits(&pair, 3);
    let output = packrace(&pair.server(), &["maintenance", "run", "--detach", "--task=geometric-repack"], "");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    check_made_one(&pair);
}

/// Waits until the background process has combined all packs.
#[track_caller]
fn check_made_one(pair: &Pair) {
    let mut waited = Duration::ZERO;
    while packs(&pair.server()) != 1 || pair.server().join("objects/maintenance.lock").exists() {
        assert!(waited < LONGEST, "{} packs", packs(&pair.server()));
        std::thread::sleep(Duration::from_millis(20));
        waited += Duration::from_millis(20);
    }
    pair.check_sound();
}

#[test]
fn settings_turn_it_off() {
    for setting in [
        ("receive.autogc", "false"),
        ("maintenance.auto", "false"),
        ("gc.auto", "0"),
        ("gc.autoPackLimit", "0"),
    ] {
        let pair = pair(&[("gc.autoDetach", "false"), setting]);
        push_commits(&pair, 4);
        assert_eq!(packs(&pair.server()), 4, "{setting:?}");
    }
}

/// As in git, one directory of 256 is counted: two objects in it exceed the limit.
#[test]
fn loose_objects_count() {
    let pair = pair(&[("gc.autoDetach", "false"), ("gc.auto", "1"), ("receive.unpackLimit", "1000")]);
    let blobs = (0..).map(|number: u32| number.to_string());
    let is_counted = |blob: &String| {
        let id = object_id(HashKind::Sha1, Kind::Blob, blob.as_bytes()).unwrap();
        id.to_string().starts_with("17")
    };
    for blob in blobs.filter(is_counted).take(2) {
        push_commits(&pair, 1);
        assert_eq!(packs(&pair.server()), 0);
        Git::stock().run_with_input(&pair.server(), &["hash-object", "-w", "--stdin"], blob.as_bytes());
    }
    push_commits(&pair, 1);
    assert_eq!(packs(&pair.server()), 1);
    pair.check_sound();
}

/// Over HTTP, the program that a web server starts does the same.
#[test]
fn behind_a_web_server() {
    let pair = pair(&[("gc.autoDetach", "false")]);
    push_commits(&pair, 2);
    let old = pair.id("HEAD");
    pair.commit("over-http");
    let new = pair.id("HEAD");
    let command = format!("{old} {new} refs/heads/main\0 report-status");
    let pack = pair.pack(&format!("{new}\n^{old}\n"));
    let body = Script::new().data(command.as_bytes()).flush().raw(&pack);
    let mut cgi = Command::new(PACKRACE);
    clean_environment(&mut cgi);
    cgi.arg("http-backend").envs([
        ("REQUEST_METHOD", "POST"),
        ("PATH_INFO", "/srv.git/git-receive-pack"),
        ("CONTENT_TYPE", "application/x-git-receive-pack-request"),
        ("GIT_HTTP_EXPORT_ALL", "1"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
    ]);
    cgi.env("CONTENT_LENGTH", body.bytes().len().to_string()).env("GIT_PROJECT_ROOT", pair.root());
    let reply = super::fed(&mut cgi, body.bytes());
    let said = super::text(&reply.stdout);
    assert!(said.contains("ok refs/heads/main"), "{said}{}", super::text(&reply.stderr));
    assert_eq!(packs(&pair.server()), 1);
    pair.check_sound();
}
