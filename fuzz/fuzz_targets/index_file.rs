//! Input: hash (1 byte), what it is (1 byte): the index of a work tree, its checksum all zeros or put right, or the times of a
//! cruft pack. An index cannot name more objects than it has room for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_format::index_file::named_objects;
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
        if let Ok(found) = named_objects(&file, hash) {
            assert!(found.ids.len() * hash.len_in_bytes() <= file.len());
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
