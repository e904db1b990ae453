use std::collections::HashSet;

use packrace_object::HashKind;
use packrace_testkit::{Git, Random};

use super::tests::{index_of, work_tree};
use super::*;
use crate::checksum;
use crate::test_files::{HASHES, damage, read};

fn parts_of(file: &IndexFile) -> IndexParts<'_> {
    IndexParts {
        cache_tree: file.cache_tree.as_ref(),
        resolve_undo: &file.resolve_undo,
        untracked: file.untracked.as_deref(),
        monitored: file.monitored.as_ref(),
        is_sparse: file.is_sparse,
        link: file.link.as_ref(),
        skip_hash: file.checksum.is_null(),
    }
}

fn written(file: &IndexFile, hash: HashKind) -> Vec<u8> {
    let entries = file.entries.iter().map(|(key, entry)| (key, entry));
    encode(entries, file.version, &parts_of(file), hash).0
}

/// Reads an index that git wrote, writes it again byte for byte, and compares the content with git's listing.
fn check(bytes: &[u8], hash: HashKind, listed: &str) {
    let file = IndexFile::decode(bytes, hash).unwrap();
    let again = written(&file, hash);
    assert!(again == bytes, "{} bytes became {}", bytes.len(), again.len());
    assert_eq!(list(&file), listed);
}

fn list(file: &IndexFile) -> String {
    let line = |(key, entry): &(EntryKey, IndexEntry)| {
        let path = String::from_utf8_lossy(key.path()).into_owned();
        format!("{:06o} {} {}\t{path}\n", entry.mode.bits(), entry.id, key.stage())
    };
    file.entries.iter().map(line).collect()
}

fn git(dir: &std::path::Path, args: &[&str]) -> String {
    Git::stock().run(dir, args)
}

#[test]
fn every_version_byte_by_byte() {
    for (hash, version) in HASHES.into_iter().flat_map(|hash| [2, 3, 4].map(|version| (hash, version))) {
        let dir = work_tree(hash, version);
        let dir = dir.path();
        std::fs::create_dir_all(dir.join("x".repeat(200)).join("y".repeat(200))).unwrap();
        for name in ["deep/er/more", "deep-er", "z"] {
            std::fs::write(dir.join(name), name).unwrap();
        }
        std::fs::write(dir.join("x".repeat(200)).join("y".repeat(200)).join("z"), "long").unwrap();
        git(dir, &["add", "."]);
        git(dir, &["write-tree"]);
        git(dir, &["update-index", "--chmod=+x", "deep/er/more"]);
        check(&index_of(dir), hash, &git(dir, &["ls-files", "-s"]));
        git(dir, &["update-index", "--assume-unchanged", "z"]);
        git(dir, &["update-index", "--skip-worktree", "deep/er/file"]);
        check(&index_of(dir), hash, &git(dir, &["ls-files", "-s"]));
        git(dir, &["-c", "index.skipHash=true", "update-index", "--force-remove", "z"]);
        check(&index_of(dir), hash, &git(dir, &["ls-files", "-s"]));
        git(dir, &["update-index", "--untracked-cache"]);
        git(dir, &["status"]);
        check(&index_of(dir), hash, &git(dir, &["ls-files", "-s"]));
    }
}

#[test]
fn paths_longer_than_their_length_says() {
    let hash = HashKind::Sha1;
    for (version, length) in
        [2, 4].into_iter().flat_map(|version| [4094, 4095, 4096, 70_000].map(|l| (version, l)))
    {
        let dir = work_tree(hash, version);
        let line = format!(
            "100644 {} 0\t{}\n",
            hash.empty_blob(),
            "a/".repeat(length / 2) + &"b".repeat(length % 2 + 2)
        );
        Git::stock().run_with_input(dir.path(), &["update-index", "--index-info"], line.as_bytes());
        check(&index_of(dir.path()), hash, &git(dir.path(), &["ls-files", "-s"]));
    }
}

#[test]
fn an_index_that_is_split() {
    for (hash, version) in HASHES.into_iter().flat_map(|hash| [2, 4].map(|version| (hash, version))) {
        let dir = work_tree(hash, version);
        let dir = dir.path();
        for number in 0..100 {
            std::fs::write(dir.join(format!("n{number}")), number.to_string()).unwrap();
        }
        git(dir, &["add", "."]);
        git(dir, &["config", "splitIndex.maxPercentChange", "100"]);
        git(dir, &["update-index", "--split-index"]);
        for number in (0..100).step_by(7) {
            std::fs::write(dir.join(format!("n{number}")), "changed").unwrap();
        }
        git(dir, &["add", "-u"]);
        git(dir, &["rm", "-q", "--cached", "n5", "n77", "n99"]);
        git(dir, &["update-index", "--add", "--cacheinfo", &format!("100755,{},n50x", hash.empty_blob())]);
        let mut file = IndexFile::decode(&index_of(dir), hash).unwrap();
        let shared = read(&dir.join(format!(".git/sharedindex.{}", file.link.as_ref().unwrap().shared)));
        let wrong = IndexFile::decode(&index_of(work_tree(hash, 2).path()), hash).unwrap();
        let error = file.clone().join(wrong).unwrap_err();
        assert!(error.to_string().starts_with("broken index, expect "), "{error}");
        let shared = IndexFile::decode(&shared, hash).unwrap();
        let (base, checksum) = (shared.entries.clone(), shared.checksum);
        file.join(shared.clone()).unwrap();
        assert_eq!(list(&file), git(dir, &["ls-files", "-s"]));
        // Split again, it is no longer than what git wrote, which may repeat entries of young files.
        let entries = || file.entries.iter().map(|(key, entry)| (key, entry));
        let split = super::split(entries(), &base, &HashSet::new(), checksum);
        // An entry that was deleted once is an added one.
        let deleted = HashSet::from([EntryKey::new(b"n50", 0)]);
        let apart = super::split(entries(), &base, &deleted, checksum);
        assert_eq!((apart.added, apart.entries.len()), (split.added + 1, split.entries.len() + 1));
        let mut again = file.clone();
        again.entries = apart.entries.iter().map(|(key, entry)| (key.clone(), **entry)).collect();
        again.link = Some(apart.link.clone());
        again.join(shared.clone()).unwrap();
        assert_eq!(again.entries, file.entries);
        assert_eq!(apart.link.deleted(base.len() as u32).unwrap().len(), 4);
        let parts = IndexParts { link: Some(&split.link), ..parts_of(&file) };
        let entries = split.entries.iter().map(|(key, entry)| (key, *entry));
        let (bytes, _) = encode(entries, file.version, &parts, hash);
        assert!(bytes.len() <= index_of(dir).len(), "{hash:?}, version {version}");
        let mut again = IndexFile::decode(&bytes, hash).unwrap();
        again.join(shared).unwrap();
        assert_eq!(again.entries, file.entries);
        std::fs::write(dir.join(".git/index"), &bytes).unwrap();
        assert_eq!(list(&file), git(dir, &["ls-files", "-s"]));
        assert_eq!(split.added, 1);
    }
}

/// What git knows of untracked files, without what it knows of some directories.
#[test]
fn an_untracked_cache() {
    for hash in HASHES {
        let dir = work_tree(hash, 2);
        let dir = dir.path();
        std::fs::create_dir_all(dir.join("a/b/c")).unwrap();
        std::fs::create_dir_all(dir.join("z")).unwrap();
        for name in ["a/x", "a/b/x", "a/b/c/x", "z/x"] {
            std::fs::write(dir.join(name), name).unwrap();
        }
        git(dir, &["add", "."]);
        for name in ["y", "a/y", "a/b/c/y", "z/y", "z/.gitignore", "a/.gitignore", ".gitignore"] {
            std::fs::write(dir.join(name), name).unwrap();
        }
        git(dir, &["update-index", "--untracked-cache"]);
        let cache = || IndexFile::decode(&index_of(dir), hash).unwrap().untracked.unwrap();
        let top = std::fs::canonicalize(dir).unwrap();
        assert!(cache() == new_untracked(top.as_os_str().as_encoded_bytes(), "Linux", 6, hash));
        git(dir, &["status"]);
        let full = cache();
        let mut seen = Vec::new();
        let same = invalidate_untracked(&full, hash, &mut |path| {
            seen.push(String::from_utf8(path.to_vec()).unwrap());
            false
        });
        assert!(same.unwrap() == full);
        for expect in ["", "a", "a/b", "a/b/c", "z"] {
            assert!(seen.iter().any(|path| path == expect), "{expect:?} of {seen:?}");
        }
        // As git does after the same change, down to the byte.
        git(dir, &["update-index", "--force-remove", "a/b/x"]);
        let less = invalidate_untracked(&full, hash, &mut |path| [&b""[..], b"a", b"a/b"].contains(&path));
        assert!(less.unwrap() == cache());
        damage(&full, |bytes| invalidate_untracked(bytes, hash, &mut |path| path.len() > 1).is_some());
    }
}

fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    checksum::append(&mut bytes, HashKind::Sha1);
    bytes
}

#[test]
fn damage_in_gits_words() {
    let dir = packrace_testkit::scratch_dir();
    let dir = dir.path();
    git(dir, &["init", "-q"]);
    for name in ["aaa/g", "b/h", "zz/f"] {
        std::fs::create_dir(dir.join(&name[..name.len() - 2])).unwrap();
        std::fs::write(dir.join(name), name).unwrap();
    }
    git(dir, &["add", "."]);
    let whole = index_of(dir);
    let body = &whole[..whole.len() - 20];
    let check = |bytes: Vec<u8>, expect: &str| {
        let error = IndexFile::decode(&bytes, HashKind::Sha1).unwrap_err();
        assert_eq!(error.to_string(), expect);
    };
    let replaced = |from: &[u8], to: &[u8]| {
        let at = memchr::memmem::find(body, from).unwrap();
        let mut bytes = body.to_vec();
        bytes[at..at + to.len()].copy_from_slice(to);
        resealed(bytes)
    };
    check(Vec::new(), "index file smaller than expected");
    check(whole[..31].to_vec(), "index file smaller than expected");
    check(replaced(b"DIRC", b"XIRC"), "bad signature 0x43524958");
    check(replaced(b"\0\0\0\x02", b"\0\0\0\x07"), "bad index version 7");
    let mut other_checksum = whole.clone();
    *other_checksum.last_mut().unwrap() ^= 1;
    check(other_checksum, "bad index file sha1 signature");
    check(
        resealed([body, b"abcd\0\0\0\0"].concat()),
        "index uses abcd extension, which we do not understand",
    );
    check(resealed([body, b"ABCD\0\0\x01\0"].concat()), "index file smaller than expected");
    check(replaced(b"aaa/g", b"zzz/g"), "unordered stage entries in index");
    check(replaced(b"\0\x05aaa/g", b"\x40\x05aaa/g"), "unknown index entry format 0x61610000");
    check(replaced(b"\0\x05aaa/g", b"\0\x04aaa/g"), "malformed name field in the index, near path 'aaa/g'");
    check(replaced(b"\0\0\x81\xa4", b"\0\0\x11\xa4"), "unknown mode 10644 of index entry 'aaa/g'");
    let nameless = [&body[..72], &[0; 4], &body[84..]].concat();
    check(resealed(nameless), "malformed name field in the index, near path ''");
    assert!(IndexFile::decode(&resealed([body, b"ABCD\0\0\0\x01!"].concat()), HashKind::Sha1).is_ok());
}

/// Without a checksum that detects damage: every byte changed, many bytes changed at once, and every length
/// cut.
#[test]
fn damage_never_panics() {
    let mut random = Random::new(7);
    for (hash, version) in [(HashKind::Sha1, 2), (HashKind::Sha1, 4), (HashKind::Sha256, 3)] {
        let dir = work_tree(hash, version);
        git(dir.path(), &["write-tree", "--missing-ok"]);
        let mut file = index_of(dir.path());
        damage(&file, |bytes| IndexFile::decode(bytes, hash).is_ok());
        let end = file.len() - hash.len_in_bytes();
        file[end..].fill(0);
        let read = |bytes: &[u8]| {
            if let Ok(mut found) = IndexFile::decode(bytes, hash) {
                let again = written(&found, hash);
                assert_eq!(list(&IndexFile::decode(&again, hash).unwrap()), list(&found));
                assert!(found.named_objects().len() * hash.len_in_bytes() <= bytes.len());
                let _ = found.join(IndexFile::decode(&file, hash).unwrap());
            }
        };
        for at in 0..end {
            for flip in [0x01, 0x10, 0x80, 0xff] {
                let mut bytes = file.clone();
                bytes[at] ^= flip;
                read(&bytes);
            }
            read(&[&file[..at], &file[end..]].concat());
        }
        for _ in 0..3000 {
            let mut bytes = file.clone();
            for _ in 0..1 + random.below(8) {
                let at = random.below(end);
                bytes[at] = random.next_u64() as u8;
            }
            read(&bytes);
        }
    }
}

#[test]
fn deep_trees_and_paths_that_grow() {
    // A hundred thousand nested trees.
    let tree = b"a\0-1 1\n".repeat(100_000);
    let tree = [b"\0-1 1\n".as_slice(), &tree].concat();
    let mut bytes = b"DIRC\0\0\0\x02\0\0\0\0TREE".to_vec();
    bytes.extend((tree.len() as u32).to_be_bytes());
    bytes.extend(tree);
    assert_eq!(IndexFile::decode(&resealed(bytes), HashKind::Sha1).unwrap().cache_tree, None);
    // Each path is one letter longer than the previous one, in a few bytes.
    let mut bytes = b"DIRC\0\0\0\x04\0\x01\0\0".to_vec();
    for _ in 0..0x1_0000 {
        bytes.extend([0; 24]);
        bytes.extend([0, 0, 0x81, 0xa4]);
        bytes.extend([0; 12]);
        bytes.extend([1; 20]);
        bytes.extend([0, 0, 0, b'a', 0]);
    }
    let error = IndexFile::decode(&resealed(bytes), HashKind::Sha1).unwrap_err();
    assert!(matches!(error, IndexFileError::Name(_)), "{error}");
}

#[test]
fn what_is_known_of_trees_is_forgotten_upwards() {
    let hash = HashKind::Sha1;
    let known = Some((1, hash.empty_tree()));
    let leaf = || CacheTree::new(known, Vec::new());
    let tree = |children: Vec<(&str, CacheTree)>| {
        let children = children.into_iter().map(|(name, tree)| (name.as_bytes().into(), tree)).collect();
        CacheTree::new(known, children)
    };
    let check = |path: &str, expect: &[&str]| {
        let mut root = tree(vec![("bb", tree(vec![("c", leaf()), ("d", leaf())])), ("a", leaf())]);
        root.invalidate(path.as_bytes());
        let mut out = Vec::new();
        collect("", &root, &mut out);
        assert_eq!(out, expect, "{path}");
    };
    fn collect(path: &str, tree: &CacheTree, out: &mut Vec<String>) {
        if tree.known.is_some() {
            out.push(path.to_owned());
        }
        for (name, child) in tree.children() {
            collect(&format!("{path}/{}", String::from_utf8_lossy(name)), child, out);
        }
    }
    check("x", &["/a", "/bb", "/bb/c", "/bb/d"]);
    check("a/x", &["/bb", "/bb/c", "/bb/d"]);
    check("bb/c/x", &["/a", "/bb/d"]);
    check("bb/new/x", &["/a", "/bb/c", "/bb/d"]);
    check("bb/c", &["/a", "/bb/d"]);
    check("bb", &["/a"]);
}
