use packrace_testkit::Storage;

use super::*;
use crate::test_files::{HASHES, damage, pack_file, tiny};

fn check<D: AsRef<[u8]>>(reverse: &ReverseIndex<D>, index: &PackIndex<Vec<u8>>) {
    assert_eq!(reverse.len(), index.len());
    let mut by_offset: Vec<u32> = (0..index.len()).collect();
    by_offset.sort_by_key(|position| index.offset_at(*position));
    for (pack_position, index_position) in (0u32..).zip(by_offset) {
        assert_eq!(reverse.index_position_at(pack_position), index_position);
        let offset = index.offset_at(index_position);
        assert_eq!(reverse.pack_position_of_offset(index, offset), Some(pack_position));
        assert_eq!(reverse.pack_position_of_offset(index, offset + 1), None);
    }
    assert_eq!(reverse.pack_position_of_offset(index, 0), None);
    assert_eq!(reverse.pack_position_of_offset(index, u64::MAX), None);
}

#[test]
fn stored_and_computed_agree() {
    for hash in HASHES {
        let repo = tiny(hash, Storage::default());
        let index = PackIndex::open(pack_file(&repo, "idx"), hash).unwrap();
        let stored = ReverseIndex::open(pack_file(&repo, "rev"), &index).unwrap();
        stored.verify_checksum(hash).unwrap();
        check(&stored, &index);
        check(&ReverseIndex::<Vec<u8>>::compute(&index), &index);
    }
}

#[test]
fn written_as_git_writes_it() {
    for hash in HASHES {
        let repo = tiny(hash, Storage::default());
        let index = PackIndex::open(pack_file(&repo, "idx"), hash).unwrap();
        let entry = |position| pack_index::Entry {
            id: index.id_at(position).to_owned(),
            crc32: 0,
            offset: index.offset_at(position),
        };
        let entries: Vec<_> = (0..index.len()).map(entry).collect();
        assert!(write(&entries, hash, &index.pack_checksum()) == pack_file(&repo, "rev"));

        let empty = write(&[], hash, &index.pack_checksum());
        let mut of_nothing = pack_index::write(&[], hash, &index.pack_checksum(), Default::default());
        let of_nothing = PackIndex::open(of_nothing.as_mut().unwrap(), hash).unwrap();
        assert!(ReverseIndex::open(&empty, &of_nothing).unwrap().is_empty());
    }
}

#[test]
fn damage_never_panics() {
    for hash in HASHES {
        let repo = tiny(hash, Storage::default());
        let index = PackIndex::open(pack_file(&repo, "idx"), hash).unwrap();
        damage(&pack_file(&repo, "rev"), |bytes| {
            let Ok(reverse) = ReverseIndex::open(bytes, &index) else { return false };
            for pack_position in 0..reverse.len() {
                let position = reverse.index_position_at(pack_position);
                reverse.pack_position_of_offset(&index, index.offset_at(position));
            }
            let _ = reverse.verify_checksum(hash);
            true
        });
    }
}

#[test]
fn positions_beyond_the_index() {
    let numbers: Vec<u8> = [0u32, 1, 3, 2].into_iter().flat_map(u32::to_be_bytes).collect();
    assert_eq!(check_positions(FORMAT, &numbers, 12, 0..4), Ok(()));
    assert_eq!(check_positions(FORMAT, &numbers, 12, 0..3).unwrap_err().offset, 20);
    assert_eq!(check_positions(FORMAT, &numbers, 12, 1..4).unwrap_err().offset, 12);
    assert_eq!(check_positions(FORMAT, &[], 12, 0..0), Ok(()));
}
