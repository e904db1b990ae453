//! Compares the connectivity check with `git rev-list --objects <new> --not --all`. Every object of a history
//! is removed in turn, and placed behind an unreachable object.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use packrace_object::{HashKind, ObjectId};
use packrace_pack::connectivity::{Question, gaps};
use packrace_pack::{NoProgress, RequestObjects};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::{Bitmap, Git, GraphLayout, Loose, Repo, RepoBuilder, Size, Storage};

fn id(hex: &str) -> ObjectId {
    ObjectId::from_hex(hex.trim().as_bytes()).unwrap()
}

fn ids(listing: &str) -> Vec<ObjectId> {
    listing.lines().map(id).collect()
}

fn request_objects(path: &Path) -> Arc<RequestObjects> {
    let repository = Repository::open(path, &OpenOptions::default()).unwrap();
    Arc::new(RequestObjects::new(repository.snapshot().unwrap()))
}

/// Positions of the tips that lack something.
fn broken(path: &Path, tips: &[ObjectId], trusted: &[ObjectId], shallow: &[ObjectId]) -> Vec<usize> {
    let max_tree_depth = packrace_pack::MAX_TREE_DEPTH;
    let question = Question { tips, trusted, shallow, max_tree_depth, threads: 2 };
    gaps(&request_objects(path), &question, &NoProgress).unwrap().iter().map(|gap| gap.tip).collect()
}

/// The same by stock git, each tip by itself, as `receive-pack` does.
fn broken_for_git(path: &Path, tips: &[ObjectId], trusted: &[ObjectId]) -> Vec<usize> {
    let is_broken = |tip: &ObjectId| {
        let mut command = Git::stock().command(path);
        command.args(["rev-list", "--objects", "--quiet", "--alternate-refs", &tip.to_string(), "--not"]);
        command.args(trusted.iter().map(ToString::to_string));
        !command.output().unwrap().status.success()
    };
    (0..tips.len()).filter(|at| is_broken(&tips[*at])).collect()
}

/// A repository with only loose objects, so that any can be removed.
fn loose(hash: HashKind) -> Repo {
    let storage = Storage { loose: Loose::All, ..Storage::default() };
    RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build()
}

fn loose_path(repo: &Repo, id: &ObjectId) -> std::path::PathBuf {
    let hex = id.to_string();
    repo.path().join("objects").join(&hex[..2]).join(&hex[2..])
}

#[test]
fn each_object_missing_in_turn() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = loose(hash);
        let tips = ids(&repo.git(&[
            "rev-parse",
            "main",
            "main~1",
            "main~4",
            "main~2^{tree}",
            "of-a-tree",
            "main~9",
        ]));
        let trusted = ids(&repo.git(&["rev-parse", "main~9"]));
        assert_eq!(broken(repo.path(), &tips, &trusted, &[]), [0usize; 0]);
        let all = ids(&repo.git(&["rev-list", "--objects", "--no-object-names", "main", "of-a-tree"]));
        let new: BTreeSet<ObjectId> = ids(&repo.git(&[
            "rev-list",
            "--objects",
            "--no-object-names",
            "main",
            "of-a-tree",
            "--not",
            "main~9",
        ]))
        .into_iter()
        .collect();
        let mut found = 0;
        for (count, gone) in all.iter().enumerate() {
            // Only a sample of the trusted objects: git visits them only if it does not know that they are
            // trusted.
            let is_new = new.contains(gone);
            if !is_new && count % 7 > 0 {
                continue;
            }
            let (path, aside) = (loose_path(&repo, gone), repo.path().join("aside"));
            std::fs::rename(&path, &aside).unwrap();
            let ours = broken(repo.path(), &tips, &trusted, &[]);
            let gits = broken_for_git(repo.path(), &tips, &trusted);
            assert!(
                ours == gits || !is_new && ours.iter().all(|tip| gits.contains(tip)),
                "without {gone}: {ours:?} {gits:?}"
            );
            found += ours.len();
            std::fs::rename(&aside, &path).unwrap();
        }
        assert!(found > new.len(), "{found} gaps");
    }
}

/// Writes an object that git would not write.
fn write(path: &Path, kind: &str, content: &[u8]) -> ObjectId {
    let args = ["hash-object", "-w", "--literally", "--stdin", "-t", kind];
    id(std::str::from_utf8(&Git::stock().run_with_input(path, &args, content)).unwrap())
}

fn commit(path: &Path, tree: &ObjectId, parents: &[ObjectId]) -> ObjectId {
    let mut text = format!("tree {tree}\n");
    parents.iter().for_each(|parent| text.push_str(&format!("parent {parent}\n")));
    text.push_str("author A <a> 1500000000 +0000\ncommitter A <a> 1500000000 +0000\n\n");
    write(path, "commit", text.as_bytes())
}

fn tag(path: &Path, target: &ObjectId, kind: &str) -> ObjectId {
    let text = format!("object {target}\ntype {kind}\ntag t\ntagger A <a> 1500000000 +0000\n\n");
    write(path, "tag", text.as_bytes())
}

fn tree(path: &Path, entries: &[(&str, &str, &ObjectId)]) -> ObjectId {
    let entry = |(mode, name, id): &(&str, &str, &ObjectId)| {
        [mode.as_bytes(), b" ", name.as_bytes(), b"\0", id.as_slice()].concat()
    };
    write(path, "tree", &entries.iter().map(entry).collect::<Vec<_>>().concat())
}

/// Tips above a gap at each depth, alternating with intact tips.
fn odd_tips(path: &Path, hash: HashKind) -> Vec<ObjectId> {
    let old = id(&Git::stock().run(path, &["rev-parse", "main~3"]));
    let old_tree = id(&Git::stock().run(path, &["rev-parse", "main~3^{tree}"]));
    let absent = id(&"ab".repeat(hash.len_in_bytes()));
    let blob = write(path, "blob", b"new\n");
    let whole = tree(path, &[("100644", "a", &blob), ("40000", "b", &old_tree), ("160000", "c", &absent)]);
    let no_blob = tree(path, &[("100644", "a", &absent)]);
    let no_link = tree(path, &[("120000", "a", &absent)]);
    let no_tree = tree(path, &[("40000", "a", &absent), ("100644", "b", &blob)]);
    let deep = tree(path, &[("40000", "d", &tree(path, &[("40000", "e", &no_blob)]))]);
    let on = |tree: &ObjectId| commit(path, tree, &[old]);
    // Unreachable, and not checked for completeness.
    let (stray_good, stray_bad) = (on(&whole), on(&deep));
    vec![
        on(&whole),
        on(&absent),
        on(&old_tree),
        on(&no_blob),
        commit(path, &whole, &[stray_good]),
        on(&no_link),
        tag(path, &tag(path, &on(&whole), "commit"), "tag"),
        on(&no_tree),
        tag(path, &blob, "blob"),
        on(&deep),
        blob,
        commit(path, &whole, &[old, absent]),
        whole,
        commit(path, &whole, &[stray_bad]),
        old,
        tag(path, &absent, "commit"),
        commit(path, &whole, &[]),
        tag(path, &tag(path, &absent, "commit"), "tag"),
        old_tree,
        absent,
        tag(path, &whole, "tree"),
        deep,
        on(&tree(path, &[("40000", "x", &whole)])),
        commit(path, &old_tree, &[commit(path, &absent, &[old])]),
    ]
}

fn storages() -> Vec<(HashKind, Storage)> {
    let plain = Storage::default;
    vec![
        (HashKind::Sha1, plain()),
        (HashKind::Sha1, Storage { bitmap: Bitmap::Plain, ..plain() }),
        (HashKind::Sha1, Storage { commit_graph: GraphLayout::Single, ..plain() }),
        (HashKind::Sha256, Storage { bitmap: Bitmap::Plain, commit_graph: GraphLayout::Single, ..plain() }),
    ]
}

#[test]
fn gaps_at_every_depth() {
    for (hash, storage) in storages() {
        let repo = RepoBuilder::new(Size::Tiny).hash(hash).storage(storage.clone()).build();
        let refs = ids(&repo.git(&["for-each-ref", "--format=%(objectname)"]));
        let tips = odd_tips(repo.path(), hash);
        let odd: Vec<usize> = (0..tips.len()).filter(|at| at % 2 == 1).collect();
        let main = ids(&repo.git(&["rev-parse", "main"]));
        for trusted in [&refs[..], &main, &[]] {
            assert_eq!(broken(repo.path(), &tips, trusted, &[]), odd, "{storage:?}");
            assert_eq!(broken_for_git(repo.path(), &tips, trusted), odd, "{storage:?}");
            for (at, tip) in tips.iter().enumerate() {
                let alone = broken(repo.path(), &[*tip], trusted, &[]);
                assert_eq!(alone.len(), at % 2, "{storage:?}: {at}");
            }
        }
    }
}

#[test]
fn what_an_alternate_has_counts() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let dir = packrace_testkit::scratch_dir();
    Git::stock().run(dir.path(), &["clone", "-q", "--bare", "--shared", repo.path().to_str().unwrap(), "."]);
    let tips = odd_tips(dir.path(), HashKind::Sha1);
    let odd: Vec<usize> = (0..tips.len()).filter(|at| at % 2 == 1).collect();
    assert_eq!(broken(dir.path(), &tips, &ids(&repo.git(&["rev-parse", "main"])), &[]), odd);
    assert_eq!(broken(dir.path(), &tips, &[], &[]), odd);
}

/// An object that one tree calls a blob does not count as visited if another tree calls it a tree.
#[test]
fn two_kinds_of_one_object() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let path = repo.path();
    let absent = id(&"ab".repeat(20));
    let main = ids(&repo.git(&["rev-parse", "main"]));
    let hollow = tree(path, &[("100644", "a", &absent)]);
    let full = tree(path, &[("100644", "a", &write(path, "blob", b"x"))]);
    let as_both = |tree_: &ObjectId| tree(path, &[("100644", "a", tree_), ("40000", "b", tree_)]);
    for parents in [&main[..], &[]] {
        for trusted in [&main[..], &[]] {
            let check = |root: ObjectId, expect: &[usize]| {
                assert_eq!(broken(path, &[commit(path, &root, parents)], trusted, &[]), expect);
            };
            check(as_both(&hollow), &[0]);
            check(as_both(&full), &[0]);
            check(tree(path, &[("40000", "a", &main[0])]), &[0]);
            check(tree(path, &[("40000", "a", &full)]), &[]);
        }
    }
    // Packed, as a delta of the object that was called a blob.
    let big: Vec<(String, ObjectId)> =
        (0..200).map(|n| (format!("{n:03}"), id(&repo.git(&["rev-parse", "main:"])))).collect();
    let entries = |last: &'static str| {
        let mut entries: Vec<(&str, &str, &ObjectId)> =
            big.iter().map(|(name, id)| ("40000", name.as_str(), id)).collect();
        entries.push(("100644", last, &absent));
        tree(path, &entries)
    };
    let (one, other) = (entries("x"), entries("y"));
    let root = tree(path, &[("100644", "a", &one), ("40000", "b", &other)]);
    let tip = commit(path, &root, &main);
    let listed = format!("{one}\n{other}\n{root}\n{tip}\n");
    let pack = Git::stock().run_with_input(
        path,
        &["pack-objects", "-q", "--window=10", "objects/pack/pack"],
        listed.as_bytes(),
    );
    assert_eq!(pack.len(), 41);
    let name = std::str::from_utf8(&pack).unwrap().trim();
    let listing = repo.git(&["verify-pack", "-v", &format!("objects/pack/pack-{name}.idx")]);
    assert!(listing.contains("chain length = 1: 1 object"), "{listing}");
    repo.git(&["prune-packed"]);
    for trusted in [&main[..], &[]] {
        assert_eq!(broken(path, &[tip], trusted, &[]), [0]);
    }
}

#[test]
fn shallow_commits_may_lack_their_parents() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let path = repo.path();
    let absent = id(&"ab".repeat(20));
    let whole = tree(path, &[("100644", "a", &write(path, "blob", b"x"))]);
    let cut = commit(path, &whole, &[absent]);
    let tips = [cut, commit(path, &whole, &[cut])];
    let main = ids(&repo.git(&["rev-parse", "main"]));
    for trusted in [&main[..], &[]] {
        assert_eq!(broken(path, &tips, trusted, &[]), [0, 1]);
        assert_eq!(broken(path, &tips, trusted, &[cut]), [0usize; 0]);
    }
    std::fs::write(path.join("shallow"), format!("{cut}\n")).unwrap();
    assert_eq!(broken(path, &tips, &main, &[]), [0usize; 0]);
    assert_eq!(broken_for_git(path, &tips, &main), [0usize; 0]);
}

#[test]
fn what_a_promisor_has_need_not_be_there() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    repo.git(&["config", "uploadpack.allowFilter", "true"]);
    let dir = packrace_testkit::scratch_dir();
    let url = format!("file://{}", repo.path().display());
    Git::stock().run(dir.path(), &["clone", "-q", "--bare", "--filter=blob:none", &url, "."]);
    let tips = ids(&repo.git(&["rev-parse", "main", "main^{tree}"]));
    assert_eq!(broken(dir.path(), &tips, &[], &[]), [0usize; 0]);
    let absent = id(&"ab".repeat(20));
    let lacking = commit(dir.path(), &tree(dir.path(), &[("100644", "a", &absent)]), &tips[..1]);
    assert_eq!(broken(dir.path(), &[lacking], &tips, &[]), [0]);
}

/// If the new history is long, or joins the old one far below any ref, the walk starts from all refs, too; a
/// broken ref then does no harm.
#[test]
fn long_histories() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let path = repo.path();
    let mut text = String::new();
    for (branch, count) in [("long", 1500), ("short", 3)] {
        for n in 0..count {
            let from = if branch == "short" && n == 0 { "from :1\n" } else { "" };
            let mark = if n == 99 { "mark :1\n" } else { "" };
            text.push_str(&format!(
                "commit refs/heads/{branch}\n{mark}committer A <a> {} +0000\ndata 0\n{from}M 100644 inline {n}\ndata 3\n{}\n",
                1_500_000_000 + n, n % 90 + 10
            ));
        }
    }
    Git::stock().run_with_input(path, &["fast-import", "--quiet"], text.as_bytes());
    let [long, short, middle] = ["long", "short", "long~700"].map(|name| id(&repo.git(&["rev-parse", name])));
    let main = id(&repo.git(&["rev-parse", "main"]));
    let absent = id(&"ab".repeat(20));
    let bad_ref = commit(path, &absent, &[absent]);
    let hollow = tree(path, &[("100644", "a", &absent)]);
    let bad = commit(path, &hollow, &[short]);
    for trusted in
        [&[main][..], &[main, long], &[main, middle], &[main, long, bad_ref, absent], &[bad_ref], &[]]
    {
        let tips = [long, short, bad, middle];
        assert_eq!(broken(path, &tips, trusted, &[]), [2], "{trusted:?}");
        assert_eq!(broken(path, &[short], trusted, &[]), [0usize; 0]);
    }
}
