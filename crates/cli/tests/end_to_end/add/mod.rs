//! `packrace add` compared with `git add`: twin work trees, the same lines of shell in both.

mod bad_input;
mod files;
mod lists;
mod special;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use packrace_testkit::{Git, clean_environment, in_newest_words};
use tempfile::TempDir;

use crate::running::{PACKRACE, assert_no_panic};

/// Two equal work trees.
pub struct Twins {
    directory: TempDir,
    /// Whether git's `fsck` must succeed.
    is_checked: bool,
}

/// The outcome of one line.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    code: Option<i32>,
    stdout: String,
    stderr: Vec<String>,
    entries: String,
    tree: String,
    status: String,
}

impl Twins {
    /// Makes empty repositories.
    pub fn new() -> Twins {
        let twins = Twins { directory: packrace_testkit::scratch_dir(), is_checked: true };
        for place in [twins.git(), twins.ours()] {
            std::fs::create_dir(&place).unwrap();
        }
        twins.both("git init -q");
        twins
    }

    /// The work tree of stock git.
    pub fn git(&self) -> PathBuf {
        self.directory.path().join("git")
    }

    /// The work tree of packrace.
    pub fn ours(&self) -> PathBuf {
        self.directory.path().join("own")
    }

    /// Runs lines of shell in both, with stock git; they must succeed.
    pub fn both(&self, script: &str) {
        for place in [self.git(), self.ours()] {
            let output = shell(&place, script, Git::stock().binary());
            assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }

    /// Runs lines of shell in both, where `T` is git in one and packrace in the other, and compares output
    /// and results.
    pub fn check(&self, script: &str) {
        let git = self.outcome(&self.git(), script, Git::stock().binary());
        let ours = self.outcome(&self.ours(), script, Path::new(PACKRACE));
        assert_eq!(ours, git, "{script}");
        if self.is_checked {
            Git::stock().run(&self.ours(), &["fsck", "--strict", "--no-dangling"]);
        }
    }

    fn outcome(&self, place: &Path, script: &str, tool: &Path) -> Outcome {
        let output = shell(place, script, tool);
        let text = |bytes: &[u8]| {
            in_newest_words(&String::from_utf8_lossy(bytes)).replace(place.to_str().unwrap(), "TOP")
        };
        assert_no_panic(&text(&output.stderr));
        let git = |args: &[&str]| {
            let output = Git::stock().command_with(place, args).output().expect("git runs");
            [text(&output.stdout), text(&output.stderr)].concat()
        };
        Outcome {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: lines(&text(&output.stderr)),
            // First, because other commands may change it.
            entries: git(&["ls-files", "-s", "-t", "-v"]),
            tree: git(&["write-tree"]),
            status: git(&[
                "-c",
                "core.safecrlf=false",
                "status",
                "--porcelain",
                "--untracked-files=all",
                "--ignored",
            ]),
        }
    }

    /// Runs a script: lines that begin with `!` prepare both, the others are compared.
    pub fn run(script: &str) {
        Twins::new().all(script);
    }

    /// The same for content that git's `fsck` rejects.
    pub fn run_unchecked(script: &str) {
        Twins { is_checked: false, ..Twins::new() }.all(script);
    }

    fn all(&self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.strip_prefix('!') {
                Some(line) => self.both(line),
                None => self.check(line),
            }
        }
    }
}

fn shell(place: &Path, script: &str, tool: &Path) -> Output {
    let mut command = Command::new("sh");
    clean_environment(&mut command);
    let script = format!("T() {{ \"$TOOL\" \"$@\"; }}\n{script}");
    command.args(["-c", &script]).current_dir(place).env("TOOL", tool);
    command.output().expect("a shell runs")
}

/// Lines of standard error. Those that later versions of git say otherwise are made alike.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let is_after = |end: &str| lines.last().is_some_and(|last| last.ends_with(end));
        let is_newer = line.starts_with("error: unable to index file ");
        if !(is_newer && is_after("does not have a commit checked out")) {
            lines.push(line.replace("\"git config advice.", "\"git config set advice."));
        }
    }
    lines
}
