//! Two copies of one repository of refs: git works on one, packrace on the other.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Output;

use packrace_testkit::{Git, RefFormat};

use crate::running::{copy, packrace, stock_git};

/// The copies, and object names for `{c}` (a commit), `{d}` (its child), `{e}` (a commit beside), `{t}` (a
/// tree) and `{g}` (a tag of `{c}`) in arguments and input.
pub struct RefTwins {
    dir: tempfile::TempDir,
    ids: Vec<(&'static str, String)>,
    format: RefFormat,
    /// The last seen files of each copy, and the state read from them.
    seen: RefCell<HashMap<PathBuf, (Stored, String)>>,
}

/// Names and contents of files.
type Stored = Vec<(String, Vec<u8>)>;

/// The initial refs of both.
const REFS: &str = "\
create refs/heads/main {c}\n\
create refs/heads/a {d}\n\
create refs/heads/packed {c}\n\
create refs/heads/deep/er/one {d}\n\
create refs/tags/light {d}\n\
create refs/tags/heavy {g}\n\
create refs/remotes/o/main {e}\n\
symref-create refs/remotes/o/HEAD refs/remotes/o/main\n\
symref-create refs/heads/sym refs/heads/a\n\
symref-create refs/heads/dangling refs/heads/none\n";

impl RefTwins {
    pub fn new(format: RefFormat) -> Self {
        RefTwins::with(format, &[])
    }

    /// The same with configuration.
    pub fn with(format: RefFormat, config: &[(&str, &str)]) -> Self {
        let dir = packrace_testkit::scratch_dir();
        let name = if format == RefFormat::Files { "files" } else { "reftable" };
        let path = dir.path().join("git/r.git");
        std::fs::create_dir_all(dir.path().join("packrace")).unwrap();
        let git = |args: &[&str]| Git::stock().run(&path, args).trim().to_owned();
        std::fs::create_dir_all(&path).unwrap();
        git(&["init", "-q", "--bare", "-b", "main", &format!("--ref-format={name}")]);
        for (name, value) in config {
            git(&["config", name, value]);
        }
        let tree = git(&["mktree"]);
        let commit = git(&["commit-tree", "-m", "one", &tree]);
        let child = git(&["commit-tree", "-m", "two", "-p", &commit, &tree]);
        let beside = git(&["commit-tree", "-m", "three", &tree]);
        git(&["tag", "-a", "-m", "heavy", "heavy", &commit]);
        let tag = git(&["rev-parse", "refs/tags/heavy"]);
        git(&["update-ref", "-d", "refs/tags/heavy"]);
        let ids = vec![("{c}", commit), ("{d}", child), ("{e}", beside), ("{t}", tree), ("{g}", tag)];
        let twins = RefTwins { dir, ids, format, seen: RefCell::default() };
        let input = twins.filled(REFS);
        Git::stock().run_with_input(&path, &["update-ref", "--stdin"], input.as_bytes());
        git(&["pack-refs", "--all"]);
        let more =
            twins.filled("create refs/heads/loose {c}\nupdate refs/heads/a {d}\ncreate refs/tags/also {g}\n");
        Git::stock().run_with_input(&path, &["update-ref", "--stdin"], more.as_bytes());
        copy(&path, &twins.dir.path().join("packrace/r.git"));
        twins
    }

    pub fn git(&self) -> PathBuf {
        self.dir.path().join("git/r.git")
    }

    pub fn ours(&self) -> PathBuf {
        self.dir.path().join("packrace/r.git")
    }

    /// Replaces the placeholders for object names.
    pub fn filled(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (mark, id) in &self.ids {
            filled = filled.replace(mark, id);
            // An abbreviation of it.
            filled = filled.replace(&format!("{}short}}", &mark[..2]), &id[..9]);
        }
        filled.replace("{0}", &"0".repeat(40)).replace("{1}", &"1".repeat(40))
    }

    /// Runs the same in both: the output is the same, and so are refs and reflogs afterwards.
    pub fn check(&self, args: &[&str], input: &str) {
        self.check_said(args, input);
        let (ours, theirs) = (stored(&self.ours()), stored(&self.git()));
        if ours == theirs {
            // Equal files have the same meaning, so git need not read them.
            return;
        }
        let (ours, theirs) = (self.state(self.ours(), ours), self.state(self.git(), theirs));
        assert_eq!(ours, theirs, "{args:?} {input:?} {:?}", self.format);
    }

    /// The state of one copy. Git reads it again only if it has changed.
    fn state(&self, path: PathBuf, stored: Stored) -> String {
        let mut seen = self.seen.borrow_mut();
        if let Some((_, known)) = seen.get(&path).filter(|(before, _)| *before == stored) {
            return known.clone();
        }
        let found = state(&path);
        seen.insert(path, (stored, found.clone()));
        found
    }

    /// Runs the same in both: the output is the same.
    pub fn check_said(&self, args: &[&str], input: &str) {
        let input = self.filled(input);
        let args: Vec<String> = args.iter().map(|argument| self.filled(argument)).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (theirs, ours) = (stock_git(&self.git(), &args, &input), packrace(&self.ours(), &args, &input));
        let (ours, mut theirs) = (self.said(&ours), self.said(&theirs));
        if !ours.2.contains(LOCK) {
            theirs.2 = without_lock(theirs.2);
        }
        assert_eq!(ours, theirs, "{args:?} {input:?} {:?}", self.format);
    }

    /// Exit code and both outputs, without what always differs: the place of the copy, and usage texts.
    fn said(&self, output: &Output) -> (Option<i32>, String, String) {
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let real = std::fs::canonicalize(self.dir.path()).unwrap();
            let text = text.replace(&format!("{}/git/", real.display()), "");
            let text = text.replace(&format!("{}/packrace/", real.display()), "");
            text.replace("'r.git/", "'./").replace("'./", "'")
        };
        let is_usage = output.status.code() == Some(129);
        let stderr = text(&output.stderr);
        let stderr = if is_usage {
            stderr.lines().take_while(|line| !line.contains("usage:")).collect()
        } else {
            stderr
        };
        let stdout = if is_usage { String::new() } else { text(&output.stdout) };
        (output.status.code(), stdout, stderr)
    }
}

const LOCK: &str = "cannot lock ref '";

/// Of names in conflict, git before 2.55 always says that one cannot be locked, not only if a file is in the way.
fn without_lock(said: String) -> String {
    let is_conflict = said.contains("exists; cannot create") || said.contains("at the same time");
    match (said.find(LOCK), is_conflict) {
        (Some(start), true) => {
            let end = said[start..].find("': ").map_or(start, |end| start + end + 3);
            [&said[..start], &said[end..]].concat()
        }
        _ => said,
    }
}

/// All files with refs and reflogs, by name; tables, whose names are random, in order.
fn stored(path: &Path) -> Stored {
    let read = |path: &Path| std::fs::read(path).unwrap_or_default();
    let list = read(&path.join("reftable/tables.list"));
    let list = String::from_utf8(list).unwrap();
    let tables = list.lines().enumerate();
    let mut stored: Vec<_> =
        tables.map(|(at, name)| (at.to_string(), read(&path.join("reftable").join(name)))).collect();
    let mut open = vec![path.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap().path();
            let name = entry.strip_prefix(path).unwrap().to_str().unwrap().to_owned();
            match entry.is_dir() {
                true if name == "reftable" || name.starts_with("objects") => {}
                true => open.push(entry),
                false => stored.push((name, read(&entry))),
            }
        }
    }
    stored.sort();
    stored
}

/// All refs as stock git lists them, dangling symbolic refs, and reflogs.
pub fn state(path: &Path) -> String {
    let format = "--format=%(refname) %(objectname) %(symref)";
    let mut state = Git::stock().run(path, &["for-each-ref", "--include-root-refs", format]);
    // Symbolic refs that lead nowhere are not listed.
    let names = ["HEAD", "refs/heads/dangling", "refs/heads/new", "refs/heads/sym"];
    let is_listed = |name: &str| state.lines().any(|line| line.split(' ').next() == Some(name));
    let unlisted: Vec<&str> = names.into_iter().filter(|name| !is_listed(name)).collect();
    for name in unlisted {
        let target = stock_git(path, &["symbolic-ref", "-q", name], "");
        state.push_str(&String::from_utf8_lossy(&target.stdout));
    }
    let list = stock_git(path, &["reflog", "list"], "");
    let list = String::from_utf8_lossy(&list.stdout);
    let names: Vec<&str> = list.lines().collect();
    state.push_str(&list);
    // All in one process, unless one of them cannot be shown.
    let log = |names: &[&str]| {
        let args = [&["log", "-g", "--format=%H %gd %gn %ge %gs"], names, &["--"]].concat();
        let log = stock_git(path, &args, "");
        (log.status.success(), String::from_utf8_lossy(&log.stdout).into_owned())
    };
    if !names.is_empty() {
        match log(&names) {
            (true, all) => state.push_str(&all),
            (false, _) => names.iter().for_each(|name| state.push_str(&log(&[name]).1)),
        }
    }
    state
}

/// Runs the test in both formats.
pub fn in_both_formats(config: &[(&str, &str)], test: impl Fn(&RefTwins)) {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        test(&RefTwins::with(format, config));
    }
}
