//! Input: hash and whether it is above others of a chain (1 byte), number of objects (2 bytes), a `.bitmap`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_format::bitmap::{BitmapIndex, Bits};
use packrace_object::{HashKind, Kind};

fuzz_target!(|input: &[u8]| {
    let [kind, high, low, file @ ..] = input else { return };
    let hash = if kind & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let objects = u32::from(u16::from_be_bytes([*high, *low]));
    let base = if kind & 2 == 0 { 0 } else { objects / 2 };
    let Ok(bitmap) = BitmapIndex::open_layer(file, base..objects, hash) else { return };
    assert!(bitmap.len() as usize <= file.len());
    for kind in Kind::ALL {
        if let Ok(bits) = bitmap.type_bitmap(kind) {
            check_bits(&bits, objects);
        }
    }
    // A hostile chain of differences is walked again for every commit; some are enough.
    for position in bitmap.commit_positions().take(64) {
        let found = bitmap.bitmap_of(position);
        assert_eq!(found.is_some(), bitmap.has_bitmap_of(position));
        let mut added = Bits::new(objects);
        let result = bitmap.or_bitmap_into(position, &mut added);
        match (found, result) {
            (Some(Ok(bits)), Some(Ok(()))) => {
                check_bits(&bits, objects);
                assert_eq!(bits, added);
            }
            (Some(Err(_)), Some(Err(_))) | (None, None) => {}
            (found, result) => panic!("{found:?} but {result:?}"),
        }
    }
    for merge in bitmap.pseudo_merges().take(64).flatten() {
        for set in [merge.commits, merge.reached] {
            if let Ok(bits) = set.to_bits(objects) {
                check_bits(&bits, objects);
                assert_eq!(set.is_within(&bits, &Bits::new(objects)), !bits.none());
            }
            set.is_within(&Bits::new(objects), &Bits::new(objects));
        }
    }
    for position in 0..objects {
        bitmap.name_hash_at(position);
    }
    let _ = (bitmap.owner_checksum(), bitmap.verify_checksum());
});

fn check_bits(bits: &Bits, objects: u32) {
    assert_eq!(bits.len(), objects);
    assert_eq!(bits.iter_ones().count(), bits.count_ones() as usize);
    assert!(bits.iter_ones().all(|bit| bit < objects && bits.contains(bit)));
}
