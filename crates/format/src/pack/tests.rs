use std::collections::{BTreeMap, HashMap};

use packrace_object::{HashKind, Kind, object_id};
use packrace_testkit::{Repo, Storage};

use super::delta::{self, Instruction, Instructions};
use super::*;
use crate::pack_index::PackIndex;
use crate::reverse_index::ReverseIndex;
use crate::test_files::{HASHES, pack_file, pack_files, tiny};
use crate::zlib::Inflater;

fn check(kind: EntryKind, size: u64, expect: &[u8]) {
    let mut bytes = Vec::new();
    write_entry_header(kind, size, &mut bytes);
    assert!(bytes.starts_with(expect), "{bytes:x?}");
    assert!(bytes.len() <= MAX_ENTRY_HEADER_BYTES);
    let hash = match kind {
        EntryKind::RefDelta { base } => base.kind(),
        _ => HashKind::Sha1,
    };
    let length = bytes.len();
    for end in 0..length {
        assert!(parse_entry_header(&bytes[..end], hash).is_err(), "cut at {end}");
    }
    bytes.extend([0xff; 3]);
    assert_eq!(parse_entry_header(&bytes, hash), Ok(EntryHeader { kind, size, length }));
}

#[test]
fn entry_headers() {
    check(EntryKind::Object(Kind::Blob), 0, &[0x30]);
    check(EntryKind::Object(Kind::Commit), 15, &[0x1f]);
    check(EntryKind::Object(Kind::Tree), 16, &[0xa0, 1]);
    check(EntryKind::Object(Kind::Tag), u64::MAX, &[0xcf, 0xff]);
    check(EntryKind::OfsDelta { distance: 127 }, 1, &[0x61, 0x7f]);
    check(EntryKind::OfsDelta { distance: 128 }, 1, &[0x61, 0x80, 0]);
    check(EntryKind::OfsDelta { distance: 16511 }, 1, &[0x61, 0xff, 0x7f]);
    check(EntryKind::OfsDelta { distance: 16512 }, 1, &[0x61, 0x80, 0x80, 0]);
    check(EntryKind::OfsDelta { distance: (1 << 63) - 1 }, 1, &[0x61]);
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        check(EntryKind::RefDelta { base: hash.empty_tree() }, 300, &[0xfc, 18]);
    }
}

#[test]
fn malformed_entry_headers() {
    for (bytes, expect) in [
        (&[0x00][..], "entry has no valid type"),
        (&[0x50], "entry has no valid type"),
        (&[0x60, 0], "delta is its own base"),
        (&[0x9f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f], "entry size exceeds 64 bits"),
        (&[0xff; 40], "entry size exceeds 64 bits"),
        (
            &[0x60, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
            "delta distance exceeds 63 bits",
        ),
    ] {
        assert_eq!(parse_entry_header(bytes, HashKind::Sha1).unwrap_err().what, expect, "{bytes:x?}");
    }
    // 2⁶⁴ − 1, alone and with another byte after it.
    let mut bytes = Vec::new();
    write_entry_header(EntryKind::OfsDelta { distance: u64::MAX }, 0, &mut bytes);
    assert!(parse_entry_header(&bytes, HashKind::Sha1).is_err());
    *bytes.last_mut().unwrap() |= 0x80;
    bytes.push(0);
    assert!(parse_entry_header(&bytes, HashKind::Sha1).is_err());
}

#[test]
fn headers() {
    let mut bytes = Vec::new();
    write_header(7, &mut bytes);
    assert_eq!(Header::parse(&bytes), Ok(Header { version: 2, objects: 7 }));
    for end in 0..bytes.len() {
        assert!(Header::parse(&bytes[..end]).is_err());
    }
    bytes[7] = 4;
    assert_eq!(Header::parse(&bytes).unwrap_err().what, "version is neither 2 nor 3");
    bytes[0] = b'p';
    assert_eq!(Header::parse(&bytes).unwrap_err().what, "signature is not PACK");
}

fn check_delta(base: &[u8], delta: &[u8], expect: Result<&[u8], &'static str>) {
    let mut out = b"leftover".to_vec();
    let got = delta::apply(base, delta, &mut out).map(|()| out.as_slice());
    assert!(got.map_err(|error| error.what) == expect, "{delta:x?}");
}

#[test]
fn deltas() {
    let base: Vec<u8> = (0..0x20005u32).map(|n| (n % 251) as u8).collect();
    let base_size = [0x85, 0x80, 0x08];
    let delta = |result: &[u8], rest: &[u8]| [&base_size, result, rest].concat();

    check_delta(&base, &delta(&[0], &[]), Ok(b""));
    check_delta(&base, &delta(&[3], &[3, 9, 8, 7]), Ok(&[9, 8, 7]));
    check_delta(&base, &delta(&[4], &[0b1001_0001, 5, 3, 1, 77]), Ok(&[5, 6, 7, 77]));
    check_delta(&base, &delta(&[0x80, 0x80, 4], &[0x80]), Ok(&base[..0x10000]));
    check_delta(&base, &delta(&[0x85, 0x80, 4], &[0b1101_0101, 0, 1, 5, 1]), Ok(&base[0x10000..]));
    check_delta(&base, &delta(&[0x85, 2], &[0b1011_0101, 0, 2, 5, 1]), Err("copy reaches beyond the base"));
    check_delta(&base, &delta(&[5], &[0b1001_0101, 1, 2, 5]), Err("copy reaches beyond the base"));
    check_delta(&base, &delta(&[5], &[0b1001_0101, 0, 1, 5]), Ok(&base[0x10000..0x10005]));
    check_delta(&base, &delta(&[2], &[3, 9, 8, 7]), Err("instructions do not add up to the result"));
    check_delta(&base, &delta(&[4], &[3, 9, 8, 7]), Err("instructions do not add up to the result"));
    check_delta(&base, &delta(&[3], &[3, 9, 8]), Err("malformed instruction"));
    check_delta(&base, &delta(&[1], &[0b1001_0001, 5]), Err("malformed instruction"));
    check_delta(&base, &delta(&[0], &[0]), Err("malformed instruction"));
    check_delta(&base, &[1, 1, 1, 7], Err("delta was made for another base"));
    check_delta(&base, &[0x85; 4], Err("size is cut off"));
    check_delta(b"x", &[1, 0], Err("delta is too short"));
    check_delta(b"x", &[1, 1, 0x90], Err("delta is too short"));
    check_delta(b"x", &[1, 2, 0x90, 1, 0x90, 1], Ok(b"xx"));
    check_delta(&base, &[0xff; 20], Err("size exceeds 64 bits"));
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    check_delta(&base, &delta(&huge, &[0x80]), Err("instructions do not add up to the result"));
}

#[test]
fn instructions_say_where() {
    let delta = [5, 4, 0b1001_0001, 2, 3, 1, b'x', 0];
    let sizes = delta::sizes(&delta).unwrap();
    assert_eq!((sizes.base, sizes.result, sizes.length), (5, 4, 2));
    let mut instructions = Instructions::new(&delta, sizes.length);
    assert_eq!(instructions.next(), Some(Ok(Instruction::Copy { offset: 2, length: 3 })));
    assert_eq!(instructions.next(), Some(Ok(Instruction::Insert(6..7))));
    assert_eq!(instructions.next().unwrap().unwrap_err().offset, 7);
    assert_eq!(instructions.next(), None);
}

/// Walks a pack from entry to entry and compares with `git verify-pack -v`, whose lines about entries are
/// `<id> <kind> <size> <bytes in the pack> <offset>[ <depth> <id of the base>]`.
fn check_entries(repo: &Repo, hash: HashKind) {
    let pack = pack_file(repo, "pack");
    let index = PackIndex::open(pack_file(repo, "idx"), hash).unwrap();
    let reverse = ReverseIndex::<Vec<u8>>::compute(&index);
    let path = pack_files(repo, "pack").remove(0);
    let listing = repo.git(&["verify-pack", "-v", path.to_str().unwrap()]);
    let mut by_offset: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for fields in listing.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()) {
        if fields.len() >= 5 && fields[0].len() == hash.len_in_hex() {
            by_offset.insert(fields[4].parse().unwrap(), fields);
        }
    }
    assert_eq!(Header::parse(&pack), Ok(Header { version: 2, objects: index.len() }));
    assert_eq!(by_offset.len(), index.len() as usize);
    let mut contents: HashMap<u64, (Kind, Vec<u8>)> = HashMap::new();
    let mut inflater = Inflater::new();
    let mut offset = HEADER_BYTES as u64;
    let mut deltas = 0;
    for (pack_position, (listed, fields)) in (0u32..).zip(&by_offset) {
        assert_eq!(offset, *listed);
        let entry = &pack[offset as usize..];
        let header = parse_entry_header(entry, hash).unwrap();
        assert_eq!(header.size.to_string(), fields[2]);
        let mut inflated = Vec::new();
        inflater.inflate_exact(&entry[header.length..], header.size as usize, &mut inflated).unwrap();
        let base_offset = match header.kind {
            EntryKind::Object(_) => None,
            EntryKind::OfsDelta { distance } => Some(offset - distance),
            EntryKind::RefDelta { base } => Some(index.offset_at(index.position_of(&base).unwrap())),
        };
        let resolved = match (header.kind, base_offset) {
            (EntryKind::Object(kind), _) => (kind, inflated),
            (_, base_offset) => {
                let (kind, base) = &contents[&base_offset.unwrap()];
                let mut result = Vec::new();
                delta::apply(base, &inflated, &mut result).unwrap();
                deltas += 1;
                (*kind, result)
            }
        };
        let position = reverse.index_position_at(pack_position);
        let name = object_id(hash, resolved.0, &resolved.1).unwrap();
        assert_eq!((name.to_string().as_str(), resolved.0.name()), (fields[0], fields[1]));
        assert_eq!(index.id_at(position), name);
        let end = offset + fields[3].parse::<u64>().unwrap();
        let crc = crc32fast::hash(&pack[offset as usize..end as usize]);
        assert_eq!(index.crc32_at(position), Some(crc));
        contents.insert(offset, resolved);
        offset = end;
    }
    assert_eq!(offset as usize, pack.len() - hash.len_in_bytes());
    assert!(deltas > 20);
}

#[test]
fn entries_as_git_verifies_them() {
    for hash in HASHES {
        let repo = tiny(hash, Storage::default());
        check_entries(&repo, hash);
        repo.git(&["-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq"]);
        check_entries(&repo, hash);
    }
}
