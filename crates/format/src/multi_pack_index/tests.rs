use packrace_testkit::{Bitmap, Repo, Storage};

use super::*;
use crate::pack_index::PackIndex;
use crate::test_files::{HASHES, damage, read, tiny};

fn built(hash: HashKind, bitmap: Bitmap) -> (Repo, Vec<u8>) {
    let storage = Storage { packs: 3, multi_pack_index: true, bitmap, ..Storage::default() };
    let repo = tiny(hash, storage);
    let bytes = read(&repo.path().join("objects/pack/multi-pack-index"));
    (repo, bytes)
}

/// Compares with the indexes of all packs, which are compared with git elsewhere.
fn check(repo: &Repo, bytes: &[u8], hash: HashKind) {
    let midx = MultiPackIndex::open(bytes, hash).unwrap();
    midx.verify_checksum().unwrap();
    let indexes: Vec<PackIndex<Vec<u8>>> = midx
        .pack_names()
        .map(|name| PackIndex::open(read(&repo.path().join("objects/pack").join(name)), hash).unwrap())
        .collect();
    assert_eq!(indexes.len(), midx.pack_count() as usize);
    assert!(indexes.len() >= 3);
    for position in 0..midx.len() {
        let id = midx.id_at(position);
        assert_eq!(midx.position_of(id), Some(position));
        assert_eq!(midx.range_of_prefix(id, id.as_bytes().len() * 2), position..position + 1);
        let (pack, offset) = midx.pack_and_offset_at(position).unwrap();
        let index = &indexes[pack as usize];
        assert_eq!(index.offset_at(index.position_of(id).unwrap()), offset);
    }
    let all = |index: &PackIndex<Vec<u8>>| {
        (0..index.len()).map(|position| index.id_at(position).to_owned()).collect::<Vec<_>>()
    };
    for id in indexes.iter().flat_map(all) {
        assert!(midx.position_of(&id).is_some());
    }
    check_bits(&midx);
}

fn check_bits(midx: &MultiPackIndex<&[u8]>) {
    if !midx.has_bit_order() {
        assert_eq!((midx.position_at_bit(0), midx.preferred_pack()), (None, None));
        assert_eq!((midx.bit_of_position(0), midx.bitmapped_pack(0)), (None, None));
        return;
    }
    let mut counts = vec![0; midx.pack_count() as usize];
    for bit in 0..midx.len() {
        let position = midx.position_at_bit(bit).unwrap();
        assert_eq!(midx.bit_of_position(position), Some(bit));
        let (pack, _) = midx.pack_and_offset_at(position).unwrap();
        counts[pack as usize] += 1;
        let pack = midx.bitmapped_pack(pack).unwrap();
        assert!((pack.first_bit..pack.first_bit + pack.bits).contains(&bit));
    }
    for (pack, count) in (0u32..).zip(counts) {
        assert_eq!(midx.bitmapped_pack(pack).unwrap().bits, count);
    }
    let preferred = midx.preferred_pack().unwrap();
    assert_eq!(midx.bitmapped_pack(preferred).unwrap().first_bit, 0);
}

fn use_everything(bytes: &[u8], hash: HashKind) -> bool {
    let Ok(midx) = MultiPackIndex::open(bytes, hash) else { return false };
    assert_eq!(midx.pack_names().count(), midx.pack_count() as usize);
    for position in 0..midx.len() {
        assert!(midx.position_of(midx.id_at(position)).is_none_or(|found| found < midx.len()));
        let place = midx.pack_and_offset_at(position);
        assert!(place.is_none_or(|(pack, _)| pack < midx.pack_count()));
        assert!(midx.bit_of_position(position).is_none_or(|bit| bit < midx.len()));
    }
    (0..midx.pack_count()).for_each(|pack| {
        midx.bitmapped_pack(pack);
    });
    let _ = (midx.checksum(), midx.verify_checksum());
    true
}

#[test]
fn places_are_those_of_the_packs() {
    for hash in HASHES {
        for bitmap in [Bitmap::No, Bitmap::Plain] {
            let (repo, bytes) = built(hash, bitmap);
            check(&repo, &bytes, hash);
        }
    }
}

#[test]
fn a_preferred_pack_that_is_not_the_first() {
    let (repo, bytes) = built(HashKind::Sha1, Bitmap::No);
    let names: Vec<String> =
        MultiPackIndex::open(&bytes, HashKind::Sha1).unwrap().pack_names().map(String::from).collect();
    for name in &names {
        let preferred = format!("--preferred-pack={name}");
        std::fs::remove_file(repo.path().join("objects/pack/multi-pack-index")).unwrap();
        repo.git(&["multi-pack-index", "write", "--bitmap", preferred.as_str()]);
        let bytes = read(&repo.path().join("objects/pack/multi-pack-index"));
        check(&repo, &bytes, HashKind::Sha1);
        let midx = MultiPackIndex::open(&bytes, HashKind::Sha1).unwrap();
        let preferred = midx.preferred_pack().unwrap() as usize;
        assert_eq!(midx.pack_names().nth(preferred), Some(name.as_str()));
    }
}

#[test]
fn damage_never_panics() {
    for hash in HASHES {
        let (_repo, bytes) = built(hash, Bitmap::Plain);
        damage(&bytes, |bytes| use_everything(bytes, hash));
    }
}

#[test]
fn what_is_refused() {
    let (_repo, bytes) = built(HashKind::Sha1, Bitmap::No);
    let names_at = memchr::memmem::find(&bytes, b"pack-").unwrap();
    for (at, byte, expect) in [
        (0, b'm', "signature is not MIDX"),
        (4, 3, "version is neither 1 nor 2"),
        (5, 2, "made for another hash"),
        (6, 9, "chunk is not within the file"),
        (7, 1, "chains of files are not supported"),
        (8, 9, "more packs than names"),
        (11, 60, "pack name is not a file name"),
        (12, 0, "a required chunk is missing"),
        (names_at, b'/', "pack name is not a file name"),
        (names_at, 0xff, "pack name is not a file name"),
    ] {
        let mut damaged = bytes.clone();
        damaged[at] = byte;
        let got = MultiPackIndex::open(&damaged, HashKind::Sha1).map(drop).unwrap_err().what;
        assert_eq!(got, expect, "{at}");
    }
}
