use packrace_object::{HashKind, ObjectId, TrailerHasher};

use super::*;
use crate::test_files::HASHES;

fn stored(length: u64, place: FilePlace) -> StoredFile {
    StoredFile { length, sha256: [5; 32], place }
}

fn sample(hash: HashKind) -> Head {
    let key = ObjectKey { generation: 7, token: WriteToken([3; 16]) };
    let files = [PackFileKind::Pack, PackFileKind::Index, PackFileKind::Reverse, PackFileKind::Bitmap];
    let files = files.map(|kind| (kind, stored(100, FilePlace::Object { key, offset: 1 << 40 })));
    Head {
        hash,
        generation: 9,
        token: WriteToken([1; 16]),
        recent: vec![WriteToken([2; 16]), WriteToken([3; 16])],
        floor: 2,
        shrunk: 8,
        config: vec![(b"transfer.hiderefs".to_vec(), b"refs/x".to_vec())],
        shallow: vec![hash.empty_tree()],
        packs: vec![StoredPack { checksum: hash.empty_blob(), files: files.to_vec() }],
        tables: vec![StoredTable {
            name: b"0x000000000001-0x000000000002-0a1b2c3d.ref".to_vec(),
            file: stored(3, FilePlace::Inline(b"abc".to_vec())),
        }],
        dropped: vec![key],
    }
}

/// Sets the checksum that matches the bytes.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() - DIGEST_BYTES);
    let mut hasher = TrailerHasher::new(HashKind::Sha256);
    hasher.update(&bytes);
    bytes.extend_from_slice(hasher.finish().as_bytes());
    bytes
}

fn what(head: &Head) -> String {
    parse(&write(head).unwrap()).unwrap_err().to_string()
}

#[test]
fn what_is_written_is_read() {
    for hash in HASHES {
        let head = sample(hash);
        assert_eq!(parse(&write(&head).unwrap()).as_ref(), Ok(&head));
        let empty = Head {
            recent: Vec::new(),
            config: Vec::new(),
            shallow: Vec::new(),
            packs: Vec::new(),
            tables: Vec::new(),
            dropped: Vec::new(),
            ..head
        };
        assert_eq!(parse(&write(&empty).unwrap()), Ok(empty));
    }
}

#[test]
fn every_cut_and_every_flipped_bit_is_found() {
    for hash in HASHES {
        let bytes = write(&sample(hash)).unwrap();
        for length in 0..bytes.len() {
            assert!(matches!(parse(&bytes[..length]), Err(HeadError::Damaged(_))), "{length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(parse(&other), Err(HeadError::Damaged(_))), "bit {bit}");
        }
    }
}

/// With a correct checksum, every changed byte has a meaning: it is refused, or written again as it was.
#[test]
fn behind_a_good_checksum_nothing_panics_and_nothing_is_lost() {
    for hash in HASHES {
        let bytes = write(&sample(hash)).unwrap();
        for at in 0..bytes.len() - DIGEST_BYTES {
            for value in [0, 1, 2, 0x7f, 0x80, 0xff] {
                let mut other = bytes.clone();
                other[at] = value;
                let other = sealed(other);
                if let Ok(head) = parse(&other) {
                    assert_eq!(write(&head).unwrap(), other, "byte {at}");
                }
            }
        }
    }
}

#[test]
fn a_newer_version_is_told_by_name() {
    let mut bytes = write(&sample(HashKind::Sha1)).unwrap();
    bytes[11] = 2;
    assert!(matches!(parse(&bytes), Err(HeadError::Damaged(_))));
    let error = parse(&sealed(bytes.clone())).unwrap_err();
    assert_eq!(error, HeadError::Newer(2));
    assert_eq!(
        error.to_string(),
        "head: version 2 is not supported, this packrace knows version 1; upgrade packrace"
    );
    bytes[11] = 0;
    assert!(matches!(parse(&sealed(bytes)), Err(HeadError::Damaged(_))));
}

#[test]
fn what_cannot_be_is_refused() {
    let head = sample(HashKind::Sha1);
    let check = |change: &dyn Fn(&mut Head), expect: &str| {
        let mut changed = head.clone();
        change(&mut changed);
        let said = what(&changed);
        assert!(said.contains(expect), "{said}");
    };
    check(&|head| head.generation = 0, "generation is 0");
    check(&|head| head.floor = 10, "beyond the generation");
    check(&|head| head.shrunk = 10, "beyond the generation");
    check(&|head| head.packs.push(head.packs[0].clone()), "a pack is named twice");
    check(&|head| head.packs[0].files.truncate(1), "lacks the pack or the index");
    check(&|head| head.packs[0].files[1].0 = PackFileKind::Pack, "unknown or there twice");
    check(&|head| head.tables.push(head.tables[0].clone()), "a table is named twice");
    for name in ["", "../../config", "0x000000000001-0x000000000002-0a1b2c3d.ref/..", "tables.list"] {
        check(&|head| head.tables[0].name = name.into(), "no good name");
    }
    check(&|head| head.config[0].0.clear(), "a setting that cannot be");
    check(&|head| head.config[0].1.push(0), "a setting that cannot be");
    check(&|head| head.packs[0].files[0].1.length = u64::MAX, "behind any object");
    check(&|head| head.tables[0].file.length = 4, "");
    check(&|head| head.tables[0].file.length = u64::MAX, "cut off");
}

/// A head of the last generation can be read; no later one can be written or read.
#[test]
fn generations_end() {
    let last = Head { generation: MAX_GENERATION, ..sample(HashKind::Sha1) };
    let mut bytes = write(&last).unwrap();
    assert_eq!(parse(&bytes).as_ref(), Ok(&last));
    write(&Head { generation: last.generation + 1, ..last }).unwrap_err();
    bytes[16..24].fill(0xff);
    assert!(parse(&sealed(bytes)).unwrap_err().to_string().contains("more than 63 bits"));
}

#[test]
fn what_does_not_fit_is_not_written() {
    let head = sample(HashKind::Sha1);
    let many = Head { recent: vec![head.token; MAX_RECENT_TOKENS + 1], ..head.clone() };
    write(&many).unwrap_err();
    let most = Head { recent: vec![head.token; MAX_RECENT_TOKENS], ..head.clone() };
    assert_eq!(parse(&write(&most).unwrap()), Ok(most));
    let shallow = vec![ObjectId::null(HashKind::Sha1); MAX_ENTRIES + 1];
    write(&Head { shallow, ..head.clone() }).unwrap_err();
    let mut long = head;
    long.tables[0].file = stored(MAX_HEAD_BYTES as u64, FilePlace::Inline(vec![0; MAX_HEAD_BYTES]));
    write(&long).unwrap_err();
}
