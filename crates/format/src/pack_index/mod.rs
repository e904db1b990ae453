//! Pack indexes, from an object's id to its offset in the pack (gitformat-pack, "pack-*.idx files").
//!
//! ```text
//! version 1                               version 2
//! fan-out: u32 × 256                      ff 't' 'O' 'c' | 2: u32
//! (offset: u32, id) × n, sorted by id     fan-out: u32 × 256
//! checksum of the pack                    id × n, sorted
//! checksum of all of the above            crc32 of the entry: u32 × n
//!                                         offset: u32 × n     first bit set: row of the next table
//!                                         large offset: u64 × m, m ≤ n
//!                                         checksum of the pack
//!                                         checksum of all of the above
//! ```
//!
//! All numbers are big-endian; the last count of the fan-out is n. The length of the file gives m.

use std::ops::Range;

use packrace_object::{HashKind, ObjectId, oid};

pub use crate::id_table::FANOUT_BYTES;
use crate::id_table::{IdTable, check_fanout};
use crate::{Error, be, checksum};

mod write;

pub use write::{Entry, PackIndexWriteError, Version, sort, write};

const FORMAT: &str = "idx";
/// The first bytes of version 2 and every later version.
pub const V2_MAGIC: [u8; 4] = [0xff, b't', b'O', b'c'];
const V2_HEADER_BYTES: usize = 8;
const LARGE: u32 = 1 << 31;

/// A view of an index. Positions number the objects in the order of ids, from 0. Passing one that is not
/// below [`PackIndex::len`] is an error of the caller and panics.
#[derive(Debug, Clone)]
pub struct PackIndex<D> {
    data: D,
    hash: HashKind,
    ids: IdTable,
    tables: Tables,
}

#[derive(Debug, Clone, Copy)]
enum Tables {
    V1 { entries_at: usize, stride: usize },
    V2 { crcs_at: usize, offsets_at: usize, large_at: usize, large: u32 },
}

impl<D: AsRef<[u8]>> PackIndex<D> {
    /// Checks the header, the fan-out, and that the tables fill the file exactly. Checks neither the order of
    /// ids nor the checksum: a look-up in a damaged file may miss, but never fails otherwise.
    pub fn open(data: D, hash: HashKind) -> Result<Self, Error> {
        let bytes = data.as_ref();
        let (ids, tables) =
            if bytes.starts_with(&V2_MAGIC) { layout_v2(bytes, hash)? } else { layout_v1(bytes, hash)? };
        Ok(PackIndex { data, hash, ids, tables })
    }

    /// An index without objects.
    pub fn empty(hash: HashKind) -> Self
    where
        D: From<Vec<u8>>,
    {
        let bytes = vec![0; FANOUT_BYTES + 2 * hash.len_in_bytes()];
        PackIndex::open(D::from(bytes), hash).expect("a whole index of version 1")
    }

    /// All bytes of the file.
    pub fn data(&self) -> &D {
        &self.data
    }

    /// The number of objects.
    #[inline]
    pub fn len(&self) -> u32 {
        self.ids.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The hash of ids and checksums.
    pub fn hash_kind(&self) -> HashKind {
        self.hash
    }

    /// The position of an object, if the pack has it.
    #[inline]
    pub fn position_of(&self, id: &oid) -> Option<u32> {
        self.ids.position_of(self.data.as_ref(), id)
    }

    /// The positions of all objects whose ids begin with the first `hex_len` hex digits of `prefix`.
    pub fn range_of_prefix(&self, prefix: &oid, hex_len: usize) -> Range<u32> {
        self.ids.range_of_prefix(self.data.as_ref(), prefix, hex_len)
    }

    /// The id of an object.
    #[inline]
    pub fn id_at(&self, position: u32) -> &oid {
        self.ids.id_at(self.data.as_ref(), position)
    }

    /// The offset of the object's entry in the pack; callers compare it with the pack's length. An entry that
    /// points to a missing row of large offsets gives `u64::MAX`, which is beyond every pack.
    #[inline]
    pub fn offset_at(&self, position: u32) -> u64 {
        assert!(position < self.len(), "position {position} of {} objects", self.len());
        let bytes = self.data.as_ref();
        match self.tables {
            Tables::V1 { entries_at, stride } => {
                u64::from(be::u32_at(bytes, entries_at + position as usize * stride))
            }
            Tables::V2 { offsets_at, large_at, large, .. } => {
                let offset = be::u32_at(bytes, offsets_at + position as usize * 4);
                match offset & !LARGE {
                    _ if offset & LARGE == 0 => u64::from(offset),
                    row if row < large => be::u64_at(bytes, large_at + row as usize * 8),
                    _ => u64::MAX,
                }
            }
        }
    }

    /// The CRC-32 of the entry's bytes in the pack, header included; version 1 has none.
    pub fn crc32_at(&self, position: u32) -> Option<u32> {
        assert!(position < self.len(), "position {position} of {} objects", self.len());
        match self.tables {
            Tables::V1 { .. } => None,
            Tables::V2 { crcs_at, .. } => {
                Some(be::u32_at(self.data.as_ref(), crcs_at + position as usize * 4))
            }
        }
    }

    /// The checksum at the end of the pack.
    pub fn pack_checksum(&self) -> ObjectId {
        let bytes = self.data.as_ref();
        checksum::trailer(&bytes[..bytes.len() - self.hash.len_in_bytes()], self.hash)
    }

    /// The checksum of this file.
    pub fn checksum(&self) -> ObjectId {
        checksum::trailer(self.data.as_ref(), self.hash)
    }

    /// Hashes the whole file and compares the hash with its checksum.
    pub fn verify_checksum(&self) -> Result<(), Error> {
        checksum::verify(FORMAT, self.data.as_ref(), self.hash)
    }
}

fn layout_v1(bytes: &[u8], hash: HashKind) -> Result<(IdTable, Tables), Error> {
    let len = check_fanout(FORMAT, bytes, 0)?;
    let stride = 4 + hash.len_in_bytes();
    let expected = (FANOUT_BYTES + 2 * hash.len_in_bytes()) as u64 + u64::from(len) * stride as u64;
    if bytes.len() as u64 != expected {
        return Err(Error::new(FORMAT, "file is not as long as its fan-out says", bytes.len() as u64));
    }
    let ids = IdTable::new(0, FANOUT_BYTES + 4, stride, hash, len);
    Ok((ids, Tables::V1 { entries_at: FANOUT_BYTES, stride }))
}

fn layout_v2(bytes: &[u8], hash: HashKind) -> Result<(IdTable, Tables), Error> {
    if bytes.len() < V2_HEADER_BYTES || be::u32_at(bytes, 4) != 2 {
        return Err(Error::new(FORMAT, "version is not 2", 4));
    }
    let len = check_fanout(FORMAT, bytes, V2_HEADER_BYTES)?;
    let id_bytes = hash.len_in_bytes();
    let ids_at = V2_HEADER_BYTES + FANOUT_BYTES;
    let smallest = (ids_at + 2 * id_bytes) as u64 + u64::from(len) * (id_bytes as u64 + 8);
    let large_bytes = (bytes.len() as u64).checked_sub(smallest);
    let Some(large) = large_bytes.filter(|rest| rest % 8 == 0 && rest / 8 <= u64::from(len)) else {
        return Err(Error::new(FORMAT, "file is not as long as its fan-out says", bytes.len() as u64));
    };
    // Nothing can overflow from here on: every table is within the file.
    let crcs_at = ids_at + len as usize * id_bytes;
    let offsets_at = crcs_at + len as usize * 4;
    let large_at = offsets_at + len as usize * 4;
    let ids = IdTable::new(V2_HEADER_BYTES, ids_at, id_bytes, hash, len);
    Ok((ids, Tables::V2 { crcs_at, offsets_at, large_at, large: (large / 8) as u32 }))
}

#[cfg(test)]
mod tests;
