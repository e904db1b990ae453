//! Input: hash (1 bit) and way (2 bits) in a byte, then by the way: a pack without index, a loose object, the length of a
//! base (1 byte) with the base and a delta, or an entry header.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_format::pack::delta::{self, Instruction, Instructions};
use packrace_format::pack::{
    EntryHeader, EntryKind, HEADER_BYTES, Header, parse_entry_header, write_entry_header,
};
use packrace_format::{loose_object, zlib::Inflater};
use packrace_object::HashKind;

/// Larger contents are what a server refuses by its limits.
const MAX_SIZE: u64 = 1 << 22;

fuzz_target!(|input: &[u8]| {
    let [way, input @ ..] = input else { return };
    let hash = if way & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    match way >> 1 & 3 {
        0 => check_pack(input, hash),
        1 => check_loose(input),
        2 => check_delta(input),
        _ => {
            check_entry_header(input, hash);
        }
    }
});

fn check_entry_header(bytes: &[u8], hash: HashKind) -> Option<EntryHeader> {
    let entry = parse_entry_header(bytes, hash).ok()?;
    let mut again = Vec::new();
    write_entry_header(entry.kind, entry.size, &mut again);
    assert!(again.len() <= entry.length, "ours is the shortest header");
    let read = parse_entry_header(&again, hash).expect("what we write we read");
    assert_eq!((read.kind, read.size), (entry.kind, entry.size));
    Some(entry)
}

fn check_pack(pack: &[u8], hash: HashKind) {
    let Ok(header) = Header::parse(pack) else { return };
    let mut inflater = Inflater::new();
    let (mut base, mut inflated, mut result) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = HEADER_BYTES;
    for _ in 0..header.objects {
        let Some(bytes) = pack.get(at..) else { return };
        let Some(entry) = check_entry_header(bytes, hash) else { return };
        if entry.size > MAX_SIZE {
            return;
        }
        if inflater.inflate_exact(&bytes[entry.length..], entry.size as usize, &mut inflated).is_err() {
            return;
        }
        assert_eq!(inflated.len() as u64, entry.size);
        match entry.kind {
            EntryKind::Object(_) => base = std::mem::take(&mut inflated),
            _ if delta::sizes(&inflated).is_ok_and(|sizes| sizes.result <= MAX_SIZE) => {
                let _ = delta::apply(&base, &inflated, &mut result);
            }
            _ => {}
        }
        // The next entry is looked for at every byte, as no index says where it is.
        at += entry.length + 1;
    }
}

fn check_loose(file: &[u8]) {
    let mut inflater = Inflater::new();
    let mut content = Vec::new();
    let Ok(header) = loose_object::inflate_header(&mut inflater, file) else { return };
    if header.size <= MAX_SIZE && loose_object::inflate(&mut inflater, file, &mut content).is_ok() {
        assert_eq!(content.len() as u64, header.size);
    }
}

fn check_delta(input: &[u8]) {
    let [length, rest @ ..] = input else { return };
    let Some((base, delta)) = rest.split_at_checked(usize::from(*length)) else { return };
    let Ok(sizes) = delta::sizes(delta) else { return };
    if sizes.result > MAX_SIZE {
        return;
    }
    let mut expect = Vec::new();
    let mut possible = sizes.base == base.len() as u64;
    for instruction in Instructions::new(delta, sizes.length) {
        let piece = match instruction {
            Ok(Instruction::Copy { offset, length }) => {
                base.get(offset as usize..offset as usize + length as usize)
            }
            Ok(Instruction::Insert(range)) => Some(&delta[range]),
            Err(_) => None,
        };
        match piece {
            Some(piece) if expect.len() as u64 <= sizes.result => expect.extend(piece),
            _ => possible = false,
        }
    }
    possible &= expect.len() as u64 == sizes.result;
    let mut result = Vec::new();
    assert_eq!(delta::apply(base, delta, &mut result).is_ok(), possible);
    assert!(result == if possible { expect } else { Vec::new() });
}
