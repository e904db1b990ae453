use std::collections::BTreeSet;
use std::path::Path;

use packrace_object::HashKind;
use packrace_testkit::Git;

use super::*;
use crate::test_files::{HASHES, read};

/// A work tree whose index has a resolved conflict, a cached tree of a directory, and a submodule.
pub(super) fn work_tree(hash: HashKind, version: u32) -> tempfile::TempDir {
    let dir = packrace_testkit::scratch_dir();
    let git = |args: &[&str]| Git::stock().run(dir.path(), args);
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    git(&["init", "-q", "-b", "main", &format!("--object-format={hash}")]);
    git(&["config", "index.version", &version.to_string()]);
    std::fs::create_dir_all(dir.path().join("deep/er")).unwrap();
    write("conflict", "base\n");
    write("deep/er/file", "deep\n");
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "base"]);
    git(&["checkout", "-q", "-b", "side"]);
    write("conflict", "side\n");
    git(&["commit", "-qam", "side"]);
    git(&["checkout", "-q", "main"]);
    write("conflict", "main\n");
    git(&["commit", "-qam", "main"]);
    let merge = Git::stock().command(dir.path()).args(["merge", "-q", "side"]).output().unwrap();
    assert!(!merge.status.success(), "a conflict");
    write("conflict", "both\n");
    git(&["add", "conflict"]);
    let commit = format!("160000,{},module", hash.null().to_string().replace('0', "1"));
    git(&["update-index", "--add", "--cacheinfo", &commit]);
    write("new", "added\n");
    git(&["add", "-N", "new"]);
    dir
}

pub(super) fn index_of(dir: &Path) -> Vec<u8> {
    read(&dir.join(".git/index"))
}

fn check(dir: &Path, hash: HashKind) {
    let git = |args: &[&str]| Git::stock().run(dir, args);
    let found = IndexFile::decode(&index_of(dir), hash).unwrap().named_objects();
    let found: BTreeSet<String> = found.iter().map(ToString::to_string).collect();
    let mut expect: BTreeSet<String> = BTreeSet::new();
    for line in git(&["ls-files", "-s"]).lines() {
        let fields: Vec<&str> = line.split([' ', '\t']).collect();
        expect.extend((fields[0] != "160000").then(|| fields[1].to_owned()));
    }
    assert!(expect.len() >= 3 && expect.is_subset(&found), "{expect:?} in {found:?}");
    for line in git(&["ls-files", "--resolve-undo"]).lines() {
        expect.insert(line.split([' ', '\t']).nth(1).unwrap().to_owned());
    }
    let deep = git(&["rev-parse", "main:deep"]);
    expect.extend([deep.trim().to_owned(), git(&["rev-parse", "main:deep/er"]).trim().to_owned()]);
    assert_eq!(found, expect);
}

#[test]
fn every_version() {
    for (hash, version) in HASHES.into_iter().flat_map(|hash| [2, 3, 4].map(|version| (hash, version))) {
        let dir = work_tree(hash, version);
        check(dir.path(), hash);
    }
}

#[test]
fn a_shared_index_is_named() {
    let dir = work_tree(HashKind::Sha1, 2);
    Git::stock().run(dir.path(), &["update-index", "--split-index"]);
    let found = IndexFile::decode(&index_of(dir.path()), HashKind::Sha1).unwrap();
    let shared = found.link.expect("an index that is split").shared;
    let shared = read(&dir.path().join(format!(".git/sharedindex.{shared}")));
    assert!(IndexFile::decode(&shared, HashKind::Sha1).unwrap().named_objects().len() >= 2);
}
