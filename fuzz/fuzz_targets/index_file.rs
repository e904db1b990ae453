//! Input: hash (1 byte), what it is (1 byte): the index of a work tree, its checksum all zeros or put right, or the times of a
//! cruft pack. An index cannot name more objects than it has room for, and one that is read is written as one that says the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_format::index_file::{IndexFile, IndexParts, encode, invalidate_untracked};
use packrace_format::mtimes::{self, Mtimes};
use packrace_object::{HashKind, TrailerHasher};

fuzz_target!(|input: &[u8]| {
    let [hash, way, file @ ..] = input else { return };
    let hash = if hash & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    if way & 1 == 0 {
        let mut file = file.to_vec();
        if way & 2 == 0 {
            file.resize(file.len() + hash.len_in_bytes(), 0);
        } else {
            let mut hasher = TrailerHasher::new(hash);
            hasher.update(&file);
            file.extend_from_slice(hasher.finish().as_slice());
        }
        if let Ok(mut found) = IndexFile::decode(&file, hash) {
            assert!(found.named_objects().len() * hash.len_in_bytes() <= file.len());
            if let Some(cache) = &found.untracked
                && let Some(less) = invalidate_untracked(cache, hash, &mut |path| path.len() & 1 == 1)
            {
                assert!(invalidate_untracked(&less, hash, &mut |_| false).is_some_and(|again| again == less));
            }
            let parts = IndexParts {
                cache_tree: found.cache_tree.as_ref(),
                resolve_undo: &found.resolve_undo,
                untracked: found.untracked.as_deref(),
                monitored: found.monitored.as_ref(),
                is_sparse: found.is_sparse,
                link: None,
                skip_hash: way & 4 == 0,
            };
            let entries = found.entries.iter().map(|(key, entry)| (key, entry));
            if found.link.is_none() {
                let again = encode(entries, found.version, &parts, hash).0;
                let again = IndexFile::decode(&again, hash).expect("what is written can be read");
                assert_eq!((again.entries, again.cache_tree), (found.entries, found.cache_tree));
                assert_eq!(again.monitored, found.monitored);
            } else {
                let _ = found.join(found.clone());
            }
        }
        return;
    }
    let pack = hash.empty_tree();
    let count = file.len().saturating_sub(12 + 2 * hash.len_in_bytes()) / 4;
    if let Ok(times) = Mtimes::open(file, count as u32, &pack) {
        let seconds: Vec<u32> = (0..times.len()).map(|position| times.seconds_at(position)).collect();
        let again = mtimes::write(seconds.into_iter(), &pack);
        assert_eq!(again == file, times.verify_checksum(hash).is_ok());
    }
});
