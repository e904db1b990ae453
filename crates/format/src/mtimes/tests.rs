use packrace_object::ObjectId;
use packrace_testkit::{Loose, Repo, Storage};

use super::*;
use crate::pack_index::PackIndex;
use crate::test_files::{HASHES, damage, pack_files, read, tiny};

/// A repository of which git has put half into a cruft pack: that pack's idx and mtimes.
fn cruft(hash: HashKind) -> (Repo, Vec<u8>, Vec<u8>) {
    let repo = tiny(hash, Storage { packs: 2, loose: Loose::Newest, ..Storage::default() });
    let old = repo.git(&["rev-parse", "main~30"]);
    for name in repo.git(&["for-each-ref", "--format=%(refname)"]).lines() {
        repo.git(&["update-ref", "--no-deref", "-d", name]);
    }
    repo.git(&["update-ref", "refs/heads/main", old.trim()]);
    repo.git(&["repack", "--cruft", "-d", "-q"]);
    let files = pack_files(&repo, "mtimes");
    assert_eq!(files.len(), 1);
    let (index, mtimes) = (read(&files[0].with_extension("idx")), read(&files[0]));
    (repo, index, mtimes)
}

#[test]
fn as_git_writes_them() {
    for hash in HASHES {
        let (_repo, index, file) = cruft(hash);
        let index = PackIndex::open(index, hash).unwrap();
        let pack = index.pack_checksum();
        let mtimes = Mtimes::open(&file, index.len(), &pack).unwrap();
        mtimes.verify_checksum(hash).unwrap();
        assert!(mtimes.len() > 50, "{}", mtimes.len());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let seconds: Vec<u32> = (0..mtimes.len()).map(|position| mtimes.seconds_at(position)).collect();
        // The builder sets the times of its packs; its loose objects are new.
        let is_new = |seconds: &u32| now.abs_diff(u64::from(*seconds)) < 3600;
        assert!(seconds.iter().any(is_new) && seconds.contains(&1_200_000_001), "{now}: {seconds:?}");
        assert_eq!(write(seconds.into_iter(), &pack), file);
    }
}

#[test]
fn files_of_other_packs() {
    let pack = ObjectId::Sha1([7; 20]);
    let file = write([1, 2, 3].into_iter(), &pack);
    let check = |len, pack: ObjectId, expect: Option<&str>| {
        assert_eq!(Mtimes::open(&file, len, &pack).err().map(|error| error.what), expect);
    };
    check(3, pack, None);
    check(2, pack, Some("file is not as long as the index says"));
    check(3, ObjectId::Sha1([8; 20]), Some("made for another pack"));
    check(3, ObjectId::Sha256([7; 32]), Some("file is not as long as the index says"));
}

#[test]
fn damage_never_panics() {
    for hash in HASHES {
        let pack = hash.empty_tree();
        let file = write([9, u32::MAX, 0].into_iter(), &pack);
        damage(&file, |bytes| {
            let Ok(mtimes) = Mtimes::open(bytes, 3, &pack) else { return false };
            let _ = mtimes.verify_checksum(hash);
            for position in 0..3 {
                mtimes.seconds_at(position);
            }
            true
        });
    }
}
