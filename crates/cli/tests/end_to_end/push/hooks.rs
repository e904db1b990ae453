//! Hooks compared with those that git runs: their input, their order, and their effects.

use std::collections::BTreeMap;
use std::path::Path;

use packrace_testkit::peer::{self, Feed};
use packrace_testkit::{Git, clean_environment, write_program};

use super::{Pair, ZERO, commands, fed, refs_of, said, text};
use crate::running::{PACKRACE, Server, assert_no_panic, copy};

/// Records its input in `RECORD/<number>-<hook>`, and exits with the code in `RECORD/../exit-<hook>`.
const RECORDER: &str = r#"#!/bin/sh
dir="$(cat "$(dirname "$0")/record-to")"
name="$(basename "$0")"
number=$(ls "$dir" | wc -l)
{
    echo "arguments: $*"
    echo "directory: $(pwd)"
    env | grep -E '^(GIT_|REMOTE_)' | sort
    case "$name" in update|post-update|push-to-checkout) ;; *) cat ;; esac
    git cat-file -t "$(cat "$(dirname "$0")/new-id")" 2>&1
} >"$dir/$number-$name" 2>&1
echo "$name speaks"
echo "$name complains" >&2
exit "$(cat "$(dirname "$0")/exit-$name" 2>/dev/null || echo 0)"
"#;

const HOOKS: [&str; 4] = ["pre-receive", "update", "post-receive", "post-update"];

/// Installs hooks that record their input.
fn record(repository: &Path, new_id: &str, names: &[&str]) {
    let hooks = repository.join("hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    let records = repository.join("records");
    std::fs::create_dir(&records).unwrap();
    std::fs::write(hooks.join("record-to"), records.to_str().unwrap()).unwrap();
    std::fs::write(hooks.join("new-id"), new_id).unwrap();
    for name in names {
        write_program(&hooks.join(name), RECORDER);
    }
}

/// Variables of CGI and of the way in which the tests start git, which hooks inherit.
const NOT_COMPARED: [&str; 5] =
    ["GIT_EXEC_PATH=", "GIT_PROJECT_ROOT=", "GIT_HTTP_EXPORT_ALL=", "GIT_PREFIX=", "GIT_AUTHOR_"];

/// The input of the hooks, without the name of the quarantine and the place of the repository.
fn records(repository: &Path) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(repository.join("records")).unwrap() {
        let entry = entry.unwrap();
        let place = repository.to_str().unwrap();
        let lines = std::fs::read_to_string(entry.path()).unwrap();
        let lines = lines.lines().filter(|line| !NOT_COMPARED.iter().any(|name| line.starts_with(name)));
        let lines = lines.map(|line| {
            let line = line.replace(place, "{repository}").replace("/./", "/");
            match line.split_once("tmp_objdir-incoming-") {
                Some((before, after)) => {
                    let after = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
                    format!("{before}{{quarantine}}{after}")
                }
                None => line,
            }
        });
        found.insert(entry.file_name().into_string().unwrap(), lines.collect());
    }
    // Newer versions of git, and packrace, delete refs before they change others; 2.47 does not.
    let (names, mut updates): (Vec<String>, Vec<Vec<String>>) = found
        .iter()
        .filter(|(name, _)| name.ends_with("-update"))
        .filter(|(name, _)| !name.contains("post"))
        .map(|(name, lines)| (name.clone(), lines.clone()))
        .unzip();
    updates.sort();
    found.extend(names.into_iter().zip(updates));
    found
}

/// The request for both: two refs are created, one is deleted, one is changed.
fn request(pair: &Pair, capabilities: &str, options: Option<&[&str]>) -> Vec<u8> {
    let (old, new) = (pair.id("HEAD~2"), pair.id("HEAD"));
    let lines = [
        format!("{ZERO} {new} refs/heads/new"),
        format!("{old} {new} refs/heads/main"),
        format!("{old} {ZERO} refs/heads/old"),
        format!("{ZERO} {ZERO} refs/heads/nothing"),
        format!("{ZERO} {new} refs/tags/funny..name"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut script = commands(capabilities, &lines);
    if let Some(options) = options {
        script = options.iter().fold(script, |script, option| script.data(option.as_bytes())).flush();
    }
    script.raw(&pair.pack(&format!("{new}\n^{old}\n"))).bytes().to_vec()
}

fn prepared() -> Pair {
    let pair = Pair::new();
    Git::stock().run(&pair.server(), &["update-ref", "refs/heads/old", &pair.id("HEAD~2")]);
    Git::stock()
        .run(&pair.server(), &["update-ref", "refs/namespaces/n/refs/heads/main", &pair.id("HEAD~2")]);
    Git::stock().run(&pair.server(), &["update-ref", "refs/namespaces/n/refs/heads/old", &pair.id("HEAD~2")]);
    pair
}

/// Sends the same request to git and packrace in equal repositories; the input of hooks must be equal, too.
fn check(
    request: &[u8],
    pair: &Pair,
    variables: &[(&str, &str)],
    exits: &[(&str, &str)],
) -> BTreeMap<String, Vec<String>> {
    let mut recorded = Vec::new();
    let mut refs = Vec::new();
    for program in ["git", "packrace"] {
        let repository = pair.root().join(format!("{program}.git"));
        copy(&pair.server(), &repository);
        record(&repository, &pair.id("HEAD"), &HOOKS);
        for (name, code) in exits {
            std::fs::write(repository.join("hooks").join(format!("exit-{name}")), code).unwrap();
        }
        let mut command = match program {
            "packrace" => std::process::Command::new(PACKRACE),
            _ => Git::stock().command(pair.root()),
        };
        clean_environment(&mut command);
        command.current_dir(pair.root()).envs(variables.iter().copied());
        command.args(["receive-pack", "--stateless-rpc"]).arg(&repository);
        let output = fed(&mut command, request);
        assert_no_panic(&text(&output.stderr));
        assert!(output.status.success(), "{program}: {}", said(&output));
        recorded.push(records(&repository));
        refs.push(refs_of(&repository));
        std::fs::remove_dir_all(&repository).unwrap();
    }
    assert_eq!(recorded[0], recorded[1], "what git's hooks are told, and what ours are");
    assert_eq!(refs[0], refs[1]);
    recorded.swap_remove(1)
}

#[test]
fn hooks_are_told_what_gits_are() {
    let pair = prepared();
    pair.config(&[("receive.advertisePushOptions", "true"), ("receive.unpackLimit", "1")]);
    let plain = request(&pair, "report-status side-band-64k", None);
    let recorded = check(&plain, &pair, &[], &[]);
    let names: Vec<&str> = recorded.keys().map(String::as_str).collect();
    assert_eq!(names[0], "0-pre-receive");
    assert!(names.contains(&"6-post-update"), "{names:?}");
    assert!(recorded["0-pre-receive"].iter().any(|line| line.contains("{quarantine}")), "{recorded:?}");
    let options = ["a=b", "", "two words"];
    let with = request(&pair, "report-status push-options", Some(&options));
    let recorded = check(&with, &pair, &[], &[]);
    assert!(recorded["0-pre-receive"].contains(&"GIT_PUSH_OPTION_2=two words".to_owned()), "{recorded:?}");
    check(&request(&pair, "push-options atomic", Some(&[])), &pair, &[("GIT_PUSH_OPTION_COUNT", "7")], &[]);
    check(&plain, &pair, &[("GIT_NAMESPACE", "n")], &[]);
    check(&plain, &pair, &[], &[("update", "1")]);
    check(&plain, &pair, &[], &[("post-receive", "1"), ("post-update", "3")]);
    let recorded = check(&plain, &pair, &[], &[("pre-receive", "1")]);
    assert_eq!(recorded.len(), 1);
    check(&request(&pair, "atomic report-status", None), &pair, &[], &[]);
    let gone = format!("{} {ZERO} refs/heads/old", pair.id("HEAD~2"));
    let recorded = check(commands("report-status", &[&gone]).bytes(), &pair, &[], &[]);
    assert!(
        !recorded["0-pre-receive"].iter().any(|line| line.contains("GIT_QUARANTINE_PATH")),
        "{recorded:?}"
    );
}

/// The environment of hooks under git's http-backend, as a web server would start it, compared with our
/// transport.
#[test]
fn hooks_are_told_the_same_over_http() {
    let pair = prepared();
    pair.config(&[("receive.advertisePushOptions", "true"), ("receive.unpackLimit", "1")]);
    let body = request(&pair, "report-status side-band-64k push-options", Some(&["x"]));
    let mut recorded = Vec::new();
    for program in ["git", "packrace"] {
        let repository = pair.root().join("http.git");
        copy(&pair.server(), &repository);
        record(&repository, &pair.id("HEAD"), &HOOKS);
        if program == "git" {
            let mut command = Git::stock().command(pair.root());
            command.args(["http-backend"]).env_remove("GIT_COMMITTER_NAME").env_remove("GIT_COMMITTER_EMAIL");
            command.env("GIT_PROJECT_ROOT", pair.root()).env("GIT_HTTP_EXPORT_ALL", "1");
            command.env("PATH_INFO", "/http.git/git-receive-pack").env("REQUEST_METHOD", "POST");
            command.env("CONTENT_TYPE", "application/x-git-receive-pack-request");
            command.env("REMOTE_ADDR", "127.0.0.1").env("CONTENT_LENGTH", body.len().to_string());
            let output = fed(&mut command, &body);
            assert!(said(&output).contains("application/x-git-receive-pack-result"), "{}", said(&output));
        } else {
            let server = Server::start_without(pair.root(), &["GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"]);
            let head = "POST /http.git/git-receive-pack HTTP/1.1\nContent-Type: application/x-git-receive-pack-request";
            assert_eq!(peer::http(server.http, head, &body, Feed::Whole).status, 200);
        }
        recorded.push(records(&repository));
        std::fs::remove_dir_all(&repository).unwrap();
    }
    assert_eq!(recorded[0], recorded[1]);
    let lines = &recorded[1]["0-pre-receive"];
    assert!(lines.contains(&"GIT_COMMITTER_EMAIL=anonymous@http.127.0.0.1".to_owned()), "{lines:?}");
    assert!(lines.contains(&"REMOTE_ADDR=127.0.0.1".to_owned()), "{lines:?}");
}

#[test]
fn what_hooks_say_reaches_the_user() {
    let pair = Pair::new();
    record(&pair.server(), &pair.id("HEAD"), &HOOKS);
    let output = pair.push(&["HEAD:refs/heads/new"]);
    for name in HOOKS {
        for what in ["speaks", "complains"] {
            assert!(said(&output).contains(&format!("remote: {name} {what}")), "{}", said(&output));
        }
    }
    assert!(output.status.success());
}

#[test]
fn hooks_say_no() {
    let pair = Pair::new();
    let hooks = pair.server().join("hooks");
    write_program(&hooks.join("pre-receive"), "#!/bin/sh\necho no; exit 1\n");
    let before = pair.refs();
    let output = pair.push(&["HEAD:refs/heads/new", "HEAD:refs/heads/main"]);
    assert!(
        said(&output).contains("[remote rejected] HEAD -> new (pre-receive hook declined)"),
        "{}",
        said(&output)
    );
    assert_eq!(pair.refs(), before);
    let id = pair.id("HEAD");
    let found = Git::stock().command(&pair.server()).args(["cat-file", "-e", &id]).output().unwrap();
    assert!(!found.status.success(), "objects of a push that was refused are gone");
    // In the quarantine, refs cannot be changed.
    write_program(
        &hooks.join("pre-receive"),
        "#!/bin/sh\nread old new name; git update-ref refs/heads/sneaked $new\n",
    );
    let output = pair.push(&["HEAD:refs/heads/new"]);
    assert!(
        said(&output).contains("ref updates forbidden inside quarantine environment"),
        "{}",
        said(&output)
    );
    assert_eq!(pair.refs(), before);
    std::fs::remove_file(hooks.join("pre-receive")).unwrap();
    write_program(&hooks.join("update"), "#!/bin/sh\ntest $1 != refs/heads/bad\n");
    let output = pair.push(&["HEAD:refs/heads/good", "HEAD:refs/heads/bad"]);
    assert!(said(&output).contains("[remote rejected] HEAD -> bad (hook declined)"), "{}", said(&output));
    assert!(
        said(&output).contains("remote: error: hook declined to update refs/heads/bad"),
        "{}",
        said(&output)
    );
    assert!(pair.refs().contains("refs/heads/good") && !pair.refs().contains("refs/heads/bad"));
    let output = pair.push(&["--atomic", "HEAD:refs/heads/more", "HEAD:refs/heads/bad"]);
    assert!(said(&output).contains("HEAD -> more (atomic push failure)"), "{}", said(&output));
    assert!(!pair.refs().contains("refs/heads/more"));
    std::fs::remove_file(hooks.join("update")).unwrap();
    write_program(&hooks.join("reference-transaction"), "#!/bin/sh\ntest $1 != prepared\n");
    let output = pair.push(&["HEAD:refs/heads/vetoed"]);
    assert!(said(&output).contains("HEAD -> vetoed (failed to update refs)"), "{}", said(&output));
    std::fs::remove_file(hooks.join("reference-transaction")).unwrap();
    write_program(&hooks.join("pre-receive"), "#!/no/such/interpreter\n");
    let output = pair.push(&["HEAD:refs/heads/new"]);
    assert!(said(&output).contains("(pre-receive hook declined)"), "{}", said(&output));
    pair.check_sound();
}

/// The pusher is told the signal; git tells it where `receive-pack` runs.
#[test]
fn hooks_that_are_killed() {
    let pair = Pair::new();
    for (name, is_refused) in [("pre-receive", true), ("update", true), ("post-receive", false)] {
        let hook = pair.server().join("hooks").join(name);
        write_program(&hook, "#!/bin/sh\nkill -9 $$\n");
        let output = pair.push(&[&format!("HEAD:refs/heads/{name}")]);
        let words = format!("error: hooks/{name} died of signal 9");
        assert_eq!(
            (said(&output).contains(&words), output.status.success()),
            (true, !is_refused),
            "{}",
            said(&output)
        );
        write_program(&hook, "#!/bin/sh\nkill -PIPE $$\n");
        let output = pair.push(&[&format!("HEAD:refs/heads/pipe-{name}")]);
        assert!(!said(&output).contains("died of signal"), "{}", said(&output));
        std::fs::remove_file(hook).unwrap();
    }
    pair.check_sound();
}

/// A hook that reports on its commands as a script says; `{}` stands for its input.
fn proc_receive(pair: &Pair, answer: &str) {
    let path = pair.server().join("hooks/proc-receive");
    let text = format!(
        r#"#!/usr/bin/env python3
import sys, os
def read():
    size = int(sys.stdin.buffer.read(4), 16)
    return sys.stdin.buffer.read(size - 4) if size else None
def section():
    lines = []
    while (line := read()) is not None: lines.append(line)
    return lines
def line(text):
    data = text.encode()
    sys.stdout.buffer.write(b'%04x' % (len(data) + 4) + data)
def flush():
    sys.stdout.buffer.write(b'0000'); sys.stdout.buffer.flush()
hello = section()
line('version=1\0push-options'); flush()
heard = section()
options = section() if b'push-options' in hello[0] else []
open('heard', 'wb').write(b'|'.join(hello + heard + options))
{answer}
"#
    );
    write_program(&path, &text);
}

#[test]
#[ignore = "needs python3"]
fn commands_that_the_hook_does() {
    for program in ["git", "packrace"] {
        let pair = Pair::new();
        pair.config(&[("receive.procReceiveRefs", "refs/for"), ("receive.advertisePushOptions", "true")]);
        let check = |answer: &str, references: &[&str], expect: &[&str]| {
            proc_receive(&pair, answer);
            let program = match program {
                "git" => "--receive-pack=git receive-pack".to_owned(),
                _ => format!("--receive-pack={PACKRACE} receive-pack"),
            };
            let arguments = [&[&program, "-o", "opt", "../srv.git"], references].concat();
            let output = pair.push_with(Git::stock(), &arguments);
            let words = said(&output);
            for line in expect {
                assert!(words.contains(line), "{program}: {line}\n{words}");
            }
            std::fs::read_to_string(pair.server().join("heard")).unwrap_or_default()
        };
        let heard = check(
            "line('ok refs/for/a'); flush()",
            &["HEAD:refs/for/a", "HEAD:refs/heads/b"],
            &["[new reference]   HEAD -> refs/for/a", "[new branch]      HEAD -> b"],
        );
        assert_eq!(heard, format!("version=1\0push-options\n|{ZERO} {} refs/for/a|opt", pair.id("HEAD")));
        check(
            "line('ok refs/for/a'); line('option refname refs/pull/1'); line('option forced-update'); flush()",
            &["HEAD:refs/for/a"],
            &["HEAD -> refs/pull/1"],
        );
        check("line('ng refs/for/a not today'); flush()", &["HEAD:refs/for/a"], &["refs/for/a (not today)"]);
        check("flush()", &["HEAD:refs/for/a"], &["(proc-receive failed to report status)"]);
        check(
            "line('ok refs/for/zzz'); flush()",
            &["HEAD:refs/for/a"],
            &[
                "proc-receive reported status on unknown ref: refs/for/zzz",
                "refs/for/a (proc-receive failed to report status)",
            ],
        );
        check(
            "line('xx refs/for/a'); flush()",
            &["HEAD:refs/for/a"],
            &["proc-receive reported bad status 'xx' on ref 'refs/for/a'"],
        );
        check(
            "line('option refname refs/x'); flush()",
            &["HEAD:refs/for/a"],
            &["proc-receive reported 'option' without a matching 'ok/ng' directive"],
        );
        check("sys.exit(1)", &["HEAD:refs/for/a"], &["refs/for/a (fail to run proc-receive hook)"]);
        check("line('ok refs/for/a'); flush(); sys.exit(1)", &["HEAD:refs/for/a"], &["HEAD -> refs/for/a"]);
        check(
            "line('ok refs/for/a'); line('option fall-through'); flush()",
            &["HEAD:refs/for/a"],
            &["HEAD -> refs/for/a"],
        );
        assert!(pair.refs().contains("refs/for/a"), "{}", pair.refs());
        std::fs::remove_file(pair.server().join("hooks/proc-receive")).unwrap();
        let output = pair.push(&["HEAD:refs/for/none"]);
        assert!(said(&output).contains("(fail to run proc-receive hook)"), "{}", said(&output));
    }
}
