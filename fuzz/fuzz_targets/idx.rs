//! Input: hash (1 byte, see `hash`), length of a `.rev` (2 bytes), the `.rev`, an idx.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_format::pack_index::PackIndex;
use packrace_format::reverse_index::ReverseIndex;
use packrace_object::HashKind;

fuzz_target!(|input: &[u8]| {
    let [hash, high, low, rest @ ..] = input else { return };
    let hash = if hash & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let Some((rev, idx)) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low]))) else {
        return;
    };
    let Ok(index) = PackIndex::open(idx, hash) else { return };
    check_lookups(&index);
    let computed = ReverseIndex::<&[u8]>::compute(&index);
    let mut last = 0;
    for pack_position in 0..index.len() {
        let offset = index.offset_at(computed.index_position_at(pack_position));
        assert!(offset >= last, "sorted by offset");
        last = offset;
        let found = computed.pack_position_of_offset(&index, offset).expect("every offset is found");
        assert_eq!(index.offset_at(computed.index_position_at(found)), offset);
    }
    if let Ok(stored) = ReverseIndex::open(rev, &index) {
        for pack_position in 0..stored.len() {
            let position = stored.index_position_at(pack_position);
            stored.pack_position_of_offset(&index, index.offset_at(position));
        }
        let _ = stored.verify_checksum(hash);
    }
});

fn check_lookups(index: &PackIndex<&[u8]>) {
    // Where ids are sorted, and the fan-out is theirs, every lookup must be right.
    let sorted = (1..index.len()).all(|position| index.id_at(position - 1) < index.id_at(position));
    let mut in_buckets = true;
    for position in 0..index.len() {
        in_buckets &= index.range_of_prefix(index.id_at(position), 2).contains(&position);
    }
    for position in 0..index.len() {
        let id = index.id_at(position);
        let found = index.position_of(id);
        if sorted && in_buckets {
            assert_eq!(found, Some(position));
            for hex_len in [0, 1, 2, 7, 8, 40, 64, usize::MAX] {
                assert!(index.range_of_prefix(id, hex_len).contains(&position));
            }
        }
        assert!(found.is_none_or(|found| index.id_at(found) == id));
        index.offset_at(position);
        index.crc32_at(position);
    }
    let _ = (index.pack_checksum(), index.checksum(), index.verify_checksum());
}
