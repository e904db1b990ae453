//! `packrace commit-graph` writes the same files as `git commit-graph`, and prints the same.

mod changed_paths;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use packrace_object::HashKind;
use packrace_testkit::{GraphLayout, Repo, RepoBuilder, Size, Storage};

use crate::running::{DerivedFile, copy, packrace, stock_git};

/// Two copies of one repository: git works on one, packrace on the other.
struct Twins {
    repo: Repo,
    dir: tempfile::TempDir,
}

impl Twins {
    fn of(builder: RepoBuilder) -> Self {
        Twins::of_repo(builder.build())
    }

    fn of_repo(repo: Repo) -> Self {
        let dir = packrace_testkit::scratch_dir();
        copy(repo.path(), &dir.path().join("git"));
        copy(repo.path(), &dir.path().join("packrace"));
        Twins { repo, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Sets configuration in both.
    fn configure(&self, name: &str, value: &str) {
        for twin in ["git", "packrace"] {
            assert!(stock_git(&self.path(twin), &["config", name, value], "").status.success());
        }
    }

    /// Runs the same in both, compares output and files, and lets git verify ours.
    fn check(&self, args: &[&str], input: &str) {
        let args = [&["commit-graph"], args].concat();
        let of_git = stock_git(&self.path("git"), &args, input);
        let of_ours = packrace(&self.path("packrace"), &args, input);
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("./objects", "objects");
        assert_eq!(of_git.status.code(), of_ours.status.code(), "{args:?}: {}", said(&of_ours.stderr));
        assert_eq!(
            said(&of_git.stderr).replace("/git/", "/packrace/"),
            said(&of_ours.stderr).replace(&format!("{}/", self.path("packrace").display()), ""),
            "{args:?}"
        );
        assert_eq!(files(&self.path("git")), files(&self.path("packrace")), "{args:?}");
        let verified = stock_git(&self.path("packrace"), &["commit-graph", "verify"], "");
        assert!(verified.status.success(), "{args:?}: {}", said(&verified.stderr));
        let verified = packrace(&self.path("git"), &["commit-graph", "verify"], "");
        assert!(verified.status.success(), "{args:?}: {}", said(&verified.stderr));
    }
}

/// All files of commit-graphs below `objects/info`.
fn files(repo: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let info = repo.join("objects/info");
    let mut found = BTreeMap::new();
    for dir in [info.clone(), info.join("commit-graphs")] {
        for entry in std::fs::read_dir(&dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_file() && path.to_string_lossy().contains("graph") {
                let name = path.strip_prefix(repo).unwrap().to_owned();
                found.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn every_source_of_commits() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let twins = Twins::of(
            RepoBuilder::new(Size::Tiny).hash(hash).storage(Storage { packs: 3, ..Storage::default() }),
        );
        twins.check(&["write", "--reachable"], "");
        twins.check(&["write"], "");
        let packs = twins.repo.git(&["count-objects", "-v"]);
        assert!(packs.contains("packs: 3"), "{packs}");
        let mut names: Vec<String> = std::fs::read_dir(twins.path("git").join("objects/pack"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".idx"))
            .collect();
        names.sort();
        twins.check(&["write", "--stdin-packs"], &format!("{}\n", names[0]));
        twins.check(&["write", "--stdin-packs"], "pack-nothing.idx\n");
        let tip = twins.repo.git(&["rev-parse", "main~20"]);
        twins.check(&["write", "--stdin-commits"], &tip);
        let mixed = twins.repo.git(&["rev-parse", "main~9^{tree}", "main~8", "of-a-tree"]);
        twins.check(&["write", "--stdin-commits", "--append"], &mixed);
        twins.check(&["write", "--stdin-commits"], "zzz\n");
        twins.check(&["write", "--stdin-commits"], &format!("{}\n", hash.null()));
        twins.check(&["write", "--stdin-commits"], "");
    }
}

#[test]
fn chains() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let twins = Twins::of(RepoBuilder::new(Size::Tiny).hash(hash));
        let at = |n: usize| twins.repo.git(&["rev-parse", &format!("main~{n}")]);
        let write = |n: usize, options: &[&str]| {
            twins.check(&[&["write", "--stdin-commits"], options].concat(), &at(n));
        };
        write(30, &["--split"]);
        write(29, &["--split"]);
        write(29, &["--split"]);
        write(27, &["--split=no-merge"]);
        write(26, &["--split", "--size-multiple=1"]);
        write(20, &["--split", "--max-commits=3"]);
        write(18, &["--split=no-merge", "--expire-time=never"]);
        write(16, &["--split", "--expire-time=2.weeks.ago"]);
        write(17, &["--split=replace"]);
        write(16, &["--split=replace", "--append"]);
        write(15, &[]);
        write(14, &["--split=no-merge"]);
        write(0, &["--split"]);
        write(3, &["--split=replace"]);
        twins.check(&["write", "--reachable", "--split"], "");
        twins.check(&["write", "--reachable"], "");
    }
}

#[test]
fn refusals() {
    let twins = Twins::of(RepoBuilder::new(Size::Tiny));
    twins.check(&["write", "--reachable", "--stdin-packs"], "");
    twins.check(&["write", "--split=often"], "");
    twins.check(&["write", "--object-dir=nowhere"], "");
    twins.check(&["write", "--split", "--expire-time=whenever"], "");
    twins.check(&["write", "--changed-paths", "--max-new-filters=x"], "");
    for name in ["git", "packrace"] {
        std::fs::write(twins.path(name).join("objects/info/commit-graph.lock"), "").unwrap();
    }
    let output = packrace(&twins.path("packrace"), &["commit-graph", "write", "--reachable"], "");
    assert_eq!(output.status.code(), Some(128));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("commit-graph.lock': File exists."), "{said}");
}

#[test]
fn repositories_that_get_none() {
    let twins = Twins::of(RepoBuilder::new(Size::Tiny));
    let in_both = |args: &[&str]| {
        for name in ["git", "packrace"] {
            assert!(stock_git(&twins.path(name), args, "").status.success());
        }
    };
    in_both(&["config", "core.commitGraph", "false"]);
    twins.check(&["write", "--reachable"], "");
    assert!(files(&twins.path("packrace")).is_empty());
    in_both(&["config", "core.commitGraph", "true"]);
    // Replacements of commits are ignored.
    in_both(&["replace", "main~3", "main~4"]);
    in_both(&["config", "commitGraph.generationVersion", "1"]);
    twins.check(&["write", "--reachable"], "");
    let storage = Storage { shallow_depth: Some(5), ..Storage::default() };
    let twins = Twins::of(RepoBuilder::new(Size::Tiny).storage(storage));
    twins.check(&["write", "--reachable"], "");
    assert!(files(&twins.path("packrace")).is_empty());
}

/// A chain on top of an alternate's.
#[test]
fn alternates() {
    let storage = Storage { packs: 4, alternate: true, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    let alternate = std::fs::read_to_string(repo.path().join("objects/info/alternates")).unwrap();
    let alternate = repo.path().join("objects").join(alternate.trim());
    let dir = alternate.to_str().unwrap();
    let known = repo.git(&["rev-parse", "main~30"]);
    let args = ["commit-graph", "write", "--split", "--stdin-commits", "--object-dir", dir];
    let output = packrace(repo.path(), &args, &known);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let there = alternate.join("info/commit-graphs/commit-graph-chain");
    let below = std::fs::read_to_string(there).unwrap();
    assert_eq!(below.lines().count(), 1);
    let output = packrace(repo.path(), &["commit-graph", "write", "--split", "--reachable"], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let chain = repo.path().join("objects/info/commit-graphs/commit-graph-chain");
    let chain = std::fs::read_to_string(chain).unwrap();
    assert_eq!((chain.lines().count(), chain.lines().next()), (2, below.lines().next()));
    repo.git(&["commit-graph", "verify"]);
    assert!(packrace(repo.path(), &["commit-graph", "verify"], "").status.success());
}

/// What `verify` finds, compared with git's.
#[test]
fn damage_is_found() {
    let repo = RepoBuilder::new(Size::Tiny)
        .storage(Storage { commit_graph: GraphLayout::Single, ..Storage::default() })
        .build();
    let file = DerivedFile::of(&repo, "objects/info/commit-graph", &["commit-graph", "verify"]);
    let [ids, commits] = [file.chunk(8, b"OIDL"), file.chunk(8, b"CDAT")];
    file.check(&|_| (), false, true);
    file.check(&|bytes| bytes[0] = 0, false, true);
    file.check(&|bytes| bytes[4] = 9, true, true);
    file.check(&|bytes| bytes[5] = 2, true, true);
    file.check(&|bytes| *bytes.last_mut().unwrap() ^= 1, false, true);
    file.check(&|bytes| bytes[commits + 5] ^= 1, true, true);
    file.check(&|bytes| bytes[commits + 35] ^= 1, true, true);
    file.check(&|bytes| bytes[ids + 5] ^= 1, true, false);
    file.check(&|bytes| bytes.truncate(500), false, false);
    file.check(&|bytes| bytes.clear(), false, true);
}
