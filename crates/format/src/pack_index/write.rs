//! Makes an index, byte for byte like git; the parent module has the layout.

use packrace_object::{HashKind, ObjectId, oid};

use super::{LARGE, V2_HEADER_BYTES, V2_MAGIC};
use crate::checksum;
use crate::id_table::{FANOUT_BYTES, write_fanout};

/// An entry of the pack, as the index describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The id of the object.
    pub id: ObjectId,
    /// The CRC-32 of the entry's bytes in the pack, header included.
    pub crc32: u32,
    /// The offset of the entry in the pack.
    pub offset: u64,
}

/// The version of the index to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Without CRC-32s, for packs below 4 GiB.
    V1,
    /// With CRC-32s. Offsets above `large_above`, and all from 2³¹ on, go to the large table.
    V2 {
        /// 2³¹ − 1, except in tests: `--index-version=2,<offset>`.
        large_above: u32,
    },
}

impl Default for Version {
    fn default() -> Self {
        Version::V2 { large_above: LARGE - 1 }
    }
}

/// Why the entries do not fit into the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackIndexWriteError {
    /// Offsets of version 1 have 32 bits.
    #[error("pack too large for an index of version 1: an object begins at byte {0}")]
    OffsetBeyondVersion1(u64),
    /// Row numbers have 31 bits.
    #[error("more than 2147483648 objects have a large offset")]
    TooManyLargeOffsets,
}

/// Makes the file. `entries` are sorted by id, as by [`sort`], and at most 2³² − 1, which a pack's header
/// ensures; all ids use the hash `hash`. Takes only the memory of the file.
pub fn write(
    entries: &[Entry],
    hash: HashKind,
    pack_checksum: &oid,
    version: Version,
) -> Result<Vec<u8>, PackIndexWriteError> {
    assert!(entries.is_sorted_by(|a, b| a.id <= b.id), "entries are not sorted");
    assert!(pack_checksum.kind() == hash && entries.iter().all(|entry| entry.id.kind() == hash));
    let mut out = match version {
        Version::V1 => tables_v1(entries, hash)?,
        Version::V2 { large_above } => tables_v2(entries, hash, large_above)?,
    };
    out.extend_from_slice(pack_checksum.as_bytes());
    checksum::append(&mut out, hash);
    Ok(out)
}

/// Sorts entries by id and, if a pack has an object twice, by offset.
pub fn sort(entries: &mut [Entry]) {
    // The first bytes of ids nearly always differ, and comparing them takes no call.
    let first = |entry: &Entry| entry.id.as_slice().first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    let whole = |a: &Entry, b: &Entry| a.id.cmp(&b.id).then(a.offset.cmp(&b.offset));
    entries.sort_unstable_by(|a, b| first(a).cmp(&first(b)).then_with(|| whole(a, b)));
}

fn tables_v1(entries: &[Entry], hash: HashKind) -> Result<Vec<u8>, PackIndexWriteError> {
    let id_bytes = hash.len_in_bytes();
    let mut out = Vec::with_capacity(FANOUT_BYTES + entries.len() * (4 + id_bytes) + 2 * id_bytes);
    write_fanout(&mut out, entries.iter().map(|entry| entry.id.first_byte()));
    for entry in entries {
        let offset = u32::try_from(entry.offset)
            .map_err(|_| PackIndexWriteError::OffsetBeyondVersion1(entry.offset))?;
        out.extend_from_slice(&offset.to_be_bytes());
        out.extend_from_slice(entry.id.as_slice());
    }
    Ok(out)
}

fn tables_v2(entries: &[Entry], hash: HashKind, large_above: u32) -> Result<Vec<u8>, PackIndexWriteError> {
    let is_large = |offset: u64| offset > u64::from(large_above.min(LARGE - 1));
    let large = entries.iter().filter(|entry| is_large(entry.offset)).count();
    if large > LARGE as usize {
        return Err(PackIndexWriteError::TooManyLargeOffsets);
    }
    let id_bytes = hash.len_in_bytes();
    let tables = entries.len() * (id_bytes + 8) + large * 8;
    let mut out = Vec::with_capacity(V2_HEADER_BYTES + FANOUT_BYTES + tables + 2 * id_bytes);
    out.extend_from_slice(&V2_MAGIC);
    out.extend_from_slice(&2u32.to_be_bytes());
    write_fanout(&mut out, entries.iter().map(|entry| entry.id.first_byte()));
    entries.iter().for_each(|entry| out.extend_from_slice(entry.id.as_slice()));
    entries.iter().for_each(|entry| out.extend_from_slice(&entry.crc32.to_be_bytes()));
    let mut row = 0;
    for entry in entries {
        let word = if is_large(entry.offset) {
            row += 1;
            // Below 2³¹, because the number of rows was checked.
            LARGE | (row - 1)
        } else {
            entry.offset as u32
        };
        out.extend_from_slice(&word.to_be_bytes());
    }
    let offsets = entries.iter().map(|entry| entry.offset).filter(|offset| is_large(*offset));
    offsets.for_each(|offset| out.extend_from_slice(&offset.to_be_bytes()));
    Ok(out)
}
