//! Reverse indexes, from pack order to index order (gitformat-pack, "pack-*.rev files").
//!
//! ```text
//! "RIDX" | version: u32 (1) | hash: u32 (1 SHA-1, 2 SHA-256)
//! index position: u32 × n, sorted by offset in the pack
//! checksum of the pack
//! checksum of all of the above
//! ```
//!
//! A pack position counts the entries of a pack from its start, from 0; bit n of a pack's bitmaps is the
//! object at pack position n.

use std::ops::Range;

use packrace_object::{HashKind, oid};

use crate::id_table::partition_point;
use crate::pack_index::{self, PackIndex};
use crate::{Error, be, checksum};

const FORMAT: &str = "rev";
const SIGNATURE: &[u8; 4] = b"RIDX";
const HEADER_BYTES: usize = 12;

/// The index positions of a pack's entries in pack order, from a `.rev` or computed.
#[derive(Debug, Clone)]
pub struct ReverseIndex<D> {
    source: PositionSource<D>,
    len: u32,
}

#[derive(Debug, Clone)]
enum PositionSource<D> {
    /// Every position in the table is below `len`.
    File(D),
    Computed(Vec<u32>),
}

impl<D: AsRef<[u8]>> ReverseIndex<D> {
    /// Reads the `.rev` of the pack of `index`. Checks once that every position (4 bytes per object) is in
    /// the index; checks neither order nor checksum.
    pub fn open<I: AsRef<[u8]>>(data: D, index: &PackIndex<I>) -> Result<Self, Error> {
        let (bytes, hash, len) = (data.as_ref(), index.hash_kind(), index.len());
        let id_bytes = hash.len_in_bytes();
        let expected = (HEADER_BYTES + 2 * id_bytes) as u64 + u64::from(len) * 4;
        if bytes.len() as u64 != expected {
            return Err(Error::new(FORMAT, "file is not as long as the index says", bytes.len() as u64));
        }
        if &bytes[..4] != SIGNATURE {
            return Err(Error::new(FORMAT, "signature is not RIDX", 0));
        }
        if be::u32_at(bytes, 4) != 1 {
            return Err(Error::new(FORMAT, "version is not 1", 4));
        }
        if be::u32_at(bytes, 8) != u32::from(checksum::hash_number(hash)) {
            return Err(Error::new(FORMAT, "made for another hash", 8));
        }
        let table_end = HEADER_BYTES + len as usize * 4;
        check_positions(FORMAT, &bytes[HEADER_BYTES..table_end], HEADER_BYTES, 0..len)?;
        if bytes[table_end..table_end + id_bytes] != *index.pack_checksum().as_slice() {
            return Err(Error::new(FORMAT, "made for another pack", table_end as u64));
        }
        Ok(ReverseIndex { source: PositionSource::File(data), len })
    }

    /// The bytes of the file; `None` if it was computed.
    pub fn file(&self) -> Option<&D> {
        match &self.source {
            PositionSource::File(data) => Some(data),
            PositionSource::Computed(_) => None,
        }
    }

    /// Sorts the offsets of `index`; takes 16 bytes per object while sorting, and keeps 4.
    pub fn compute<I: AsRef<[u8]>>(index: &PackIndex<I>) -> Self {
        let len = index.len();
        let positions = sorted_by_offset((0..len).map(|position| index.offset_at(position)));
        ReverseIndex { source: PositionSource::Computed(positions), len }
    }

    /// The number of objects.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The index position, below [`Self::len`], of the object at a pack position, which must be below it,
    /// too.
    #[inline]
    pub fn index_position_at(&self, pack_position: u32) -> u32 {
        assert!(pack_position < self.len, "pack position {pack_position} of {}", self.len);
        match &self.source {
            PositionSource::File(data) => {
                be::u32_at(data.as_ref(), HEADER_BYTES + pack_position as usize * 4)
            }
            PositionSource::Computed(positions) => positions[pack_position as usize],
        }
    }

    /// The pack position of the entry that begins exactly at `offset`. Looks up about log₂ n offsets in
    /// `index`, which must be the one passed to the constructor.
    #[inline]
    pub fn pack_position_of_offset<I: AsRef<[u8]>>(&self, index: &PackIndex<I>, offset: u64) -> Option<u32> {
        let offset_at = |pack_position| index.offset_at(self.index_position_at(pack_position));
        let found = partition_point(0..self.len, |pack_position| offset_at(pack_position) < offset);
        (found < self.len && offset_at(found) == offset).then_some(found)
    }

    /// Hashes the whole file and compares the hash with its checksum; a computed index is always correct.
    pub fn verify_checksum(&self, hash: HashKind) -> Result<(), Error> {
        match &self.source {
            PositionSource::File(data) => checksum::verify(FORMAT, data.as_ref(), hash),
            PositionSource::Computed(_) => Ok(()),
        }
    }
}

/// Makes the `.rev` file of the pack with these entries, which are in index order. Takes the memory of the
/// file twice and, while sorting, 16 bytes per object.
pub fn write(entries: &[pack_index::Entry], hash: HashKind, pack_checksum: &oid) -> Vec<u8> {
    assert_eq!(pack_checksum.kind(), hash);
    let positions = sorted_by_offset(entries.iter().map(|entry| entry.offset));
    let table: Vec<u8> = positions.iter().flat_map(|position| position.to_be_bytes()).collect();
    write_table(&table, pack_checksum)
}

/// Makes the file of a table, of a pack or of a multi-pack-index (gitformat-pack, "multi-pack-index reverse indexes").
pub(crate) fn write_table(table: &[u8], checksum_of_source: &oid) -> Vec<u8> {
    let hash = checksum_of_source.kind();
    let mut out = Vec::with_capacity(HEADER_BYTES + table.len() + 2 * hash.len_in_bytes());
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&1u32.to_be_bytes());
    out.extend_from_slice(&u32::from(checksum::hash_number(hash)).to_be_bytes());
    out.extend_from_slice(table);
    out.extend_from_slice(checksum_of_source.as_bytes());
    checksum::append(&mut out, hash);
    out
}

/// The positions of `offsets`, at most 2³² − 1 of them, in the order of the offsets.
fn sorted_by_offset(offsets: impl Iterator<Item = u64>) -> Vec<u32> {
    let mut by_offset: Vec<(u64, u32)> = offsets.zip(0..).collect();
    by_offset.sort_unstable();
    by_offset.into_iter().map(|(_, position)| position).collect()
}

/// Checks that every number of `table`, which is at `at`, is expected.
pub(crate) fn check_positions(
    format: &'static str,
    table: &[u8],
    at: usize,
    expected: Range<u32>,
) -> Result<(), Error> {
    // Minimum and maximum first, which the compiler vectorizes; the position matters only for the error.
    let numbers = || table.chunks_exact(4).map(|number| be::u32_at(number, 0));
    let bounds = numbers().fold((u32::MAX, 0), |(low, high), number| (low.min(number), high.max(number)));
    if table.is_empty() || (expected.contains(&bounds.0) && expected.contains(&bounds.1)) {
        return Ok(());
    }
    let bad = numbers().position(|number| !expected.contains(&number)).unwrap_or(0);
    Err(Error::new(format, "position is beyond the index", (at + bad * 4) as u64))
}

#[cfg(test)]
mod tests;
