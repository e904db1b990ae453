//! `packrace multi-pack-index` compared with `git multi-pack-index`.

use std::path::{Path, PathBuf};

use packrace_format::multi_pack_index::MultiPackIndex;
use packrace_object::HashKind;
use packrace_testkit::{RepoBuilder, Size, Storage};

use crate::running::{DerivedFile, copy, packrace, stock_git};

fn index_path(repo: &Path) -> PathBuf {
    repo.join("objects/pack/multi-pack-index")
}

/// Runs the same in two copies of a repository, and compares the output, and the files if git writes version
/// 1, too.
fn check(repo: &Path, args: &[&str], input: &str) {
    let dir = packrace_testkit::scratch_dir();
    let args = [&["multi-pack-index"], args].concat();
    let [git, ours] = ["git", "packrace"].map(|name| {
        let inner = dir.path().join(name);
        copy(repo.parent().unwrap(), &inner);
        inner.join(repo.file_name().unwrap())
    });
    let of_git = stock_git(&git, &args, input);
    let of_ours = packrace(&ours, &args, input);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Without packs, git 2.55 ends with 255, and 2.47 with 1.
    let is_without_packs = text(&of_ours.stderr) == "error: no pack files to index.\n";
    let expect = match of_git.status.code() {
        Some(1) if is_without_packs => Some(255),
        code => code,
    };
    assert_eq!(expect, of_ours.status.code(), "{args:?}: {}", text(&of_ours.stderr));
    assert_eq!(text(&of_git.stderr).replace("/git/", "/packrace/"), text(&of_ours.stderr), "{args:?}");
    let [expect, found] = [&git, &ours].map(|repo| std::fs::read(index_path(repo)).ok());
    assert!(expect == found, "{args:?}");
    let verified = stock_git(&ours, &["multi-pack-index", "verify"], "");
    assert!(verified.status.success(), "{args:?}: {}", text(&verified.stderr));
    let verified = packrace(&git, &["multi-pack-index", "verify"], "");
    assert!(verified.status.success(), "{args:?}: {}", text(&verified.stderr));
    let fsck = stock_git(&ours, &["fsck", "--full", "--no-dangling", "--no-progress"], "");
    assert!(fsck.status.success(), "{args:?}: {}", text(&fsck.stderr));
    if args.contains(&"--bitmap") {
        let tested = stock_git(&ours, &["rev-list", "--test-bitmap", "main"], "");
        assert!(tested.status.success() && text(&tested.stderr).contains("OK!"), "{}", text(&tested.stderr));
    }
    let packs = |repo: &Path| std::fs::read_dir(repo.join("objects/pack")).unwrap().count();
    assert_eq!(packs(&git), packs(&ours), "{args:?}");
}

fn pack_names(repo: &Path) -> Vec<String> {
    let names = std::fs::read_dir(repo.join("objects/pack")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".idx")).collect();
    names.sort();
    names
}

#[test]
fn written_as_git_writes_them() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = RepoBuilder::new(Size::Tiny)
            .hash(hash)
            .storage(Storage { packs: 4, ..Storage::default() })
            .build();
        // Copies of the objects in the other packs.
        repo.git(&["-c", "repack.writeBitmaps=false", "repack", "-a", "-q"]);
        let names = pack_names(repo.path());
        check(repo.path(), &["write"], "");
        for name in &names {
            check(repo.path(), &["write", "--preferred-pack", name], "");
        }
        check(
            repo.path(),
            &["write", &format!("--preferred-pack={}", names[0].replace(".idx", ".pack"))],
            "",
        );
        check(repo.path(), &["write", "--preferred-pack=nothing"], "");
        check(
            repo.path(),
            &["write", "--stdin-packs"],
            &format!("{}\n{}\nnothing.idx\n", names[0], names[2]),
        );
        check(repo.path(), &["write", "--stdin-packs"], "");
        check(repo.path(), &["write", "--bitmap"], "");
        check(repo.path(), &["write", "--no-bitmap", "--no-progress"], "");
        check(repo.path(), &["--object-dir=objects", "write"], "");
        check(repo.path(), &["write", "--object-dir=nowhere"], "");
        let refs = repo.git(&["for-each-ref", "--format=+%(objectname)", "refs/heads"]);
        std::fs::write(repo.path().join("snapshot"), refs).unwrap();
        check(repo.path(), &["write", "--bitmap", "--refs-snapshot=snapshot"], "");
        check(repo.path(), &["verify"], "");
        check(repo.path(), &["expire"], "");
    }
}

/// Packs from which the index uses no object are deleted, except kept ones.
#[test]
fn what_is_not_used_expires() {
    let repo = RepoBuilder::new(Size::Tiny).storage(Storage { packs: 3, ..Storage::default() }).build();
    let old = pack_names(repo.path());
    repo.git(&["-c", "repack.writeBitmaps=false", "repack", "-a", "-q"]);
    let new = pack_names(repo.path()).into_iter().find(|name| !old.contains(name)).unwrap();
    let keep = repo.path().join("objects/pack").join(old[0].replace(".idx", ".keep"));
    std::fs::write(keep, "").unwrap();
    repo.git(&["multi-pack-index", "write", &format!("--preferred-pack={new}")]);
    check(repo.path(), &["expire"], "");
    let output = packrace(repo.path(), &["multi-pack-index", "expire"], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(pack_names(repo.path()).len(), 2);
    let bytes = std::fs::read(index_path(repo.path())).unwrap();
    assert_eq!(MultiPackIndex::open(bytes, repo.hash()).unwrap().pack_count(), 2);
}

/// Small packs are combined into one; git and `expire` then use the new pack.
#[test]
fn small_packs_are_put_together() {
    let repo = RepoBuilder::new(Size::Tiny).storage(Storage { packs: 5, ..Storage::default() }).build();
    repo.git(&["multi-pack-index", "write"]);
    for (size, packs) in [("0", 1), ("1", 5), ("100m", 1)] {
        let dir = packrace_testkit::scratch_dir();
        let [git, ours] = ["git", "packrace"].map(|name| dir.path().join(name));
        copy(repo.path(), &git);
        copy(repo.path(), &ours);
        let option = format!("--batch-size={size}");
        for command in [&["multi-pack-index", "repack", &option][..], &["multi-pack-index", "expire"]] {
            assert!(stock_git(&git, command, "").status.success());
            let output = packrace(&ours, command, "");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(pack_names(&git).len(), pack_names(&ours).len(), "{size} {command:?}");
            let verified = stock_git(&ours, &["multi-pack-index", "verify"], "");
            assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
            assert_eq!(
                packrace_testkit::reachable_objects(packrace_testkit::Git::stock(), &ours),
                repo.reachable_objects()
            );
        }
        assert_eq!(pack_names(&ours).len(), packs, "{size}");
    }
}

#[test]
fn alternates() {
    let storage = Storage { packs: 4, alternate: true, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    check(repo.path(), &["write"], "");
    let alternate = std::fs::read_to_string(repo.path().join("objects/info/alternates")).unwrap();
    let alternate = repo.path().join("objects").join(alternate.trim());
    let option = format!("--object-dir={}", alternate.display());
    let output = packrace(repo.path(), &["multi-pack-index", "write", &option], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    repo.git(&["multi-pack-index", "verify", &option]);
    assert!(alternate.join("pack/multi-pack-index").exists() && !index_path(repo.path()).exists());
}

/// An index that says of two packs, wrongly, that nothing is read from them.
#[test]
fn damage_deletes_no_pack() {
    let storage = Storage { packs: 3, multi_pack_index: true, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    let packs = pack_names(repo.path());
    let file = DerivedFile::of(&repo, "objects/pack/multi-pack-index", &[]);
    let offsets = file.chunk(12, b"OOFF");
    for with_checksum in [false, true] {
        let first_pack = |bytes: &mut Vec<u8>| {
            let end = bytes.len() - repo.hash().len_in_bytes();
            bytes[offsets..end].chunks_exact_mut(8).for_each(|entry| entry[..4].fill(0));
        };
        file.change(&first_pack, with_checksum);
        let output = packrace(repo.path(), &["multi-pack-index", "expire"], "");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(128), "{said}");
        assert!(said.contains("is only in pack-"), "{said}");
        assert_eq!(pack_names(repo.path()), packs);
    }
}

#[test]
fn damage_is_found() {
    let storage = Storage { packs: 3, multi_pack_index: true, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    let file = DerivedFile::of(&repo, "objects/pack/multi-pack-index", &["multi-pack-index", "verify"]);
    let offsets = file.chunk(12, b"OOFF");
    file.check(&|_| (), false, true);
    file.check(&|bytes| bytes[0] = 0, false, true);
    file.check(&|bytes| bytes[4] = 9, true, true);
    file.check(&|bytes| bytes[5] = 2, true, true);
    file.check(&|bytes| *bytes.last_mut().unwrap() ^= 1, false, true);
    file.check(&|bytes| bytes[offsets + 7] ^= 1, true, true);
    file.restore();
    std::fs::remove_file(repo.path().join("objects/pack").join(&pack_names(repo.path())[0])).unwrap();
    let output = packrace(repo.path(), &["multi-pack-index", "verify"], "");
    assert_eq!(output.status.code(), Some(1));
}
