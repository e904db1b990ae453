use packrace_testkit::Storage;

use super::*;
use crate::test_files::{HASHES, damage, id, pack_file, pack_files, tiny};

/// Compares every answer with `git show-index`, of which a line is `<offset> <id>[ (<crc32>)]`.
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

/// Every prefix of every name, and absent neighbours of every name, against a look at all names.
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
    // A cut by whole rows of large offsets is only seen by the checksum.
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
        // Every offset from 0x100 on goes to the table of large ones.
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
