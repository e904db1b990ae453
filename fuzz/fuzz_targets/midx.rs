//! Input: hash and whether it is above others of a chain (1 byte), a multi-pack-index.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_format::multi_pack_index::{
    CompactedBits, MultiPackIndex, MultiPackIndexChain, compact, parse_chain_file,
};
use packrace_object::HashKind;

fuzz_target!(|input: &[u8]| {
    let [kind, file @ ..] = input else { return };
    let hash = if kind & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let base = if kind & 2 == 0 { 0 } else { 1000 };
    if let Some(checksums) = parse_chain_file(file, hash) {
        assert!(checksums.iter().all(|checksum| checksum.kind() == hash));
    }
    let Ok(midx) = MultiPackIndex::open_layer(file, hash, base) else { return };
    for bits in [CompactedBits::No, CompactedBits::ByName, CompactedBits::Kept] {
        if let Ok(bytes) = compact(std::slice::from_ref(&midx), hash, base, bits) {
            let again = MultiPackIndex::open_layer(&bytes, hash, base).expect("made here");
            assert_eq!((again.len(), again.pack_count()), (midx.len(), midx.pack_count()));
        }
    }
    if base == 0 {
        let chain = MultiPackIndexChain::from(midx.clone());
        for position in 0..midx.len() {
            assert_eq!(chain.position_at_bit(position), midx.position_at_bit(position));
            assert_eq!(chain.pack_and_offset_at(position), midx.pack_and_offset_at(position));
        }
    }
    assert_eq!(midx.pack_names().count(), midx.pack_count() as usize);
    assert!(midx.pack_names().all(|name| !name.is_empty() && !name.contains(['/', '\0'])));
    for position in 0..midx.len() {
        let id = midx.id_at(position);
        assert!(midx.position_of(id).is_none_or(|found| midx.id_at(found) == id));
        assert!(midx.range_of_prefix(id, 7).end <= midx.len());
        assert!(midx.pack_and_offset_at(position).is_none_or(|(pack, _)| pack < midx.pack_count()));
        assert!(midx.position_at_bit(position).is_none_or(|found| found < midx.len()));
        if let Some(bit) = midx.bit_of_position(position) {
            assert_eq!(midx.position_at_bit(bit), Some(position));
        }
    }
    for pack in 0..midx.pack_count() {
        assert!(midx.bitmapped_pack(pack).is_none_or(|found| found.first_bit + found.bits <= midx.len()));
    }
    let _ = (midx.preferred_pack(), midx.checksum(), midx.verify_checksum());
});
