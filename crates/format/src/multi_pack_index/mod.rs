//! Multi-pack-indexes, one index for many packs (gitformat-pack, "multi-pack-index (MIDX) files").
//!
//! ```text
//! "MIDX" | version: u8 (1, 2) | hash: u8 | chunks: u8 | base files: u8 (0, even in a chain; not read) | packs: u32
//! table of chunks
//! PNAM  names of the packs' indexes, each ended by NUL; NULs to a multiple of 4
//! OIDF  fan-out: u32 × 256               OIDL  id × n, sorted
//! OOFF  (pack: u32, offset: u32) × n     LOFF  large offset: u64 × m
//! RIDX  position: u32 × n, in the order of bits
//! BTMP  (first bit: u32, bits: u32) × packs
//! checksum of all of the above
//! ```
//!
//! An object in several packs has one entry here, and one bit. Bits are ordered by pack, the preferred pack
//! first and the others by number, then by offset. A file in a chain ([`MultiPackIndexChain`]) counts positions in
//! RIDX, and first bits in BTMP, from those of the files below it.

use std::ops::Range;

use packrace_object::{HashKind, ObjectId, oid};

use crate::chunks::Chunks;
use crate::id_table::{FANOUT_BYTES, IdTable, check_fanout, partition_point};
use crate::reverse_index::{check_positions, write_table};
use crate::{Error, be, checksum};

mod chain;
mod write;

pub use chain::{MultiPackIndexChain, chain_file, parse_chain_file};
pub use write::{Base, CompactedBits, MidxWriteError, SourcePack, WriteOptions, compact, write};

const FORMAT: &str = "midx";
const SIGNATURE: &[u8; 4] = b"MIDX";
const HEADER_BYTES: usize = 12;
const LARGE: u32 = 1 << 31;

/// A view of a multi-pack-index. Positions number the objects in the order of ids, bits number them in the
/// order of bitmaps, both from 0. Passing one that is not below [`MultiPackIndex::len`] is an error of the
/// caller and panics.
#[derive(Debug, Clone)]
pub struct MultiPackIndex<D> {
    data: D,
    hash: HashKind,
    /// The number of objects in the files below this one of a chain.
    base: u32,
    pack_names: Vec<Range<usize>>,
    ids: IdTable,
    offsets_at: usize,
    large_at: usize,
    large: u32,
    /// Every position in the order of bits, less `base`, is below the number of ids.
    bit_order_at: Option<usize>,
    bitmapped_at: Option<usize>,
}

/// The bits that a pack has in the bitmaps of a multi-pack-index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitmappedPack {
    /// The pack's first bit, if it has any.
    pub first_bit: u32,
    /// The number of consecutive bits.
    pub bits: u32,
}

impl<D: AsRef<[u8]>> MultiPackIndex<D> {
    /// Checks the header, bounds and sizes of chunks, the fan-out, the packs' names, and that every position
    /// in the bit order exists (4 bytes per object).
    pub fn open(data: D, hash: HashKind) -> Result<Self, Error> {
        Self::open_layer(data, hash, 0)
    }

    /// As above, for a file of a chain; the files below it have `base` objects. Positions and bits begin at 0
    /// here, too.
    pub fn open_layer(data: D, hash: HashKind, base: u32) -> Result<Self, Error> {
        Self::parse(data, hash, base, false)
    }

    /// As [`Self::open`], to compare the file with its packs: what it says of bits is left out. A pack has an
    /// empty name here if its own is no name of a file.
    pub fn open_to_compare(data: D, hash: HashKind) -> Result<Self, Error> {
        Self::parse(data, hash, 0, true)
    }

    fn parse(data: D, hash: HashKind, base: u32, compares: bool) -> Result<Self, Error> {
        let bytes = data.as_ref();
        let (chunk_count, packs) = parse_header(bytes, hash)?;
        let chunks = Chunks::parse(FORMAT, bytes, HEADER_BYTES, chunk_count, hash)?;
        let pack_names = parse_names(bytes, chunks.require(b"PNAM")?, packs, compares)?;
        let fanout_at = chunks.require_rows(b"OIDF", 256, FANOUT_BYTES / 256)?;
        let len = check_fanout(FORMAT, bytes, fanout_at)?;
        let ids_at = chunks.require_rows(b"OIDL", len, hash.len_in_bytes())?;
        let offsets_at = chunks.require_rows(b"OOFF", len, 8)?;
        let (large_at, large) = chunks.table(b"LOFF", 8)?;
        let bit_order_at = if compares { None } else { chunks.find_rows(b"RIDX", len, 4)? };
        let end = base.checked_add(len);
        let end = end.ok_or_else(|| Error::new(FORMAT, "more than 4294967295 objects", fanout_at as u64))?;
        if let Some(at) = bit_order_at {
            check_positions(FORMAT, &bytes[at..at + len as usize * 4], at, base..end)?;
        }
        let bitmapped_at = if compares { None } else { chunks.find_rows(b"BTMP", packs, 8)? };
        let ids = IdTable::new(fanout_at, ids_at, hash.len_in_bytes(), hash, len);
        Ok(MultiPackIndex {
            data,
            hash,
            base,
            pack_names,
            ids,
            offsets_at,
            large_at,
            large,
            bit_order_at,
            bitmapped_at,
        })
    }

    /// The bytes of the file.
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

    /// The number of packs.
    pub fn pack_count(&self) -> u32 {
        self.pack_names.len() as u32
    }

    /// The names of the packs' indexes (`pack-….idx`), in the order of the packs' numbers; none has a slash.
    pub fn pack_names(&self) -> impl ExactSizeIterator<Item = &str> {
        let bytes = self.data.as_ref();
        self.pack_names
            .iter()
            .map(|range| str::from_utf8(&bytes[range.clone()]).expect("checked when opened"))
    }

    /// The names of the packs without ending, in the same order.
    pub fn pack_stems(&self) -> impl ExactSizeIterator<Item = &str> {
        self.pack_names().map(pack_stem)
    }

    /// Whether it finds each object at the same place in the same pack as another one.
    pub fn has_entries_of<O: AsRef<[u8]>>(&self, other: &MultiPackIndex<O>) -> bool {
        let entry = |position| Some((self.id_at(position), self.pack_and_offset_at(position)?));
        let same = |position| Some((other.id_at(position), other.pack_and_offset_at(position)?));
        self.len() == other.len()
            && self.pack_names().eq(other.pack_names())
            && (0..self.len()).all(|position| entry(position) == same(position))
    }

    /// The position of an object, if one of the packs has it.
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

    /// The number of the object's pack, below [`Self::pack_count`], and its entry's offset, which callers
    /// compare with the pack's length. `None` if the file is damaged and names a missing pack or row of large
    /// offsets.
    #[inline]
    pub fn pack_and_offset_at(&self, position: u32) -> Option<(u32, u64)> {
        assert!(position < self.len(), "position {position} of {} objects", self.len());
        let bytes = self.data.as_ref();
        let at = self.offsets_at + position as usize * 8;
        let pack = be::u32_at(bytes, at);
        if pack >= self.pack_count() {
            return None;
        }
        let offset = be::u32_at(bytes, at + 4);
        // Without a table of large offsets, all 32 bits count.
        if self.large == 0 || offset & LARGE == 0 {
            return Some((pack, u64::from(offset)));
        }
        let row = offset & !LARGE;
        (row < self.large).then(|| (pack, be::u64_at(bytes, self.large_at + row as usize * 8)))
    }

    /// The number of the object's pack. If the file is damaged, there may be no such pack.
    pub fn pack_at(&self, position: u32) -> u32 {
        assert!(position < self.len(), "position {position} of {} objects", self.len());
        be::u32_at(self.data.as_ref(), self.offsets_at + position as usize * 8)
    }

    /// Whether the file has an order of bits, which bitmaps need; without one, `position_at_bit` returns
    /// `None`.
    pub fn has_bit_order(&self) -> bool {
        self.bit_order_at.is_some()
    }

    /// The order of bits as a `.rev` file of its own, which git reads if it is told not to look into this one.
    pub fn reverse_file(&self) -> Option<Vec<u8>> {
        let at = self.bit_order_at?;
        let table = &self.data.as_ref()[at..at + self.len() as usize * 4];
        Some(write_table(table, &self.checksum()))
    }

    /// The position, below [`Self::len`], of the object of this bit.
    #[inline]
    pub fn position_at_bit(&self, bit: u32) -> Option<u32> {
        assert!(bit < self.len(), "bit {bit} of {} objects", self.len());
        be::u32_at(self.data.as_ref(), self.bit_order_at? + bit as usize * 4).checked_sub(self.base)
    }

    /// The bit of the object at `position`; reads about log₂ n positions. For many objects, a table made with
    /// [`Self::position_at_bit`] is cheaper.
    pub fn bit_of_position(&self, position: u32) -> Option<u32> {
        let preferred = self.preferred_pack()?;
        let place = |position| {
            let (pack, offset) = self.pack_and_offset_at(position)?;
            Some((pack != preferred, pack, offset))
        };
        let wanted = place(position)?;
        let bit =
            partition_point(0..self.len(), |bit| self.position_at_bit(bit).and_then(place) < Some(wanted));
        (bit < self.len() && self.position_at_bit(bit) == Some(position)).then_some(bit)
    }

    /// The pack whose objects come first in the order of bits; all its objects are taken from it.
    pub fn preferred_pack(&self) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let (pack, _) = self.pack_and_offset_at(self.position_at_bit(0)?)?;
        Some(pack)
    }

    /// The bits of the pack with this number; `None` if the file does not say, or gives bits beyond its
    /// objects.
    pub fn bitmapped_pack(&self, pack: u32) -> Option<BitmappedPack> {
        assert!(pack < self.pack_count(), "pack {pack} of {}", self.pack_count());
        let at = self.bitmapped_at? + pack as usize * 8;
        let bytes = self.data.as_ref();
        let (first_bit, bits) = (be::u32_at(bytes, at), be::u32_at(bytes, at + 4));
        // A pack without bits has no first one.
        let first_bit = if bits == 0 { 0 } else { first_bit.checked_sub(self.base)? };
        let found = BitmappedPack { first_bit, bits };
        let end = found.first_bit.checked_add(found.bits)?;
        (end <= self.len()).then_some(found)
    }

    /// The checksum of this file, which is in the names of its bitmap and reverse index.
    pub fn checksum(&self) -> ObjectId {
        checksum::trailer(self.data.as_ref(), self.hash)
    }

    /// Hashes the whole file and compares the hash with its checksum.
    pub fn verify_checksum(&self) -> Result<(), Error> {
        checksum::verify(FORMAT, self.data.as_ref(), self.hash)
    }
}

/// A pack's name without ending, from the name of its index or of itself.
pub fn pack_stem(name: &str) -> &str {
    name.strip_suffix(".idx").or_else(|| name.strip_suffix(".pack")).unwrap_or(name)
}

/// Reads the numbers of chunks and packs.
fn parse_header(bytes: &[u8], hash: HashKind) -> Result<(u8, u32), Error> {
    if bytes.len() < HEADER_BYTES {
        return Err(Error::new(FORMAT, "header is cut off", bytes.len() as u64));
    }
    if &bytes[..4] != SIGNATURE {
        return Err(Error::new(FORMAT, "signature is not MIDX", 0));
    }
    if !matches!(bytes[4], 1 | 2) {
        return Err(Error::new(FORMAT, "version is neither 1 nor 2", 4));
    }
    if bytes[5] != checksum::hash_number(hash) {
        return Err(Error::new(FORMAT, "made for another hash", 5));
    }
    Ok((bytes[6], be::u32_at(bytes, 8)))
}

fn parse_names(
    bytes: &[u8],
    chunk: Range<usize>,
    packs: u32,
    compares: bool,
) -> Result<Vec<Range<usize>>, Error> {
    let error = |what, at: usize| Error::new(FORMAT, what, at as u64);
    // A name and its NUL take at least two bytes, so the chunk justifies the allocation.
    if packs as usize > chunk.len() / 2 {
        return Err(error("more packs than names", chunk.start));
    }
    let mut names = Vec::with_capacity(packs as usize);
    let mut at = chunk.start;
    for _ in 0..packs {
        let length =
            memchr::memchr(0, &bytes[at..chunk.end]).ok_or_else(|| error("pack name does not end", at))?;
        let name = &bytes[at..at + length];
        let is_of_file = !name.is_empty() && !name.contains(&b'/') && str::from_utf8(name).is_ok();
        if !is_of_file && !compares {
            return Err(error("pack name is not a file name", at));
        }
        names.push(if is_of_file { at..at + length } else { at..at });
        at += length + 1;
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
