use packrace_testkit::Storage;

use super::*;
use crate::test_files::{HASHES, damage, id, pack_file, pack_files, tiny};

/// Compares every answer with `git show-index`, whose lines are `<offset> <id>[ (<crc32>)]`.
fn check(bytes: &[u8], hash: HashKind, listing: &str) {
    let index = PackIndex::open(bytes, hash).unwrap();
    index.verify_checksum().unwrap();
    assert_eq!(index.len() as usize, listing.lines().count());
    for (position, line) in (0u32..).zip(listing.lines()) {
        let fields: Vec<&str> = line.split(' ').collect();
        let expected = id(fields[1]);
        assert_eq!(index.id_at(position), expected);
        assert_eq!(index.position_of(&expected), Some(position));
        assert_eq!(index.offset_at(position).to_string(), fields[0]);
        assert_eq!(
            index.crc32_at(position).map(|crc| format!("({crc:08x})")).as_deref(),
            fields.get(2).copied()
        );
    }
    check_prefixes(&index);
}

/// Compares every prefix of every id, and absent neighbours of every id, with a scan of all ids.
fn check_prefixes<D: AsRef<[u8]>>(index: &PackIndex<D>) {
    let names: Vec<String> = (0..index.len()).map(|position| index.id_at(position).to_string()).collect();
    for (position, name) in (0u32..).zip(&names) {
        for hex_len in [0, 1, 2, 3, 4, 5, 16, 17, name.len()] {
            let with_prefix = |other: &String| other.starts_with(&name[..hex_len]);
            let start = names.iter().position(with_prefix).unwrap() as u32;
            let count = names.iter().filter(|other| with_prefix(other)).count() as u32;
            let range = index.range_of_prefix(index.id_at(position), hex_len);
            assert_eq!(range, start..start + count, "{} {hex_len}", name);
        }
        for at in [0, 7, 8, index.hash_kind().len_in_bytes() - 1] {
            let mut other = index.id_at(position).to_owned();
            other.as_mut_slice()[at] ^= 1;
            if !names.contains(&other.to_string()) {
                assert_eq!(index.position_of(&other), None);
                let range = index.range_of_prefix(&other, name.len());
                assert!(range.is_empty(), "{range:?}");
            }
        }
    }
}

fn use_everything(bytes: &[u8], hash: HashKind) -> bool {
    let Ok(index) = PackIndex::open(bytes, hash) else { return false };
    for position in 0..index.len() {
        let id = index.id_at(position);
        assert!(index.position_of(id).is_none_or(|found| found < index.len()));
        let range = index.range_of_prefix(id, 5);
        assert!(range.end <= index.len());
        index.offset_at(position);
        index.crc32_at(position);
    }
    let _ = (index.pack_checksum(), index.checksum());
    // Only the checksum detects a cut by complete rows of large offsets.
    index.verify_checksum().is_ok()
}

#[test]
fn version_2_as_git_shows_it() {
    for hash in HASHES {
        let repo = tiny(hash, Storage::default());
        let bytes = pack_file(&repo, "idx");
        check(&bytes, hash, &repo.git_with_input(&["show-index"], &bytes));
        let pack = pack_file(&repo, "pack");
        let index = PackIndex::open(&bytes[..], hash).unwrap();
        assert_eq!(index.pack_checksum().as_slice(), &pack[pack.len() - hash.len_in_bytes()..]);
        for other in HASHES.into_iter().filter(|other| *other != hash) {
            assert!(PackIndex::open(&bytes[..], other).is_err());
            assert_eq!(index.position_of(&other.empty_tree()), None);
        }
    }
}

#[test]
fn version_1_as_git_shows_it() {
    for hash in HASHES {
        let repo = tiny(hash, Storage::default());
        let bytes = reindexed(&repo, "--index-version=1");
        assert_ne!(bytes[..4], V2_MAGIC);
        check(&bytes, hash, &repo.git_with_input(&["show-index"], &bytes));
    }
}

#[test]
fn large_offsets_as_git_shows_them() {
    for hash in HASHES {
        let repo = tiny(hash, Storage::default());
        // Every offset from 0x100 on goes to the table of large offsets.
        let bytes = reindexed(&repo, "--index-version=2,0x100");
        assert!(matches!(PackIndex::open(&bytes, hash).unwrap().tables, Tables::V2 { large: 10.., .. }));
        check(&bytes, hash, &repo.git_with_input(&["show-index"], &bytes));
    }
}

#[test]
fn an_empty_pack_has_an_empty_index() {
    for hash in HASHES {
        let repo = tiny(hash, Storage::default());
        let out = repo.path().join("empty");
        repo.git_with_input(&["pack-objects", "-q", out.to_str().unwrap()], b"");
        let name = repo.git_with_input(&["pack-objects", "-q", out.to_str().unwrap()], b"");
        let bytes = crate::test_files::read(&repo.path().join(format!("empty-{}.idx", name.trim())));
        let index = PackIndex::open(&bytes, hash).unwrap();
        assert!(index.is_empty());
        assert_eq!(index.position_of(&hash.empty_tree()), None);
        assert_eq!(index.range_of_prefix(&hash.empty_tree(), 4), 0..0);
    }
}

#[test]
fn damage_never_panics() {
    for hash in HASHES {
        let repo = tiny(hash, Storage::default());
        for version in ["--index-version=1", "--index-version=2", "--index-version=2,0x100"] {
            let bytes = reindexed(&repo, version);
            damage(&bytes, |bytes| use_everything(bytes, hash));
            let mut flipped = bytes;
            let last_id = flipped.len() / 2;
            flipped[last_id] ^= 1;
            let index = PackIndex::open(&flipped, hash).unwrap();
            assert_eq!(index.verify_checksum().unwrap_err().what, "checksum does not match the content");
        }
    }
}

#[test]
fn fan_outs_that_lie() {
    let mut bytes = vec![0; FANOUT_BYTES + 40];
    PackIndex::open(&bytes, HashKind::Sha1).unwrap();
    bytes[4 * 255] = 0xff;
    let error = PackIndex::open(&bytes, HashKind::Sha1).unwrap_err();
    assert_eq!(error.what, "file is not as long as its fan-out says");
    bytes[4 * 254] = 0xff;
    bytes[4 * 255] = 0xfe;
    assert_eq!(PackIndex::open(&bytes, HashKind::Sha1).unwrap_err().what, "fan-out is not sorted");
}

fn reindexed(repo: &packrace_testkit::Repo, version: &str) -> Vec<u8> {
    let pack = pack_files(repo, "pack").remove(0);
    let out = repo.path().join("again.idx");
    let _ = std::fs::remove_file(&out);
    repo.git(&["index-pack", version, "-o", out.to_str().unwrap(), pack.to_str().unwrap()]);
    crate::test_files::read(&out)
}

/// The entries of an index of version 2.
fn entries_of(index: &PackIndex<Vec<u8>>) -> Vec<Entry> {
    let entry = |position| Entry {
        id: index.id_at(position).to_owned(),
        crc32: index.crc32_at(position).unwrap(),
        offset: index.offset_at(position),
    };
    (0..index.len()).map(entry).collect()
}

#[test]
fn written_as_git_writes_them() {
    for hash in HASHES {
        let repo = tiny(hash, Storage::default());
        let index = PackIndex::open(pack_file(&repo, "idx"), hash).unwrap();
        let (entries, pack) = (entries_of(&index), index.pack_checksum());
        let offset = entries[entries.len() / 2].offset as u32;
        for (option, version) in [
            ("--index-version=2".to_owned(), Version::default()),
            ("--index-version=1".to_owned(), Version::V1),
            ("--index-version=2,12".to_owned(), Version::V2 { large_above: 12 }),
            (format!("--index-version=2,{offset}"), Version::V2 { large_above: offset }),
            (format!("--index-version=2,{}", offset - 1), Version::V2 { large_above: offset - 1 }),
        ] {
            let written = write(&entries, hash, &pack, version).unwrap();
            assert!(written == reindexed(&repo, &option), "{hash} {option}");
            let path = pack_files(&repo, "idx").remove(0);
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, written).unwrap();
            repo.git(&["verify-pack", path.to_str().unwrap()]);
        }
    }
}

#[test]
fn sorting_is_by_name_then_offset() {
    let entry = |byte: u8, offset| Entry { id: ObjectId::Sha1([byte; 20]), crc32: 0, offset };
    let mut entries = [entry(2, 12), entry(1, 50), entry(0xff, 90), entry(1, 40)];
    sort(&mut entries);
    assert_eq!(entries, [entry(1, 40), entry(1, 50), entry(2, 12), entry(0xff, 90)]);
    // An object that a pack has twice is found at one of its offsets.
    let bytes = write(&entries, HashKind::Sha1, HashKind::Sha1.null_ref(), Version::default()).unwrap();
    let index = PackIndex::open(&bytes, HashKind::Sha1).unwrap();
    assert!(index.position_of(&entries[0].id).is_some_and(|position| position < 2));
}

#[test]
fn offsets_beyond_2_gib_and_4_gib() {
    const LIMIT: u64 = 1 << 31;
    for hash in HASHES {
        let offsets = [12, LIMIT - 1, LIMIT, 2 * LIMIT - 1, 2 * LIMIT, 5 * LIMIT, u64::MAX >> 1];
        let entries: Vec<Entry> = (1..)
            .zip(offsets)
            .map(|(byte, offset)| {
                let mut id = hash.null();
                id.as_mut_slice()[0] = byte * 30;
                Entry { id, crc32: u32::from(byte), offset }
            })
            .collect();
        let bytes = write(&entries, hash, hash.null_ref(), Version::default()).unwrap();
        let index = PackIndex::open(bytes, hash).unwrap();
        assert!(matches!(index.tables, Tables::V2 { large: 5, .. }));
        assert_eq!(entries_of(&index), entries);
        index.verify_checksum().unwrap();
        let listing: String = entries
            .iter()
            .map(|entry| format!("{} {} ({:08x})\n", entry.offset, entry.id, entry.crc32))
            .collect();
        let repo = tiny(hash, Storage::default());
        assert_eq!(repo.git_with_input(&["show-index"], &index.data), listing);

        let v1 = write(&entries[..4], hash, hash.null_ref(), Version::V1).unwrap();
        assert_eq!(PackIndex::open(&v1, hash).unwrap().offset_at(3), 2 * LIMIT - 1);
        let refused = write(&entries[..5], hash, hash.null_ref(), Version::V1);
        assert_eq!(refused, Err(PackIndexWriteError::OffsetBeyondVersion1(2 * LIMIT)));
    }
}

#[test]
fn nothing_is_written_as_git_writes_it() {
    for hash in HASHES {
        let repo = tiny(hash, Storage::default());
        let out = repo.path().join("empty");
        let name = repo.git_with_input(&["pack-objects", "-q", out.to_str().unwrap()], b"");
        let idx = crate::test_files::read(&repo.path().join(format!("empty-{}.idx", name.trim())));
        let pack = PackIndex::open(&idx, hash).unwrap().pack_checksum();
        assert!(write(&[], hash, &pack, Version::default()).unwrap() == idx);
    }
}
