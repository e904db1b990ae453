//! Every storage that the builder offers is whole for stock git and shaped as asked.

use packrace_object::HashKind;
use packrace_testkit::{Bitmap, Git, GraphLayout, Loose, RefFormat, Repo, RepoBuilder, Size, Storage};

/// Builds, lets git verify everything, and looks for a file by its ending, or by its absence with `!`.
fn check(builder: RepoBuilder, files: &[&str]) -> Repo {
    let repo = builder.build();
    let fsck = repo.git(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
    assert_eq!(fsck.trim(), "", "{builder:?}");
    let listing = list(repo.path());
    for wanted in files {
        match wanted.strip_prefix('!') {
            Some(absent) => assert!(!listing.iter().any(|f| f.ends_with(absent)), "{wanted} {listing:?}"),
            None => assert!(listing.iter().any(|f| f.ends_with(wanted)), "{wanted} {listing:?}"),
        }
    }
    repo
}

fn list(dir: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(list(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found
}

fn tiny() -> RepoBuilder {
    RepoBuilder::new(Size::Tiny)
}

fn with(storage: Storage) -> RepoBuilder {
    tiny().storage(storage)
}

#[test]
fn a_repository_is_the_same_every_time() {
    let first = check(tiny(), &[".pack", "packed-refs", "!.bitmap", "!commit-graph"]);
    let dir = tempfile::tempdir().unwrap();
    let second = dir.path().join("second.git");
    tiny().build_anew(&second, Git::stock());
    let refs = first.git(&["for-each-ref"]);
    assert_eq!(refs, Git::stock().run(&second, &["for-each-ref"]));
    // Written down so that a change of the generator is noticed.
    assert_eq!(first.git(&["rev-parse", "main"]).trim(), "543062f10ee5e10a88eaf4a9dacb4e883ab5d546");
    assert_ne!(refs, tiny().seed(2).build().git(&["for-each-ref"]));
}

#[test]
fn history_has_every_shape() {
    let repo = tiny().build();
    let most_parents = repo.git(&["rev-list", "--min-parents=3", "--count", "main"]);
    assert_ne!(most_parents.trim(), "0", "an octopus");
    let kinds = repo.git(&["for-each-ref", "--format=%(objecttype) %(*objecttype)"]);
    for kind in ["commit ", "tag commit", "tag blob", "tag tree", "tree "] {
        assert!(kinds.lines().any(|line| line == kind), "{kind:?}");
    }
    assert_eq!(repo.git(&["cat-file", "-p", "nested-outermost"]).lines().nth(1), Some("type tag"));
    let tree = repo.git(&["ls-tree", "-r", "-z", "main"]);
    for entry in
        ["100755 blob", "120000 blob", "160000 commit", "new\nline.txt", "quo\"te.txt", "日本/語.txt"]
    {
        assert!(tree.contains(entry), "{entry:?}");
    }
    assert!(repo.git(&["log", "--find-renames", "--diff-filter=R", "--oneline", "main"]).lines().count() > 0);
}

#[test]
fn hashes_and_ref_formats() {
    let sha256 = check(tiny().hash(HashKind::Sha256), &["packed-refs"]);
    assert_eq!(sha256.git(&["rev-parse", "main"]).trim().len(), 64);
    check(tiny().ref_format(RefFormat::Reftable), &[".ref", "tables.list", "!packed-refs"]);
    check(tiny().ref_format(RefFormat::Reftable).hash(HashKind::Sha256), &["tables.list"]);
}

#[test]
fn storages() {
    let all = tiny().build().reachable_objects();
    let same = |repo: Repo| assert_eq!(repo.reachable_objects(), all);
    same(check(
        with(Storage { packs: 4, keep_oldest: true, ..Storage::default() }),
        &[".keep", "!multi-pack-index"],
    ));
    same(check(with(Storage { packs: 3, loose: Loose::Newest, ..Storage::default() }), &[".pack"]));
    same(check(with(Storage { loose: Loose::All, ..Storage::default() }), &["!.pack", "!.idx"]));
    same(check(with(Storage { packs: 4, alternate: true, ..Storage::default() }), &["info/alternates"]));
    same(check(
        with(Storage { packs: 3, multi_pack_index: true, ..Storage::default() }),
        &["multi-pack-index"],
    ));
    for bitmap in [Bitmap::Plain, Bitmap::LookupTable] {
        same(check(with(Storage { bitmap, ..Storage::default() }), &[".bitmap"]));
        let multi = Storage { packs: 3, multi_pack_index: true, bitmap, ..Storage::default() };
        same(check(with(multi), &["multi-pack-index", ".bitmap"]));
    }
    let single = Storage { commit_graph: GraphLayout::Single, ..Storage::default() };
    same(check(with(single), &["info/commit-graph"]));
    let split = Storage { commit_graph: GraphLayout::Split, packed_refs: false, ..Storage::default() };
    same(check(with(split), &["commit-graph-chain", "refs/heads/main"]));
}

#[test]
fn a_shallow_repository_has_a_boundary() {
    for ref_format in [RefFormat::Files, RefFormat::Reftable] {
        let storage = Storage { shallow_depth: Some(5), ..Storage::default() };
        let repo = check(with(storage).ref_format(ref_format), &["shallow"]);
        assert_eq!(repo.git(&["rev-list", "--count", "--first-parent", "main"]).trim(), "5");
    }
}

#[test]
fn a_small_repository_has_big_blobs_and_many_refs() {
    let repo = check(RepoBuilder::new(Size::Small), &[".pack"]);
    assert!(repo.git(&["for-each-ref"]).lines().count() > 290);
    let sizes = repo.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectsize)"]);
    assert!(sizes.lines().filter(|size| size.parse::<u64>().unwrap() >= 1_500_000).count() >= 2);
    assert!(sizes.lines().count() > 1500);
}
