//! Beside stock git, in several states.

use packrace_maintenance::{PackKind, RefFacts, Task};
use packrace_object::HashKind;
use packrace_os::clock::time_of_day;
use packrace_testkit::{Bitmap, Git, GraphLayout, Loose, RefFormat, Repo, RepoBuilder, Size, Storage};

use crate::{Occasion, assert_no_litter, assert_sound, facts, maintain, maintain_at, planned};

/// Maintained once, the repository has what it had before, as stock git sees it, and needs nothing more.
#[track_caller]
fn check(repo: &Repo, expect: &[Task]) {
    let before = (repo.reachable_objects(), repo.git(&["for-each-ref"]));
    let done = maintain(repo.path());
    assert_eq!(done, expect);
    assert_sound(repo.path(), "maintained");
    assert_eq!((repo.reachable_objects(), repo.git(&["for-each-ref"])), before);
    let facts = facts(repo.path(), time_of_day());
    assert_eq!(planned(repo.path(), Occasion::Asked), [], "{facts:?}");
    assert_no_litter(repo.path(), "maintained");
    // Bitmaps tell the same as a walk.
    let count = ["rev-list", "--all", "--objects", "--count"];
    assert_eq!(repo.git(&[&count[..], &["--use-bitmap-index"]].concat()), repo.git(&count));
}

const USUAL: [Task; 3] = [Task::PackRefs, Task::GeometricRepack, Task::CommitGraph];

fn storage() -> Storage {
    Storage { packs: 7, loose: Loose::Newest, ..Storage::default() }
}

fn build(storage: Storage) -> Repo {
    young(RepoBuilder::new(Size::Tiny).storage(storage).build())
}

/// What was built long ago would be packed anew for that.
fn young(repo: Repo) -> Repo {
    for entry in std::fs::read_dir(repo.path().join("objects/pack")).unwrap() {
        std::fs::File::open(entry.unwrap().path()).unwrap().set_modified(time_of_day()).unwrap();
    }
    repo
}

#[test]
fn packs_and_loose_objects() {
    let repo = build(storage());
    check(&repo, &USUAL);
    let facts = facts(repo.path(), time_of_day());
    assert!(facts.packs.len() <= 7 && facts.loose_objects == 0 && facts.bitmap.is_some(), "{facts:?}");
    assert_eq!(facts.bitmap_coverage(), Some(100));
}

#[test]
fn everything_loose() {
    let repo = build(Storage { loose: Loose::All, ..storage() });
    check(&repo, &USUAL);
    assert_eq!(facts(repo.path(), time_of_day()).packs.len(), 1);
}

#[test]
fn three_hundred_packs() {
    let repo = build(Storage::default());
    let names: Vec<String> = (0..300)
        .map(|number| repo.path().join(format!("content-{number}")))
        .map(|path| {
            std::fs::write(&path, path.display().to_string()).unwrap();
            path.display().to_string()
        })
        .collect();
    let ids = repo.git_with_input(&["hash-object", "-w", "--stdin-paths"], names.join("\n").as_bytes());
    for id in ids.lines() {
        repo.git_with_input(&["pack-objects", "-q", "objects/pack/pack"], format!("{id}\n").as_bytes());
    }
    repo.git(&["prune-packed"]);
    assert_eq!(facts(repo.path(), time_of_day()).packs.len(), 301);
    assert!(planned(repo.path(), Occasion::Served).contains(&Task::GeometricRepack));
    check(&repo, &USUAL);
    let facts = facts(repo.path(), time_of_day());
    assert!(facts.packs.len() <= 2, "{}", facts.packs.len());
    // Nothing refers to them, and they are new.
    for id in ids.lines() {
        repo.git(&["cat-file", "-e", id]);
    }
}

#[test]
fn reftables() {
    if !Git::stock().has_reftable() {
        return;
    }
    let repo = RepoBuilder::new(Size::Tiny).ref_format(RefFormat::Reftable).storage(storage()).build();
    let main = repo.git(&["rev-parse", "main"]);
    for number in 0..5 {
        let config = ["-c", "reftable.geometricFactor=0", "update-ref"];
        repo.git(&[&config[..], &[&format!("refs/heads/more/{number}"), main.trim()]].concat());
    }
    maintain(repo.path());
    assert_eq!(facts(repo.path(), time_of_day()).refs, RefFacts::Tables(1));
    check(&repo, &[]);
}

#[test]
fn sha256() {
    let repo = young(RepoBuilder::new(Size::Tiny).hash(HashKind::Sha256).storage(storage()).build());
    check(&repo, &USUAL);
}

#[test]
fn kept_packs_stay() {
    let repo = build(Storage { keep_oldest: true, ..storage() });
    let kept = |path: &std::path::Path| {
        let mut packs = facts(path, time_of_day()).packs;
        packs.retain(|pack| pack.kind == PackKind::Kept);
        packs.into_iter().map(|pack| pack.name).collect::<Vec<_>>()
    };
    let before = kept(repo.path());
    assert_eq!(before.len(), 1);
    check(&repo, &USUAL);
    assert_eq!(kept(repo.path()), before);
    maintain_at(repo.path(), time_of_day(), &[Task::Gc]).unwrap();
    assert_eq!(kept(repo.path()), before);
    check(&repo, &[]);
}

/// What is borrowed stays where it is, and there is no bitmap: it could not name those objects.
#[test]
fn borrowed_objects() {
    let repo = build(Storage { alternate: true, ..storage() });
    let objects = |path: &std::path::Path| facts(path, time_of_day()).packed_objects();
    let before = objects(repo.path());
    check(&repo, &USUAL);
    assert!(objects(repo.path()) <= before + 100);
    assert!(facts(repo.path(), time_of_day()).borrows);
    maintain_at(repo.path(), time_of_day(), &[Task::Gc]).unwrap();
    check(&repo, &[]);
}

#[test]
fn shallow_repositories() {
    let repo = build(Storage { shallow_depth: Some(5), packs: 1, ..Storage::default() });
    check(&repo, &[Task::PackRefs]);
}

#[test]
fn what_git_maintains_needs_little() {
    let repo = build(Storage {
        commit_graph: GraphLayout::Single,
        bitmap: Bitmap::Plain,
        packed_refs: false,
        ..Storage::default()
    });
    repo.git(&["gc", "-q"]);
    check(&repo, &[]);
}

/// Unreachable objects stay until they expire, in a cruft pack; then they go, and nothing else does.
#[test]
fn what_nothing_refers_to_goes_when_it_has_expired() {
    let repo = build(storage());
    let id = repo.git_with_input(&["hash-object", "-w", "--stdin"], b"nobody wants this");
    let is_there = || Git::stock().command(repo.path()).args(["cat-file", "-e", id.trim()]).output().unwrap();
    maintain_at(repo.path(), time_of_day(), &[Task::Gc]).unwrap();
    assert!(is_there().status.success());
    let cruft =
        || facts(repo.path(), time_of_day()).packs.into_iter().find(|pack| pack.kind == PackKind::Cruft);
    assert_eq!(cruft().unwrap().expired, 0);
    repo.git(&["config", "gc.pruneExpire", "now"]);
    assert!(cruft().unwrap().expired > 0);
    check(&repo, &[Task::Gc]);
    assert!(!is_there().status.success() && cruft().is_none());
}

/// Nothing that a damaged pack holds is lost, and it stays for whoever repairs it.
#[test]
fn damaged_packs_stay() {
    let repo = build(Storage { packs: 3, ..Storage::default() });
    let dir = repo.path().join("objects/pack");
    let packs = || {
        let names = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|extension| extension == "pack")).collect::<Vec<_>>()
    };
    let before = packs();
    let damaged = &before[0];
    let mut bytes = std::fs::read(damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::remove_file(damaged).unwrap();
    std::fs::write(damaged, &bytes).unwrap();
    for task in [Task::GeometricRepack, Task::Gc] {
        let done = maintain_at(repo.path(), time_of_day(), &[task]);
        assert!(damaged.exists() || done.is_ok(), "{task:?}: {done:?}");
        if done.is_err() {
            assert!(before.iter().all(|pack| packs().contains(pack)), "{task:?}: packs are gone");
        }
    }
    assert!(damaged.exists(), "what it holds cannot be read, and was not copied");
}

/// A ref to nowhere is no reason to write anything anew, again and again.
#[test]
fn refs_to_nowhere() {
    let repo = build(storage());
    maintain(repo.path());
    std::fs::write(repo.path().join("refs/heads/nowhere"), format!("{}\n", "1".repeat(40))).unwrap();
    repo.git(&["config", "maintenance.pack-refs.enabled", "false"]);
    assert_eq!(planned(repo.path(), Occasion::Asked), []);
}

#[test]
fn expired_commits_leave_a_chain_of_commit_graphs() {
    let repo = build(Storage { commit_graph: GraphLayout::Split, ..storage() });
    let commit = |message: &str| {
        let id = repo.git(&["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", message]);
        id.trim_end().to_owned()
    };
    let gone = commit("gone");
    repo.git(&["update-ref", "refs/heads/gone", &gone]);
    repo.git(&["commit-graph", "write", "--reachable", "--split=no-merge"]);
    repo.git(&["update-ref", "-d", "refs/heads/gone"]);
    repo.git(&["reflog", "expire", "--expire=now", "--all"]);
    repo.git(&["prune", "--expire=now"]);
    for message in ["one", "two", "three"] {
        repo.git(&["update-ref", "HEAD", &commit(message)]);
    }
    maintain_at(repo.path(), time_of_day(), &[Task::CommitGraph]).unwrap();
    repo.git(&["commit-graph", "verify"]);
}
