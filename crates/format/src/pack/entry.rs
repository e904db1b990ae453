use packrace_object::{HashKind, Kind, ObjectId, oid};

use super::FORMAT;
use crate::Error;

/// The longest accepted header: ten bytes of size, then a SHA-256 id or ten bytes of distance.
pub const MAX_ENTRY_HEADER_BYTES: usize = 10 + 32;

/// The content of an entry's zlib stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A whole object.
    Object(Kind),
    /// A delta whose base begins `distance` bytes before this entry in the same pack.
    OfsDelta {
        /// At least 1; the caller checks that the base is within the pack.
        distance: u64,
    },
    /// A delta whose base is given by id.
    RefDelta {
        /// The id of the base.
        base: ObjectId,
    },
}

/// The header of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHeader {
    /// The content of the zlib stream.
    pub kind: EntryKind,
    /// The inflated length of the content, or of the delta if it is one.
    pub size: u64,
    /// The length of this header; the zlib stream follows.
    pub length: usize,
}

/// The type of a delta that names its base by distance (gitformat-pack, "object types").
const OFS_DELTA: u8 = 6;

/// The type of a delta that names its base by id.
const REF_DELTA: u8 = 7;

/// Reads the entry header at the start of `bytes`, which may extend to the end of the pack.
#[inline]
pub fn parse_entry_header(bytes: &[u8], hash: HashKind) -> Result<EntryHeader, Error> {
    let cut_off = |at: usize| Error::new(FORMAT, "entry header is cut off", at as u64);
    let first = *bytes.first().ok_or_else(|| cut_off(0))?;
    let mut size = u64::from(first & 0x0f);
    let mut more = first & 0x80 != 0;
    let mut shift = 4;
    let mut at = 1;
    while more {
        let byte = *bytes.get(at).ok_or_else(|| cut_off(at))?;
        let bits = u64::from(byte & 0x7f);
        if shift >= 64 || bits << shift >> shift != bits {
            return Err(Error::new(FORMAT, "entry size exceeds 64 bits", at as u64));
        }
        size |= bits << shift;
        more = byte & 0x80 != 0;
        shift += 7;
        at += 1;
    }
    let kind = match type_of(first) {
        1 => EntryKind::Object(Kind::Commit),
        2 => EntryKind::Object(Kind::Tree),
        3 => EntryKind::Object(Kind::Blob),
        4 => EntryKind::Object(Kind::Tag),
        OFS_DELTA => EntryKind::OfsDelta { distance: parse_distance(bytes, &mut at)? },
        REF_DELTA => {
            let end = at + hash.len_in_bytes();
            let base = bytes.get(at..end).ok_or_else(|| cut_off(bytes.len()))?;
            at = end;
            EntryKind::RefDelta { base: oid::from_bytes_unchecked(base).to_owned() }
        }
        _ => return Err(Error::new(FORMAT, "entry has no valid type", 0)),
    };
    Ok(EntryHeader { kind, size, length: at })
}

/// Whether an entry that begins with this byte is a delta that names its base by id.
pub fn names_its_base(first: u8) -> bool {
    type_of(first) == REF_DELTA
}

/// Whether an entry that begins with this byte is a delta.
pub fn is_delta(first: u8) -> bool {
    matches!(type_of(first), OFS_DELTA | REF_DELTA)
}

fn type_of(first: u8) -> u8 {
    first >> 4 & 7
}

/// Appends the header of an entry whose content (or delta) has `size` bytes.
pub fn write_entry_header(kind: EntryKind, size: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(EntryHeaderBytes::new(kind, size).as_slice());
}

/// The encoded header of an entry, without an allocation.
#[derive(Debug, Clone, Copy)]
pub struct EntryHeaderBytes {
    bytes: [u8; MAX_ENTRY_HEADER_BYTES],
    length: u8,
}

impl EntryHeaderBytes {
    /// The header of an entry whose content (or delta) has `size` bytes.
    pub fn new(kind: EntryKind, size: u64) -> Self {
        let number = match kind {
            EntryKind::Object(kind) => kind as u8,
            EntryKind::OfsDelta { .. } => 6,
            EntryKind::RefDelta { .. } => 7,
        };
        let mut header = EntryHeaderBytes { bytes: [0; MAX_ENTRY_HEADER_BYTES], length: 0 };
        let mut byte = number << 4 | (size & 0x0f) as u8;
        let mut rest = size >> 4;
        while rest > 0 {
            header.push(byte | 0x80);
            byte = (rest & 0x7f) as u8;
            rest >>= 7;
        }
        header.push(byte);
        match kind {
            EntryKind::Object(_) => {}
            EntryKind::OfsDelta { distance } => header.push_distance(distance),
            EntryKind::RefDelta { base } => base.as_slice().iter().for_each(|byte| header.push(*byte)),
        }
        header
    }

    /// The header's bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn push(&mut self, byte: u8) {
        self.bytes[usize::from(self.length)] = byte;
        self.length += 1;
    }

    fn push_distance(&mut self, distance: u64) {
        let mut reversed = [0; 10];
        let mut length = 0;
        let mut rest = distance;
        loop {
            let more = if length == 0 { 0 } else { 0x80 };
            reversed[length] = (rest & 0x7f) as u8 | more;
            length += 1;
            rest >>= 7;
            if rest == 0 {
                break;
            }
            rest -= 1;
        }
        reversed[..length].iter().rev().for_each(|byte| self.push(*byte));
    }
}

/// Most significant seven bits first; every continuation adds one, so that each distance has one encoding.
#[inline]
fn parse_distance(bytes: &[u8], at: &mut usize) -> Result<u64, Error> {
    let mut distance = 0u64;
    loop {
        let byte =
            *bytes.get(*at).ok_or_else(|| Error::new(FORMAT, "entry header is cut off", *at as u64))?;
        // Room for the shift and the addition that may follow.
        if distance >> 56 != 0 {
            return Err(Error::new(FORMAT, "delta distance exceeds 63 bits", *at as u64));
        }
        distance = distance << 7 | u64::from(byte & 0x7f);
        *at += 1;
        if byte & 0x80 == 0 {
            break;
        }
        distance += 1;
    }
    if distance == 0 {
        return Err(Error::new(FORMAT, "delta is its own base", *at as u64 - 1));
    }
    Ok(distance)
}
