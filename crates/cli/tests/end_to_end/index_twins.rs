//! Two copies of one work tree: git works on one, packrace on the other.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use packrace_testkit::{Git, in_newest_words};

use crate::running::{packrace_with, stock_git_with};

/// The copies. In arguments and input, `{a}` and `{b}` stand for blobs, `{t}` for a tree, `{c}` for a commit,
/// `{0}` and `{1}` for names without objects.
pub struct IndexTwins {
    dir: tempfile::TempDir,
    ids: Vec<(&'static str, String)>,
}

/// The initial state of both. The files are old, so that the index need not be written again for files that
/// changed just before it.
const SETUP: &str = "mkdir -p d sub/x; echo a > a; echo b > d/b; echo c > sub/x/c; ln -s a link;
touch -h -d @1000000000 a d/b sub/x/c link;
git init -q -b main mod; git -C mod commit -q --allow-empty -m m; git add a d link; git commit -q -m one";

impl IndexTwins {
    pub fn new(init: &[&str]) -> Self {
        let dir = packrace_testkit::scratch_dir();
        let mut ids = Vec::new();
        for name in ["git", "packrace"] {
            let top = dir.path().join(name).join("r");
            std::fs::create_dir_all(&top).unwrap();
            Git::stock().run(&top, &[&["init", "-q", "-b", "main"], init].concat());
            shell(&top, SETUP);
            let id = |name: &str| Git::stock().run(&top, &["rev-parse", name]).trim().to_owned();
            let commit = id("HEAD");
            ids = vec![
                ("{a}", id("HEAD:a")),
                ("{b}", id("HEAD:d/b")),
                ("{t}", id("HEAD^{tree}")),
                ("{0}", "0".repeat(commit.len())),
                ("{1}", "1".repeat(commit.len())),
                ("{c}", commit),
            ];
        }
        IndexTwins { dir, ids }
    }

    pub fn tops(&self) -> [PathBuf; 2] {
        ["git", "packrace"].map(|name| self.dir.path().join(name).join("r"))
    }

    /// Prepares both with stock git and a shell.
    pub fn prepare(&self, script: &str) {
        self.tops().iter().for_each(|top| shell(top, &self.filled(script)));
    }

    /// Runs the same in both, then compares output and state.
    pub fn check(&self, args: &str, input: &str) {
        self.check_in("", args, input);
    }

    /// The same in a subdirectory. Words of `args` are separated by spaces; `␣` stands for a space in a word.
    pub fn check_in(&self, below: &str, args: &str, input: &str) {
        self.check_with(&[], below, args, input);
    }

    /// The same with environment variables.
    pub fn check_with(&self, variables: &[(&str, &str)], below: &str, args: &str, input: &str) {
        let input = self.filled(input);
        let args: Vec<String> =
            args.split_ascii_whitespace().map(|word| self.filled(&word.replace('␣', " "))).collect();
        let args: Vec<&str> =
            args.iter().map(|word| if *word == "''" { "" } else { word.as_str() }).collect();
        let [git, ours] = self.tops();
        let theirs = stock_git_with(&git.join(below), &args, input.as_bytes(), variables);
        let mine = packrace_with(&ours.join(below), &args, input.as_bytes(), variables);
        assert_eq!(self.said(&mine), self.said(&theirs), "{args:?} {input:?} in {below:?}");
        assert_eq!(state(&ours), state(&git), "{args:?} {input:?} in {below:?}");
    }

    /// Replaces the placeholders for object names.
    pub fn filled(&self, text: &str) -> String {
        self.ids.iter().fold(text.to_owned(), |text, (mark, id)| text.replace(mark, id))
    }

    /// Exit code and both outputs, without what always differs: the place of the copy, and usage texts.
    fn said(&self, output: &Output) -> (Option<i32>, String, String) {
        let is_usage = output.status.code() == Some(129);
        let text = |bytes: &[u8]| {
            let text = in_newest_words(&String::from_utf8_lossy(bytes));
            let real = std::fs::canonicalize(self.dir.path()).unwrap();
            let text = text.replace(&format!("{}/git/", real.display()), "");
            let text = text.replace(&format!("{}/packrace/", real.display()), "");
            // One command of git uses another opening quote.
            let text = text.replace('`', "'");
            let lines: Vec<&str> =
                text.lines().take_while(|line| !is_usage || !line.contains("usage:")).collect();
            lines.join("\n").trim_end().to_owned()
        };
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }
}

/// Runs a script in `dir`, with git's fixed identity.
fn shell(dir: &Path, script: &str) {
    let mut command = Command::new("sh");
    packrace_testkit::clean_environment(&mut command);
    let output = command.current_dir(dir).args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Git's view of an index, without inodes and times of files, and the problems that it finds in the
/// repository.
pub fn state(top: &Path) -> String {
    let git = |args: &[&str]| {
        let output = Git::stock().command_with(top, args).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let listed = git(&["ls-files", "-s", "-v", "-t", "--debug"]);
    let is_meant =
        |line: &&str| !["  ctime", "  mtime", "  dev", "  uid"].iter().any(|start| line.starts_with(start));
    let mut state: String = listed.lines().filter(is_meant).map(|line| format!("{line}\n")).collect();
    state += &git(&["fsck", "--no-dangling", "--no-progress"]);
    let Ok(index) = std::fs::read(top.join(".git/index")) else { return state };
    if extension(&index, b"REUC").is_some() {
        state += &git(&["ls-files", "--resolve-undo"]);
    }
    // The version, and the cached trees byte by byte.
    state + &format!("{:?} {:?}", &index[4..8], extension(&index, b"TREE"))
}

/// An extension of an index, escaped.
fn extension(index: &[u8], signature: &[u8; 4]) -> Option<String> {
    let at = index.windows(4).rposition(|window| window == signature)?;
    let length = u32::from_be_bytes(index.get(at + 4..at + 8)?.try_into().ok()?) as usize;
    Some(index.get(at..at + 8 + length)?.escape_ascii().to_string())
}
