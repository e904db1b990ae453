//! `packrace stash` compared with `git stash`: the same words, the same ids, the same index and work tree.

mod applying;
mod keeping;
mod listing;
mod together;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use packrace_testkit::{Git, clean_environment};

use crate::running::{PACKRACE, assert_no_panic};

/// Two work trees with the same initial state. Git works on one, packrace on the other.
pub struct Twins {
    dir: tempfile::TempDir,
}

/// The program that works in a twin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Git,
    Packrace,
}

/// The initial state of both: five files of twenty lines.
const BEGIN: &str = "git init -q -b main . && mkdir -p d/e && for f in a b d/c d/e/f 'with space'; do \
                     seq 1 20 | sed \"s,^,$f ,\" > \"$f\"; done && git add . && git commit -qm 'first subject'";

impl Twins {
    pub fn new() -> Self {
        Twins::after(BEGIN)
    }

    /// Work trees made by another script.
    pub fn after(script: &str) -> Self {
        let twins = Twins { dir: packrace_testkit::scratch_dir() };
        for who in [Who::Git, Who::Packrace] {
            std::fs::create_dir(twins.path(who)).unwrap();
            let done = twins.sh(who, "", script);
            assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
        }
        twins
    }

    pub fn path(&self, who: Who) -> PathBuf {
        self.dir.path().join(if who == Who::Git { "git" } else { "packrace" })
    }

    /// Runs a line of shell in one of them.
    fn sh(&self, who: Who, below: &str, line: &str) -> Output {
        let mut command = Command::new("/bin/sh");
        clean_environment(&mut command);
        let git = Git::stock().binary().parent().unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths([git.to_owned()].into_iter().chain(std::env::split_paths(&path))).unwrap();
        command.args(["-c", line]).current_dir(self.path(who).join(below)).env("PATH", path);
        command.env("TZ", "UTC").output().unwrap()
    }

    /// Prepares both in the same way.
    pub fn both(&self, line: &str) {
        for who in [Who::Git, Who::Packrace] {
            let done = self.sh(who, "", line);
            assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        }
    }

    /// Runs the same in both: a line that begins with `stash`. Output and state afterwards are the same.
    pub fn check(&self, line: &str) {
        self.check_below("", line);
    }

    /// The same in a directory.
    pub fn check_below(&self, below: &str, line: &str) {
        let theirs = self.sh(Who::Git, below, &format!("git {line}"));
        let ours = self.sh(Who::Packrace, below, &format!("{PACKRACE} {line}"));
        assert_eq!(said(&ours), said(&theirs), "{line}: git says the right");
        self.check_state(line);
    }

    /// The standard output of a line of shell in one of them.
    pub fn says(&self, who: Who, line: &str) -> String {
        String::from_utf8(self.sh(who, "", line).stdout).unwrap()
    }

    /// Checks that refs, entries, index and files are the same.
    pub fn check_state(&self, after: &str) {
        let (ours, theirs) = (state(&self.path(Who::Packrace)), state(&self.path(Who::Git)));
        assert_eq!(ours, theirs, "{after}: git has the right");
        Git::stock().run(&self.path(Who::Packrace), &["fsck", "--strict", "--no-dangling"]);
    }

    /// Runs a line in one of them; it must succeed.
    pub fn alone(&self, who: Who, line: &str) {
        let program = if who == Who::Git { "git" } else { PACKRACE };
        let done = self.sh(who, "", &format!("{program} {line}"));
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stderr = text(&output.stderr);
    assert_no_panic(&stderr);
    let stderr = match output.status.code() {
        // Usage texts differ.
        Some(129) => stderr.lines().take_while(|line| !line.contains("usage:")).collect(),
        _ => stderr,
    };
    (output.status.code(), text(&output.stdout), stderr)
}

/// Stock git's view of a work tree, and its files.
pub fn state(path: &Path) -> String {
    let git = Git::stock();
    let mut state = git.run(path, &["status", "--porcelain", "--ignored", "--branch"]);
    state += &git.run(path, &["ls-files", "-s", "-v"]);
    state += &git.run(path, &["for-each-ref"]);
    if git.run(path, &["reflog", "list"]).contains("refs/stash") {
        state += &git.run(path, &["log", "-g", "--format=%H %P %gn %gs", "refs/stash", "--"]);
    }
    for (name, content) in files(path) {
        state += &format!("{name}: {content}\n");
    }
    state
}

/// Files below a directory, with modes and contents; also empty directories.
fn files(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if entry.file_name() == ".git" {
                continue;
            }
            let name = path.strip_prefix(top).unwrap().to_string_lossy().into_owned();
            if kind.is_dir() {
                waiting.push(path);
                found.insert(format!("{name}/"), String::new());
            } else if kind.is_symlink() {
                found.insert(name, format!("-> {}", std::fs::read_link(&path).unwrap().display()));
            } else if !kind.is_file() {
                found.insert(name, format!("{kind:?}"));
            } else {
                let mode = entry.metadata().unwrap().permissions().mode();
                let content = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
                found.insert(name, format!("{mode:o} {content}"));
            }
        }
    }
    found
}
