mod damage;
mod generated;
mod interop;
mod merging;
mod model;
mod writing;

use std::path::Path;

use packrace_testkit::Git;

use super::*;
use crate::test_files::{HASHES, damage, read};

/// The format of `for-each-ref` output: name, id, peeled id, target.
const LINE: &str = "--format=%(refname) %(objectname) %(*objectname) %(symref)";

fn run(dir: &Path, args: &[&str]) -> String {
    Git::stock().run(dir, args)
}

/// A bare repository with `count` refs to a tag, `count` to a commit and some symbolic ones, as one table.
fn repository(hash: HashKind, count: usize, settings: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = packrace_testkit::scratch_dir();
    let (path, format) = (dir.path(), format!("--object-format={hash}"));
    run(path, &["init", "--quiet", "--bare", "--ref-format=reftable", "-b", "main", &format, "."]);
    for (key, value) in settings {
        run(path, &["config", key, value]);
    }
    let tree = Git::stock().run_with_input(path, &["mktree"], b"");
    let tree = String::from_utf8(tree).unwrap();
    let commit = run(path, &["commit-tree", tree.trim(), "-m", "one"]);
    run(path, &["update-ref", "refs/heads/main", commit.trim()]);
    run(path, &["tag", "-a", "-m", "tag", "inner"]);
    run(path, &["tag", "-a", "-m", "tag of tag", "outer", "inner"]);
    let tag = run(path, &["rev-parse", "outer"]);
    let mut commands = String::new();
    for n in 0..count {
        commands += &format!("create refs/tags/v{n:05} {tag}create refs/changes/{}/{n} {commit}", n % 97);
    }
    Git::stock().run_with_input(path, &["update-ref", "-m", "many", "--stdin"], commands.as_bytes());
    run(path, &["symbolic-ref", "refs/heads/link", "refs/tags/outer"]);
    run(path, &["pack-refs"]);
    dir
}

/// A repository like that, with logs, and its table.
fn table(hash: HashKind, count: usize, block_size: &str) -> (tempfile::TempDir, Vec<u8>) {
    let settings = [("reftable.blockSize", block_size), ("core.logAllRefUpdates", "always")];
    let dir = repository(hash, count, &settings);
    let bytes = only_table(dir.path());
    (dir, bytes)
}

fn tables(repo: &Path) -> Vec<Vec<u8>> {
    let list = std::fs::read_to_string(repo.join("reftable/tables.list")).unwrap();
    list.lines().map(|name| read(&repo.join("reftable").join(name))).collect()
}

fn only_table(repo: &Path) -> Vec<u8> {
    let mut tables = tables(repo);
    assert_eq!(tables.len(), 1);
    tables.pop().unwrap()
}

/// The lines that `for-each-ref` would print.
fn lines(table: &Table<impl AsRef<[u8]>>, from: &str) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    let mut refs = table.refs_from(from.as_bytes())?;
    while refs.advance()? {
        let found = refs.current().unwrap();
        let name = String::from_utf8_lossy(found.name);
        lines.push(match found.value {
            RefValue::Deletion => format!("{name} deleted"),
            RefValue::Id(id) => format!("{name} {id}  "),
            RefValue::Tag { id, peeled } => format!("{name} {id} {peeled} "),
            RefValue::Symbolic(target) => format!("{name} -> {}", String::from_utf8_lossy(target)),
        });
    }
    Ok(lines)
}

#[test]
fn refs_are_those_that_git_lists() {
    for (hash, count, block_size) in [
        (HashKind::Sha1, 0, "4096"),
        (HashKind::Sha1, 30, "4096"),
        (HashKind::Sha1, 2000, "4096"),
        (HashKind::Sha256, 2000, "4096"),
        (HashKind::Sha1, 1500, "512"),
        // The uppermost level of the index is two adjacent blocks.
        (HashKind::Sha1, 200, "256"),
        (HashKind::Sha256, 500, "65536"),
    ] {
        let (dir, bytes) = table(hash, count, block_size);
        let table = Table::open(&bytes[..]).unwrap();
        let listing = run(dir.path(), &["for-each-ref", LINE]);
        let expect: Vec<&str> = listing.lines().collect();
        let found = lines(&table, "refs/").unwrap();
        assert_eq!(found.len(), expect.len());
        for (found, expect) in found.iter().zip(&expect) {
            match expect.rsplit_once(' ') {
                Some((line, "")) => assert_eq!(found.trim_end(), line.trim_end()),
                Some((line, target)) => {
                    assert_eq!(found, &format!("{} -> {target}", line.split(' ').next().unwrap()))
                }
                None => panic!("{expect}"),
            }
        }
        assert_eq!(lines(&table, "").unwrap().len(), expect.len() + 1, "HEAD too");
        let names = expect.iter().map(|line| line.split(' ').next().unwrap());
        for (number, name) in names.enumerate().filter(|(number, _)| number % 7 == 0 || *number < 40) {
            assert!(table.find(name.as_bytes()).unwrap().is_some());
            let mut refs = table.refs_from(name.as_bytes()).unwrap();
            assert!(refs.advance().unwrap());
            assert_eq!(refs.current().map(|found| found.name), Some(name.as_bytes()));
            refs = table.refs_from(format!("{name}!").as_bytes()).unwrap();
            refs.advance().unwrap();
            let next = found.get(number + 1).map(|line| line.split(' ').next().unwrap().as_bytes());
            assert_eq!(refs.current().map(|found| found.name), next);
            assert_eq!(table.find(format!("{name}!").as_bytes()).unwrap(), None);
        }
        assert!(!table.refs_from(b"z").unwrap().advance().unwrap());
    }
}

#[test]
fn logs_are_those_that_git_shows() {
    for hash in HASHES {
        let (dir, bytes) = table(hash, 2000, "4096");
        let table = Table::open(&bytes[..]).unwrap();
        let mut cursor = table.logs().unwrap();
        let mut count = 0;
        while cursor.advance().unwrap() {
            let record = cursor.current().unwrap();
            let entry = record.change.unwrap();
            assert_eq!((entry.name, entry.email), (&b"C O Mitter"[..], &b"committer@example.com"[..]));
            assert_eq!((entry.seconds, entry.zone), (1_112_912_053, -700));
            assert!(entry.old.is_null() && !entry.new.is_null());
            if record.name.starts_with(b"refs/tags/v") {
                assert_eq!(entry.message, b"many\n");
            }
            count += 1;
        }
        assert!(count >= 4000, "{count}");
        drop(dir);
    }
}

#[test]
fn tables_of_logs_only_and_of_tombstones() {
    let (dir, _) = table(HashKind::Sha1, 50, "4096");
    let path = dir.path();
    for args in [&["update-ref", "-d", "refs/tags/v00007"][..], &["reflog", "delete", "refs/heads/main@{0}"]]
    {
        let mut command = Git::stock().command(path);
        command.env("GIT_TEST_REFTABLE_AUTOCOMPACTION", "false").args(args);
        assert!(command.status().unwrap().success());
    }
    let tables = tables(path);
    let mut deleted = Vec::new();
    let mut logs_only = 0;
    for bytes in &tables[1..] {
        let table = Table::open(&bytes[..]).unwrap();
        let found = lines(&table, "").unwrap();
        let mut cursor = table.logs().unwrap();
        let mut logs = 0;
        while cursor.advance().unwrap() {
            logs += 1;
        }
        logs_only += usize::from(found.is_empty() && logs > 0);
        deleted.extend(found);
    }
    assert_eq!((deleted, logs_only), (vec!["refs/tags/v00007 deleted".to_owned()], 1), "{}", tables.len());
}

#[test]
fn objects_lead_to_their_refs() {
    for (hash, count, block_size) in
        [(HashKind::Sha1, 3, "4096"), (HashKind::Sha1, 300, "256"), (HashKind::Sha256, 1000, "512")]
    {
        let (dir, bytes) = table(hash, count, block_size);
        let table = Table::open(&bytes[..]).unwrap();
        let ids = run(dir.path(), &["rev-parse", "refs/heads/main", "outer"]);
        for id in ids.lines() {
            let found = names_to(&table, ObjectId::from_hex(id.as_bytes()).unwrap());
            let listing = run(dir.path(), &["for-each-ref", "--format=%(refname)", "--points-at", id]);
            let expect: Vec<&str> = listing.lines().filter(|name| *name != "refs/heads/link").collect();
            assert!(!expect.is_empty());
            assert_eq!(found, expect, "{id}");
        }
        assert!(names_to(&table, hash.null()).is_empty());
        assert!(names_to(&table, ObjectId::from_hex(&vec![b'f'; hash.len_in_hex()]).unwrap()).is_empty());
        let other = HASHES.into_iter().find(|other| *other != hash).unwrap();
        assert!(names_to(&table, other.null()).is_empty());
    }
}

fn names_to(table: &Table<impl AsRef<[u8]>>, id: ObjectId) -> Vec<String> {
    let mut refs = table.refs_to(&id).unwrap();
    let mut names = Vec::new();
    while refs.advance().unwrap() {
        names.push(String::from_utf8_lossy(refs.current().unwrap().name).into_owned());
    }
    names
}

#[test]
fn logs_of_one_ref() {
    for (hash, count, block_size) in
        [(HashKind::Sha1, 2, "4096"), (HashKind::Sha1, 300, "256"), (HashKind::Sha256, 1000, "512")]
    {
        let (_dir, bytes) = table(hash, count, block_size);
        let table = Table::open(&bytes[..]).unwrap();
        for number in 0..count {
            let name = format!("refs/tags/v{number:05}");
            let mut logs = table.logs_of(name.as_bytes()).unwrap();
            assert!(logs.advance().unwrap(), "{name}");
            let update_index = logs.current().unwrap().update_index;
            assert_eq!(logs.current().unwrap().name, name.as_bytes());
            assert!(!logs.advance().unwrap());
            assert!(!logs.advance().unwrap());
            assert!(table.logs_of_until(name.as_bytes(), update_index).unwrap().advance().unwrap());
            assert!(!table.logs_of_until(name.as_bytes(), update_index - 1).unwrap().advance().unwrap());
            assert!(!table.logs_of(&name.as_bytes()[..name.len() - 1]).unwrap().advance().unwrap());
        }
        assert!(!table.logs_of(b"refs/z").unwrap().advance().unwrap());
        assert!(!table.logs_of(b"").unwrap().advance().unwrap());
    }
}

#[test]
fn stacks_are_read_as_git_reads_them() {
    let (dir, _) = table(HashKind::Sha1, 100, "512");
    let path = dir.path();
    let git = |args: &[&str], input: &str| {
        let mut command = Git::stock().command(path);
        command.env("GIT_TEST_REFTABLE_AUTOCOMPACTION", "false").args(args);
        command.stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    };
    let commit = run(path, &["rev-parse", "main"]);
    for round in 0..12 {
        let mut commands = String::new();
        for number in (round..100).step_by(5 + round % 3) {
            commands += &match (number + round) % 3 {
                0 => format!("delete refs/tags/v{number:05}\n"),
                1 => format!("update refs/tags/v{number:05} {commit}"),
                _ => format!("update refs/new/{round}/{number} {commit}"),
            };
        }
        git(&["update-ref", "-m", "again", "--stdin"], &commands);
    }
    let bytes = tables(path);
    assert!(bytes.len() > 10);
    let tables: Vec<_> = bytes.iter().map(|bytes| Table::open(&bytes[..]).unwrap()).collect();
    let stack = Stack::new(&tables);
    for prefix in ["refs/", "refs/tags/v0001", "refs/new/3/", "refs/x"] {
        let mut refs = stack.refs_with_prefix(prefix.as_bytes(), Deletions::Hide).unwrap();
        let mut found = Vec::new();
        while refs.advance().unwrap() {
            let record = refs.current().unwrap();
            assert_eq!(stack.find(record.name).unwrap(), Some(record.value));
            found.push(String::from_utf8_lossy(record.name).into_owned());
        }
        let listing = run(path, &["for-each-ref", "--format=%(refname)"]);
        let expect: Vec<&str> = listing.lines().filter(|name| name.starts_with(prefix)).collect();
        assert_eq!(found, expect, "{prefix}");
        let mut all = stack.refs_with_prefix(prefix.as_bytes(), Deletions::Show).unwrap();
        let mut deleted = 0;
        while all.advance().unwrap() {
            deleted += usize::from(all.value() == Some(RefValue::Deletion));
        }
        assert_eq!(deleted > 0, prefix.starts_with("refs/t") || prefix == "refs/");
    }
    let id = ObjectId::from_hex(commit.trim().as_bytes()).unwrap();
    let mut refs = stack.refs_to(&id).unwrap();
    let listing = run(path, &["for-each-ref", "--format=%(refname)", "--points-at", commit.trim()]);
    let expect = listing.lines().filter(|name| *name != "refs/heads/link");
    for name in expect {
        assert!(refs.advance().unwrap());
        assert_eq!(refs.current().unwrap().name, name.as_bytes());
    }
    assert!(!refs.advance().unwrap());
    for name in ["refs/heads/main", "refs/tags/v00003", "refs/changes/3/3", "refs/new/3/8", "refs/x"] {
        let mut logs = stack.logs_of(name.as_bytes(), Deletions::Hide).unwrap();
        let mut found = Vec::new();
        while logs.advance().unwrap() {
            let change = logs.current().unwrap().change.unwrap();
            if !change.old.is_null() || !change.new.is_null() {
                found.push(String::from_utf8_lossy(change.message).into_owned());
            }
        }
        let exists = run(path, &["for-each-ref", name]).len() > 1;
        let log = if exists { run(path, &["log", "-g", "--format=%gs", name]) } else { String::new() };
        assert_eq!(found.concat(), log, "{name}");
    }
}

fn use_everything(bytes: &[u8]) -> bool {
    let Ok(table) = Table::open(bytes) else { return false };
    let limit = bytes.len();
    let all = lines(&table, "");
    assert!(all.is_err() || all.is_ok_and(|all| all.len() <= limit));
    let _ = lines(&table, "refs/tags/v");
    let _ = table.find(b"refs/tags/v00020");
    let _ = table.find(b"refs/changes/3/3");
    if let Ok(mut refs) = table.refs_to(&ObjectId::from_hex(&[b'a'; 40]).unwrap()) {
        while let Ok(true) = refs.advance() {}
    }
    if let Ok(mut cursor) = table.logs_of(b"refs/tags/v00020") {
        while let Ok(true) = cursor.advance() {}
    }
    if let Ok(mut cursor) = table.logs() {
        while let Ok(true) = cursor.advance() {}
    }
    true
}

#[test]
fn damage_is_survived() {
    for (hash, block_size) in [(HashKind::Sha1, "256"), (HashKind::Sha256, "4096")] {
        let (_dir, bytes) = table(hash, 60, block_size);
        damage(&bytes, use_everything);
    }
}

#[test]
fn damaged_footers_with_a_right_checksum_are_survived() {
    let (_dir, bytes) = table(HashKind::Sha1, 60, "256");
    let footer = bytes.len() - 68;
    let mut damaged = bytes.clone();
    for at in footer + 24..bytes.len() - 4 {
        for flip in [1, 2, 0x10, 0x80] {
            damaged[at] ^= flip;
            let checksum = libdeflater::crc32(&damaged[footer..bytes.len() - 4]);
            damaged[bytes.len() - 4..].copy_from_slice(&checksum.to_be_bytes());
            use_everything(&damaged);
            damaged[at] ^= flip;
        }
    }
}

#[test]
fn blocks_need_no_alignment() {
    for count in [0, 1, 2, 3] {
        let (bytes, names) = unaligned(count);
        let table = Table::open(&bytes[..]).unwrap();
        let found: Vec<String> =
            lines(&table, "").unwrap().iter().map(|line| line.split(' ').next().unwrap().into()).collect();
        assert_eq!(found, names);
        for (number, name) in names.iter().enumerate() {
            assert!(table.find(name.as_bytes()).unwrap().is_some());
            assert_eq!(lines(&table, name).unwrap().len(), names.len() - number);
        }
        assert_eq!(table.find(b"refs/tags/").unwrap(), None);
        assert_eq!(table.find(b"z").unwrap(), None);
        damage(&bytes, use_everything);
    }
}

/// A table of `count` blocks with three refs each and no block size; git writes no such tables.
fn unaligned(count: usize) -> (Vec<u8>, Vec<String>) {
    let header = [b"REFT\x01\0\0\0".as_slice(), &1u64.to_be_bytes(), &1u64.to_be_bytes()].concat();
    let (mut bytes, mut names, mut index) = (header.clone(), Vec::new(), Vec::new());
    let record = |name: &str, kind: u8, value: &[u8]| {
        let suffix = (name.len() as u8) << 3 | kind;
        [&[0][..], if name.len() > 15 { &[0x80, 0] } else { &[] }, &[suffix], name.as_bytes(), value].concat()
    };
    let block = |kind: u8, start: usize, records: &[Vec<u8>]| {
        let mut restarts = Vec::new();
        let mut at = start + 4;
        for record in records {
            restarts.extend_from_slice(&(at as u32).to_be_bytes()[1..]);
            at += record.len();
        }
        let len = at + restarts.len() + 2;
        let head = [&[kind][..], &(len as u32).to_be_bytes()[1..]].concat();
        [head, records.concat(), restarts, (records.len() as u16).to_be_bytes().to_vec()].concat()
    };
    for number in 0..count {
        let position = if number == 0 { 0 } else { bytes.len() };
        let own: Vec<String> = (0..3).map(|n| format!("refs/t/{number}{n}")).collect();
        let records: Vec<Vec<u8>> = own.iter().map(|name| record(name, 0, b"\0")).collect();
        index.push(record(
            &own[2],
            0,
            &[0x80 | ((position >> 7).wrapping_sub(1) as u8), (position & 127) as u8],
        ));
        if position < 128 {
            index.pop();
            index.push(record(&own[2], 0, &[position as u8]));
        }
        bytes.extend(block(b'r', if number == 0 { 24 } else { 0 }, &records));
        names.extend(own);
    }
    let index_at = if count > 1 { bytes.len() } else { 0 };
    if count > 1 {
        bytes.extend(block(b'i', 0, &index));
    }
    let footer = [&header[..], &(index_at as u64).to_be_bytes(), &[0; 32]].concat();
    let checksum = libdeflater::crc32(&footer);
    bytes.extend(footer);
    bytes.extend(checksum.to_be_bytes());
    (bytes, names)
}
