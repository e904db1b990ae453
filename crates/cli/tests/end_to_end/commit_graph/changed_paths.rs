//! Changed-path filters.

use packrace_format::commit_graph::CommitGraph;
use packrace_object::HashKind;
use packrace_testkit::{Repo, RepoBuilder, Size, Storage};

use super::{Twins, files};
use crate::running::{packrace, stock_git};

/// Commits for `git fast-import`, on one branch unless they say otherwise.
#[derive(Default)]
struct Stream {
    text: String,
    commits: u32,
}

impl Stream {
    /// Adds a commit with these commands of fast-import. Names are as given, `é` included.
    fn commit(&mut self, header: &str, changes: impl IntoIterator<Item = String>) {
        self.commits += 1;
        let date = 1_700_000_000 + self.commits;
        self.text += "commit refs/heads/paths\n";
        self.text += &format!("committer A <a@b> {date} +0000\ndata 0\n{header}");
        self.text.extend(changes);
        self.text += "\n";
    }

    fn one(&mut self, changes: &[&str]) {
        self.commit("", changes.iter().map(|change| format!("{change}\n")));
    }

    /// Changes so many files below a directory, to a content named after the commit.
    fn many(&mut self, directory: &str, files: u32) {
        let commit = self.commits;
        self.commit("", (0..files).map(|n| file(&format!("{directory}{n}"), &format!("{commit}.{n}"))));
    }
}

fn file(path: &str, content: &str) -> String {
    format!("M 100644 inline {path}\ndata {}\n{content}\n", content.len())
}

/// A history with every kind of change.
fn history(hash: HashKind) -> Repo {
    let repo = RepoBuilder::new(Size::Tiny).hash(hash).storage(Storage::default()).build();
    let submodule = format!("M 160000 {} sub/module", repo.git(&["rev-parse", "main"]).trim());
    let mut stream = Stream::default();
    stream.commit("", [file("a", "1"), file("deep/er/and/deeper/b", "1"), file("deep/c", "1")]);
    stream.one(&[]);
    stream.commit("", [file("a", "2"), file("deep/c", "2")]);
    stream.one(&["R a moved"]);
    stream.one(&["R deep/er shallow"]);
    stream.one(&["D moved"]);
    stream.commit("", ["M 100755 inline deep/c\ndata 1\n2\n".to_owned()]);
    stream.commit("", ["M 120000 inline deep/c\ndata 1\n2\n".to_owned()]);
    stream.one(&[&submodule]);
    stream.one(&["D sub/module"]);
    // A file becomes a directory, and back; a name sorts between the two.
    stream.commit("", [file("x", "1"), file("x.y", "1")]);
    stream.commit("", [file("x/y", "1"), file("x/z", "1")]);
    stream.commit("", ["D x\n".to_owned(), file("x", "1")]);
    for path in
        ["\u{e9}", "n\u{fc}r/a", "nur/\u{e4}\u{f6}\u{fc}", "abc\u{20ac}", "a/\u{1f600}/b", "ab\u{df}cdefg"]
    {
        stream.commit("", [file(path, "1")]);
    }
    stream.one(&["D n\u{fc}r/a"]);
    // The limit is 512 paths, directories included.
    stream.many("few/", 511);
    stream.many("few/", 512);
    stream.many("", 513);
    stream.one(&["D few"]);
    stream.many("lots/of/", 2000);
    stream.commit("", (0..256).map(|n| file(&format!("lots/of/{n}/y"), "1")));
    stream.commit("", (0..256).map(|n| format!("R lots/of/{n}/y z{n}\n")));
    stream.commit("merge refs/heads/main\n", [file("merged", "1")]);
    stream.commit("merge refs/heads/main~1\nmerge refs/heads/main~2\n", []);
    repo.git_with_input(&["fast-import", "--quiet"], stream.text.as_bytes());
    repo
}

fn has_filters(twins: &Twins) -> bool {
    let files = files(&twins.path("packrace"));
    files.values().any(|file| file.windows(4).any(|id| id == b"BIDX"))
}

#[test]
fn every_kind_of_change() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let twins = Twins::of_repo(history(hash));
        twins.check(&["write", "--reachable", "--changed-paths"], "");
        assert!(has_filters(&twins));
        // Filters without a byte of 0x80 or more are converted, the others are made again.
        for version in ["2", "1", "-1"] {
            twins.configure("commitGraph.changedPathsVersion", version);
            twins.check(&["write", "--reachable"], "");
            twins.check(&["write", "--reachable", "--no-changed-paths"], "");
            assert!(!has_filters(&twins));
            twins.check(&["write", "--reachable", "--changed-paths"], "");
        }
        twins.configure("commitGraph.generationVersion", "1");
        twins.check(&["write", "--reachable", "--no-changed-paths", "--changed-paths"], "");
        assert!(has_filters(&twins));
    }
}

#[test]
fn filters_are_kept_unless_unwanted() {
    let twins = Twins::of_repo(history(HashKind::Sha1));
    let at = |n: usize| twins.repo.git(&["rev-parse", &format!("paths~{n}")]);
    let write = |n: usize, options: &[&str], has: bool| {
        twins.check(&[&["write", "--stdin-commits"], options].concat(), &at(n));
        assert_eq!(has_filters(&twins), has, "{options:?}");
    };
    write(9, &[], false);
    write(8, &["--changed-paths"], true);
    write(7, &[], true);
    write(6, &["--no-changed-paths"], false);
    write(5, &[], false);
    write(4, &["--changed-paths"], true);
    twins.configure("commitGraph.readChangedPaths", "false");
    write(3, &[], false);
    twins.configure("commitGraph.changedPathsVersion", "7");
    let before = files(&twins.path("packrace"));
    write(2, &["--changed-paths"], false);
    assert_eq!(before, files(&twins.path("packrace")));
}

#[test]
fn a_limited_number_of_new_filters() {
    let twins = Twins::of_repo(history(HashKind::Sha1));
    twins.check(&["write", "--reachable", "--changed-paths", "--max-new-filters=0"], "");
    twins.check(&["write", "--reachable", "--max-new-filters=3"], "");
    twins.check(&["write", "--reachable", "--max-new-filters=7"], "");
    twins.configure("commitGraph.maxNewFilters", "2");
    twins.check(&["write", "--reachable"], "");
    // Only as many filters are converted or made.
    twins.configure("commitGraph.changedPathsVersion", "2");
    twins.check(&["write", "--reachable", "--max-new-filters=11"], "");
    twins.check(&["write", "--reachable", "--max-new-filters=-1"], "");
    twins.check(&["write", "--reachable", "--no-changed-paths"], "");
    twins.check(&["write", "--reachable", "--changed-paths", "--no-max-new-filters"], "");
    twins.check(&["write", "--reachable", "--no-changed-paths"], "");
    for name in ["git", "packrace"] {
        assert!(
            stock_git(&twins.path(name), &["-c", "pack.threads=1", "repack", "-adq"], "").status.success()
        );
    }
    twins.check(&["write", "--changed-paths"], "");
    twins.check(&["write", "--max-new-filters=9"], "");
}

#[test]
fn chains_with_filters() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let twins = Twins::of_repo(history(hash));
        let write = |n: usize, options: &[&str]| {
            let at = twins.repo.git(&["rev-parse", &format!("paths~{n}")]);
            twins.check(&[&["write", "--stdin-commits"], options].concat(), &at);
        };
        write(26, &["--split", "--changed-paths"]);
        write(25, &["--split=no-merge"]);
        write(24, &["--split=no-merge", "--no-changed-paths"]);
        write(23, &["--split=no-merge"]);
        write(22, &["--split=no-merge", "--changed-paths"]);
        write(21, &["--split=no-merge", "--max-new-filters=0"]);
        write(20, &["--split", "--max-new-filters=1"]);
        write(17, &["--split", "--max-commits=3"]);
        write(16, &["--split=replace", "--max-new-filters=5"]);
        write(15, &["--split=no-merge"]);
        write(14, &[]);
        write(13, &["--split=no-merge"]);
        twins.check(&["write", "--reachable", "--split"], "");
        twins.check(&["write", "--reachable", "--append"], "");
    }
}

/// Only filters with the settings of the topmost ones count.
#[test]
fn chains_with_filters_of_two_versions() {
    let twins = Twins::of_repo(history(HashKind::Sha1));
    let write = |n: usize, options: &[&str]| {
        let at = twins.repo.git(&["rev-parse", &format!("paths~{n}")]);
        let args = [&["commit-graph", "write", "--stdin-commits"], options].concat();
        let output = stock_git(&twins.path("git"), &args, &at);
        assert!(output.status.success(), "{args:?}");
        let output = packrace(&twins.path("packrace"), &args, &at);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(files(&twins.path("git")), files(&twins.path("packrace")), "{args:?}");
    };
    write(20, &["--split", "--changed-paths"]);
    twins.configure("commitGraph.changedPathsVersion", "2");
    write(19, &["--split=no-merge"]);
    let verified = packrace(&twins.path("packrace"), &["commit-graph", "verify"], "");
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && said.starts_with("warning: disabling Bloom filters"), "{said}");
    write(18, &["--split=no-merge", "--max-new-filters=0"]);
    twins.configure("commitGraph.changedPathsVersion", "1");
    write(17, &["--split", "--size-multiple=9", "--max-new-filters=4"]);
    write(16, &["--split=replace", "--max-new-filters=0"]);
}

/// git has this setting since 2.52.
#[test]
fn filters_by_configuration() {
    let twins = Twins::of_repo(history(HashKind::Sha1));
    twins.check(&["write", "--reachable", "--changed-paths"], "");
    let expect = files(&twins.path("git"));
    twins.check(&["write", "--reachable", "--no-changed-paths"], "");
    twins.configure("commitGraph.changedPaths", "true");
    let ours = |args: &[&str]| {
        let output = packrace(&twins.path("packrace"), args, "");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    ours(&["commit-graph", "write", "--reachable", "--no-changed-paths"]);
    assert!(!has_filters(&twins));
    ours(&["commit-graph", "write", "--reachable"]);
    assert_eq!(files(&twins.path("packrace")), expect);
    twins.configure("commitGraph.changedPaths", "false");
    ours(&["commit-graph", "write", "--reachable"]);
    assert_eq!(files(&twins.path("packrace")), expect);
}

/// Maintenance keeps filters, and has the same settings.
#[test]
fn filters_by_maintenance() {
    let twins = Twins::of_repo(history(HashKind::Sha1));
    let below = twins.repo.git(&["rev-parse", "paths~20"]);
    let ours = |args: &[&str], input: &str| {
        let output = packrace(&twins.path("packrace"), args, input);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let graphs_with_filters = || {
        let files = files(&twins.path("packrace"));
        let graphs = files.values().filter(|file| file.starts_with(b"CGPH"));
        graphs.map(|file| file.windows(4).any(|id| id == b"BIDX")).collect::<Vec<_>>()
    };
    let start = |options: &[&str]| {
        let write = ["commit-graph", "write", "--stdin-commits", "--split=replace"];
        ours(&[&write[..], options].concat(), &below);
    };
    for task in ["--task=commit-graph", "--task=gc"] {
        start(&["--changed-paths"]);
        ours(&["maintenance", "run", task], "");
        assert_eq!(graphs_with_filters(), [true, true], "{task}");
        start(&["--no-changed-paths"]);
        ours(&["maintenance", "run", task], "");
        assert_eq!(graphs_with_filters(), [false, false], "{task}");
        start(&["--no-changed-paths"]);
        ours(&["-c", "commitGraph.changedPaths=true", "maintenance", "run", task], "");
        assert_eq!(graphs_with_filters().iter().filter(|has| **has).count(), 1, "{task}");
    }
    assert!(stock_git(&twins.path("packrace"), &["commit-graph", "verify"], "").status.success());
}

/// 2⁴⁰ pairs of trees without a file. git 2.47 compares them all.
#[test]
fn nested_empty_trees() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let make = |entries: String| repo.git_with_input(&["mktree", "--missing"], entries.as_bytes());
    let nested = |innermost: String| {
        (0..40).fold(innermost, |tree, _| {
            let tree = tree.trim();
            make(format!("040000 tree {tree}\ta\n040000 tree {tree}\tb\n"))
        })
    };
    let empty = make(String::new());
    let trees = [nested(empty.clone()), nested(make(format!("040000 tree {}\tc\n", empty.trim())))];
    let commit = |tree: &str, parents: &[&str]| {
        let args = [&["commit-tree", "-m", "", tree.trim()], parents].concat();
        repo.git(&args).trim().to_owned()
    };
    let first = commit(&trees[0], &[]);
    let second = commit(&trees[1], &["-p", &first]);
    let write = ["commit-graph", "write", "--stdin-commits", "--changed-paths"];
    let output = packrace(repo.path(), &write, &second);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = std::fs::read(repo.path().join("objects/info/commit-graph")).unwrap();
    let graph = CommitGraph::open([file], HashKind::Sha1).unwrap();
    assert_eq!(graph.len(), 2);
    for position in 0..2 {
        let (_, filter) = graph.filter_at(position).unwrap().expect("it was computed");
        assert_eq!(filter, [0]);
    }
}
