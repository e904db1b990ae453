//! packrace serves what stock git maintains, and the other way round: every shape of packs, with every kind
//! of commit-graph, for both hashes.
//!
//! `matrix` tests each server more thoroughly, with built shapes; here the shapes come from the commands that
//! hosts run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use packrace_object::HashKind;
use packrace_testkit::{Extent, Git, Repo, RepoBuilder, Size, Storage, sampled};

use crate::matrix::succeed;
use crate::running::{PACKRACE, copy, packrace, stock_git};

/// How objects are maintained.
struct Shape {
    name: &'static str,
    /// Commands of either tool, run in the repository.
    commands: &'static [&'static str],
    /// The resulting files beside packs: bitmaps, times of cruft packs, a multi-pack-index.
    leaves: &'static [&'static str],
    /// Whether the older half of the history is in an alternate, which has a bitmap.
    alternate: bool,
}

impl Shape {
    const fn new(
        name: &'static str,
        commands: &'static [&'static str],
        leaves: &'static [&'static str],
    ) -> Self {
        Shape { name, commands, leaves, alternate: false }
    }
}

/// Groups of refs have bitmaps together, and most commits have none of their own.
const PSEUDO_MERGES: &str = "-c bitmapPseudoMerge.all.pattern=refs/(heads|tags)/ -c bitmapPseudoMerge.all.threshold=now \
     -c bitmapPseudoMerge.all.sampleRate=1 -c bitmapPseudoMerge.all.maxMerges=2 repack -adbq";

const SHAPES: [Shape; 13] = [
    Shape::new("many packs", &[], &[]),
    Shape::new("single pack", &["repack -adq --no-write-bitmap-index"], &[]),
    Shape::new("multi-pack-index", &["multi-pack-index write"], &["multi-pack-index"]),
    Shape::new(
        "multi-pack-index with bitmap",
        &["multi-pack-index write --bitmap"],
        &["bitmap", "multi-pack-index"],
    ),
    Shape::new(
        "single pack with a bare bitmap",
        &["-c pack.writeBitmapHashCache=false repack -adbq"],
        &["bitmap"],
    ),
    Shape::new(
        "single pack with all that bitmaps can have",
        &["-c pack.writeBitmapLookupTable=true repack -adbq"],
        &["bitmap"],
    ),
    Shape::new("single pack with pseudo-merges", &[PSEUDO_MERGES], &["bitmap"]),
    Shape::new("geometric", &["repack -dq --geometric=2 --write-midx"], &["multi-pack-index"]),
    Shape::new(
        "geometric with bitmap",
        &["-c pack.writeBitmapLookupTable=true repack -dq --geometric=2 --write-midx --write-bitmap-index"],
        &["bitmap", "multi-pack-index"],
    ),
    Shape::new("cruft", &["repack -dq --cruft --no-write-bitmap-index"], &["mtimes"]),
    Shape::new("cruft with bitmap", &["repack -dqb --cruft"], &["bitmap", "mtimes"]),
    Shape::new(
        "cruft under a multi-pack-index with bitmap",
        &["repack -dqb --cruft --write-midx"],
        &["bitmap", "mtimes", "multi-pack-index"],
    ),
    Shape {
        name: "alternate with bitmap",
        commands: &["repack -adlq --no-write-bitmap-index"],
        leaves: &[],
        alternate: true,
    },
];

/// The commit-graph to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Graph {
    No,
    Single,
    Split,
}

/// The tool that runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Git,
    Packrace,
}

impl Tool {
    fn run(self, repo: &Path, words: &str, input: &str) {
        let words: Vec<&str> = words.split(' ').collect();
        let output = match self {
            Tool::Git => stock_git(repo, &words, input),
            Tool::Packrace => packrace(repo, &words, input),
        };
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{self:?} {words:?} in {repo:?}: {stderr}");
    }

    fn upload_pack(self) -> String {
        match self {
            Tool::Git => format!("{} upload-pack", Git::stock().binary().display()),
            Tool::Packrace => format!("{PACKRACE} upload-pack"),
        }
    }
}

/// Four packs, and some objects that nothing reaches.
fn worn(hash: HashKind) -> Repo {
    let repo =
        RepoBuilder::new(Size::Tiny).hash(hash).storage(Storage { packs: 4, ..Storage::default() }).build();
    let tree = repo.git(&["rev-parse", "main^{tree}"]);
    for message in ["One that nobody knows", "Another"] {
        repo.git(&["commit-tree", tree.trim(), "-p", "main~2", "-m", message]);
    }
    repo.git(&["config", "uploadpack.allowFilter", "true"]);
    repo
}

/// A copy of `repo` in `dir`, maintained.
fn maintain(repo: &Repo, dir: &Path, tool: Tool, shape: &Shape, graph: Graph) -> PathBuf {
    let path = dir.join("r.git");
    copy(repo.path(), &path);
    if shape.alternate {
        let alternate = dir.join("alternate.git");
        copy(repo.path(), &alternate);
        let others = Git::stock().run(&alternate, &["for-each-ref", "--format=delete %(refname)"]);
        let others: String =
            others.lines().filter(|line| !line.ends_with("/old")).map(|line| format!("{line}\n")).collect();
        stock_git(&alternate, &["update-ref", "--stdin"], &others);
        tool.run(&alternate, "repack -adbq", "");
        assert_eq!(left(&alternate), ["bitmap"]);
        std::fs::create_dir_all(path.join("objects/info")).unwrap();
        std::fs::write(path.join("objects/info/alternates"), "../../alternate.git/objects\n").unwrap();
    }
    for command in shape.commands {
        tool.run(&path, command, "");
    }
    assert_eq!(left(&path), shape.leaves, "{} by {tool:?}", shape.name);
    match graph {
        Graph::No => {}
        Graph::Single => tool.run(&path, "commit-graph write --reachable", ""),
        Graph::Split => {
            let older = Git::stock().run(&path, &["rev-parse", "old"]);
            tool.run(&path, "commit-graph write --split=no-merge --stdin-commits", &older);
            tool.run(&path, "commit-graph write --split=no-merge --reachable", "");
            let chain = std::fs::read_to_string(path.join("objects/info/commit-graphs/commit-graph-chain"));
            assert_eq!(chain.unwrap().lines().count(), 2);
        }
    }
    path
}

/// The kinds of files beside packs.
fn left(repo: &Path) -> Vec<String> {
    let names = std::fs::read_dir(repo.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    let kinds: BTreeSet<String> = names
        .map(|path| {
            let extension = path.extension().map(|extension| extension.to_str().unwrap().to_owned());
            extension.unwrap_or_else(|| path.file_name().unwrap().to_str().unwrap().to_owned())
        })
        .filter(|kind| !["pack", "idx", "rev"].contains(&kind.as_str()))
        .collect();
    kinds.into_iter().collect()
}

/// All objects that a client of stock git has after a clone, after fetches of the rest, and after a clone
/// without blobs. Packs from packrace pass `git fsck`.
fn received(repo: &Path, server: Tool, what: &str) -> [BTreeSet<String>; 3] {
    let dir = packrace_testkit::scratch_dir();
    let url = format!("file://{}", repo.display());
    let upload_pack = format!("--upload-pack={}", server.upload_pack());
    let run = |words: &str| {
        let mut command = Git::stock().command(dir.path());
        command.args(["-c", "gc.auto=0", "-c", "protocol.version=2"]);
        for word in words.split(' ') {
            command.arg(if word == "{url}" { &url } else { word });
            command.args(matches!(word, "clone" | "fetch").then_some(&upload_pack));
        }
        succeed(&mut command, what)
    };
    run("clone -q --mirror {url} whole");
    run("clone -q --bare --single-branch --branch old --no-tags {url} later");
    run("-C later fetch -q origin main:refs/heads/main");
    run("-C later fetch -q origin +refs/*:refs/*");
    run("clone -q --mirror --filter=blob:none {url} partial");
    ["whole", "later", "partial"].map(|name| {
        if server == Tool::Packrace {
            let said = run(&format!("-C {name} fsck --strict --no-dangling --no-progress"));
            assert_eq!(said, "", "{what}, {name}");
        }
        let list = run(&format!("-C {name} cat-file --batch-all-objects --batch-check=%(objectname)"));
        list.lines().map(str::to_owned).collect()
    })
}

/// Checks that stock git finds nothing wrong.
fn assert_accepted(repo: &Path, shape: &Shape, graph: Graph) {
    let git = |args: &[&str]| Git::stock().run(repo, args);
    assert_eq!(git(&["fsck", "--full", "--strict", "--no-dangling", "--no-progress"]), "");
    for entry in std::fs::read_dir(repo.join("objects/pack")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "idx") {
            git(&["verify-pack", path.to_str().unwrap()]);
        }
    }
    if shape.leaves.contains(&"multi-pack-index") {
        git(&["multi-pack-index", "verify"]);
    }
    if graph != Graph::No {
        git(&["commit-graph", "verify"]);
    }
    if shape.alternate || shape.leaves.contains(&"bitmap") {
        git(&["rev-list", "--test-bitmap", if shape.alternate { "old" } else { "main" }]);
    }
}

/// After maintenance by `maintainer`, `server` sends what stock git sends from the repository before it.
fn check(hash: HashKind, maintainer: Tool, server: Tool, extent: Extent) {
    let repo = worn(hash);
    let expect = received(repo.path(), Tool::Git, "before");
    assert!(
        expect[0] == repo.reachable_objects() && expect[0] == expect[1] && expect[2].len() < expect[0].len()
    );
    let graphs = [Graph::No, Graph::Single, Graph::Split];
    let cases = SHAPES.iter().flat_map(|shape| graphs.map(|graph| (shape, graph)));
    // Each of the four tests begins at another shape, so that their samples differ.
    let first = extent.pick(2 * usize::from(hash == HashKind::Sha256) + usize::from(server == Tool::Git), 0);
    for (shape, graph) in cases.skip(first).step_by(extent.step(SHAPES.len() * graphs.len(), 8)) {
        let what = format!("{}, {hash}, graph: {graph:?}, by {maintainer:?}", shape.name);
        println!("{what}");
        let dir = packrace_testkit::scratch_dir();
        let path = maintain(&repo, dir.path(), maintainer, shape, graph);
        if maintainer == Tool::Packrace {
            assert_accepted(&path, shape, graph);
        }
        assert!(received(&path, server, &what) == expect, "{what}");
    }
}

sampled! {
    fn packrace_serves_what_git_maintains_sha1(extent) {
        check(HashKind::Sha1, Tool::Git, Tool::Packrace, extent);
    }

    fn packrace_serves_what_git_maintains_sha256(extent) {
        check(HashKind::Sha256, Tool::Git, Tool::Packrace, extent);
    }

    fn git_serves_what_packrace_maintains_sha1(extent) {
        check(HashKind::Sha1, Tool::Packrace, Tool::Git, extent);
    }

    fn git_serves_what_packrace_maintains_sha256(extent) {
        check(HashKind::Sha256, Tool::Packrace, Tool::Git, extent);
    }
}
