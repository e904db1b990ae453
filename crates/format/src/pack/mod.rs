//! Packs (gitformat-pack, "pack-*.pack files have the following format").
//!
//! ```text
//! "PACK" | version: u32 (2 or 3) | objects: u32
//! entry × objects:
//!   header: 1 type(3) size(4) | 1 size(7) … 0 size(7)      least significant bits first; first bit: more follows
//!   OFS_DELTA: distance, most significant bits first | REF_DELTA: id of the base
//!   zlib stream of the content or of the delta
//! checksum of all of the above
//! ```
//!
//! All numbers are big-endian. An entry does not state its length in the pack; the index does, by the next
//! offset.

pub mod delta;
mod delta_encode;
mod delta_invert;
mod delta_writer;
mod entry;

pub use delta_encode::DeltaIndex;
pub use delta_invert::invert;
pub use entry::{
    EntryHeader, EntryHeaderBytes, EntryKind, MAX_ENTRY_HEADER_BYTES, is_delta, names_its_base,
    parse_entry_header, write_entry_header,
};

use crate::{Error, be};

const FORMAT: &str = "pack";
const SIGNATURE: &[u8; 4] = b"PACK";

/// The bytes before the first entry.
pub const HEADER_BYTES: usize = 12;

/// The header of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// 2, or 3, which has never differed from 2 in practice.
    pub version: u32,
    /// The number of entries.
    pub objects: u32,
}

/// Why bytes are not the header of a readable pack; commands have their own messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadHeader {
    /// The bytes do not begin with `PACK`.
    Signature,
    /// An unknown version.
    Version(u32),
}

impl Header {
    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let Some(bytes) = bytes.first_chunk() else {
            return Err(Error::new(FORMAT, "header is cut off", bytes.len() as u64));
        };
        Header::read(bytes).map_err(|bad| match bad {
            BadHeader::Signature => Error::new(FORMAT, "signature is not PACK", 0),
            BadHeader::Version(_) => Error::new(FORMAT, "version is neither 2 nor 3", 4),
        })
    }

    /// Reads a complete header.
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Result<Self, BadHeader> {
        if &bytes[..4] != SIGNATURE {
            return Err(BadHeader::Signature);
        }
        match be::u32_at(bytes, 4) {
            version @ (2 | 3) => Ok(Header { version, objects: be::u32_at(bytes, 8) }),
            version => Err(BadHeader::Version(version)),
        }
    }
}

/// Appends the header of a pack of version 2 with `objects` entries.
pub fn write_header(objects: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&2u32.to_be_bytes());
    out.extend_from_slice(&objects.to_be_bytes());
}

#[cfg(test)]
mod tests;
