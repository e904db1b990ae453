//! Reachability bitmaps of a pack or a multi-pack-index (gitformat-bitmap).
//!
//! ```text
//! "BITM" | version: u16 (1) | flags: u16 | entries: u32 | checksum of the pack or multi-pack-index
//! compressed bitmaps of commits, trees, blobs and tags
//! (commit: u32, xor: u8, flags: u8, compressed bitmap) × entries
//! pseudo-merges (module `pseudo_merges`)                   flag 0x20; its length is its last number
//! (commit: u32, offset: u64, xor row: u32) × entries      flag 0x10: lookup table, sorted by commit
//! name hash: u32 × objects                                flag 0x04, in the order of the index (in a chain:
//!                                                          of the objects of this file of it)
//! checksum of all of the above
//! ```
//!
//! Bit n of a bitmap is the object at pack position n, or at bit n of a multi-pack-index. Commits are
//! identified by their index position. The bitmap of a commit is what it reaches, including itself; an entry
//! with an xor is stored as the difference from the bitmap of an earlier entry. In a chain of
//! multi-pack-indexes, bits and positions count from its lowest file; the bitmaps of kinds have only objects of
//! their own file, those of commits everything.

mod bits;
mod encode;
mod ewah;
mod pseudo_merges;
mod rows;
mod write;

pub use bits::{Bits, Ones};
pub use encode::EwahBuf;
pub use ewah::Ewah;
pub use pseudo_merges::PseudoMerge;
pub use write::BitmapWriter;

use std::ops::Range;

use packrace_object::{HashKind, Kind, ObjectId, oid};

use crate::{Error, be, checksum};
use pseudo_merges::PseudoMerges;
use rows::{NO_XOR, ROW_BYTES, Rows};

const FORMAT: &str = "bitmap";
const SIGNATURE: &[u8; 4] = b"BITM";
const HEADER_BYTES: usize = 12;

const FULL_DAG: u16 = 0x1;
const HASH_CACHE: u16 = 0x4;
const LOOKUP_TABLE: u16 = 0x10;
const PSEUDO_MERGES: u16 = 0x20;

/// A view of a bitmap file; after an error from any method the file is damaged: walk instead.
#[derive(Debug, Clone)]
pub struct BitmapIndex<D> {
    data: D,
    hash: HashKind,
    /// The number of objects in the files below this one of a chain.
    base: u32,
    /// The number of objects, with those of `base`.
    objects: u32,
    /// The offset of the compressed bitmap of each kind.
    types_at: [usize; 4],
    /// All entries end before this.
    entries_end: usize,
    rows: Rows,
    pseudo_merges: PseudoMerges,
    name_hashes_at: Option<usize>,
}

impl<D: AsRef<[u8]>> BitmapIndex<D> {
    /// Opens the bitmap of a pack or multi-pack-index with `objects` objects; the caller must compare
    /// [`Self::owner_checksum`] with that file's checksum.
    ///
    /// Checks the header and the bounds of all sections. Without a lookup table, also steps over all entries
    /// (not into their words) and keeps 16 bytes per entry; with a lookup table, reads no entry and no
    /// pseudo-merge.
    pub fn open(data: D, objects: u32, hash: HashKind) -> Result<Self, Error> {
        Self::open_layer(data, 0..objects, hash)
    }

    /// As above, for a file of a chain of multi-pack-indexes, which has these positions of the chain.
    pub fn open_layer(data: D, positions: Range<u32>, hash: HashKind) -> Result<Self, Error> {
        let (base, objects) = (positions.start, positions.end);
        let bytes = data.as_ref();
        let (flags, entries) = parse_header(bytes, hash)?;
        let mut end = bytes.len() - hash.len_in_bytes();
        let mut section = |length: u64| {
            let start = (end as u64).checked_sub(length).filter(|start| *start >= HEADER_BYTES as u64);
            end = start.ok_or_else(|| Error::new(FORMAT, "sections exceed the file", end as u64))? as usize;
            Ok::<usize, Error>(end)
        };
        let has = |flag| flags & flag != 0;
        let name_hashes_at = has(HASH_CACHE).then(|| section(u64::from(objects - base) * 4)).transpose()?;
        let table_at =
            has(LOOKUP_TABLE).then(|| section(u64::from(entries) * ROW_BYTES as u64)).transpose()?;
        let mut pseudo_merges = PseudoMerges::default();
        if has(PSEUDO_MERGES) {
            let length_at = section(8)?;
            let rest = be::u64_at(bytes, length_at).checked_sub(8);
            let start = section(
                rest.ok_or_else(|| Error::new(FORMAT, "pseudo-merges have no length", length_at as u64))?,
            )?;
            pseudo_merges = PseudoMerges::open(bytes, start..length_at + 8)?;
        }
        let mut types_at = [0; 4];
        let mut at = HEADER_BYTES + hash.len_in_bytes();
        for type_at in &mut types_at {
            *type_at = at;
            (_, at) = Ewah::parse(bytes, at, end.max(at))?;
        }
        let rows = match table_at {
            Some(table_at) => Rows::Table { at: table_at, len: entries },
            None => Rows::index(bytes, at, end, entries, objects)?,
        };
        Ok(BitmapIndex {
            data,
            hash,
            base,
            objects,
            types_at,
            entries_end: end,
            rows,
            pseudo_merges,
            name_hashes_at,
        })
    }

    /// The number of objects, each with a bit; with those of the files below this one.
    pub fn objects(&self) -> u32 {
        self.objects
    }

    /// The number of commits with a bitmap.
    pub fn len(&self) -> u32 {
        self.rows.len()
    }

    /// Whether no commit has a bitmap.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The checksum of the pack or multi-pack-index that the bitmaps belong to.
    pub fn owner_checksum(&self) -> ObjectId {
        let bytes = &self.data.as_ref()[HEADER_BYTES..HEADER_BYTES + self.hash.len_in_bytes()];
        oid::from_bytes_unchecked(bytes).to_owned()
    }

    /// The objects of this kind, compressed.
    pub fn type_ewah(&self, kind: Kind) -> Ewah<'_> {
        let at = self.types_at[kind as usize - 1];
        let (set, _) = Ewah::parse(self.data.as_ref(), at, self.entries_end).expect("parsed when opened");
        set
    }

    /// The objects of this kind.
    pub fn type_bitmap(&self, kind: Kind) -> Result<Bits, Error> {
        self.type_ewah(kind).to_bits(self.objects)
    }

    /// The index positions of the commits that have a bitmap, ascending.
    pub fn commit_positions(&self) -> impl ExactSizeIterator<Item = u32> {
        (0..self.rows.len() as usize).map(|row| self.rows.position(self.data.as_ref(), row))
    }

    /// Whether the commit at this index position has a bitmap.
    pub fn has_bitmap_of(&self, index_position: u32) -> bool {
        self.rows.find(self.data.as_ref(), index_position).is_some()
    }

    /// What the commit at this index position reaches; `None` if it has no bitmap.
    ///
    /// Costs one pass over the compressed words of the entry and of every entry in its xor chain. The chain
    /// can be as long as there are entries; it always leads towards the start of the file, so it ends.
    pub fn bitmap_of(&self, index_position: u32) -> Option<Result<Bits, Error>> {
        let row = self.rows.find(self.data.as_ref(), index_position)?;
        let mut bits = Bits::new(self.objects);
        Some(self.xor_chain_into(row, &mut bits).map(|()| bits))
    }

    /// Adds what the commit at this index position reaches to `bits`, which may be longer; `None` if it has no
    /// bitmap. Cheaper than [`Self::bitmap_of`] if the entry is stored whole. After an error, `bits` may contain part of it.
    pub fn or_bitmap_into(&self, index_position: u32, bits: &mut Bits) -> Option<Result<(), Error>> {
        let row = self.rows.find(self.data.as_ref(), index_position)?;
        let result = self.entry(row, u64::MAX).and_then(|entry| {
            if entry.xor_row == NO_XOR {
                return entry.words.or_into(bits);
            }
            let mut whole = Bits::new(bits.len());
            self.xor_chain_into(row, &mut whole)?;
            bits.or_with(&whole);
            Ok(())
        });
        Some(result)
    }

    /// Groups of commits, each with a stored bitmap of what they reach together.
    pub fn pseudo_merges(&self) -> impl Iterator<Item = Result<PseudoMerge<'_>, Error>> {
        let bytes = self.data.as_ref();
        (0..self.pseudo_merges.len()).map(|number| self.pseudo_merges.get(bytes, number))
    }

    /// The hash of a path of the object at this index position (git's name hash, version 1); `None` if the
    /// file has no hashes, or the object is in a file below.
    #[inline]
    pub fn name_hash_at(&self, index_position: u32) -> Option<u32> {
        assert!(index_position < self.objects, "position {index_position} of {} objects", self.objects);
        let row = index_position.checked_sub(self.base)? as usize;
        self.name_hashes_at.map(|at| be::u32_at(self.data.as_ref(), at + row * 4))
    }

    /// Hashes the whole file and compares the hash with its checksum; nothing else detects a flipped bit in a
    /// bitmap's words.
    pub fn verify_checksum(&self) -> Result<(), Error> {
        checksum::verify(FORMAT, self.data.as_ref(), self.hash)
    }

    fn xor_chain_into(&self, row: usize, bits: &mut Bits) -> Result<(), Error> {
        let mut row = row;
        let mut before = u64::MAX;
        loop {
            let entry = self.entry(row, before)?;
            entry.words.xor_into(bits)?;
            if entry.xor_row == NO_XOR {
                return Ok(());
            }
            before = entry.offset;
            row = entry.xor_row as usize;
        }
    }

    /// The entry of a row, which must begin before offset `before`.
    fn entry(&self, row: usize, before: u64) -> Result<BitmapEntry<'_>, Error> {
        let bytes = self.data.as_ref();
        if row >= self.rows.len() as usize {
            return Err(Error::new(FORMAT, "xor row is beyond the lookup table", 0));
        }
        let row = self.rows.row(bytes, row);
        let error = |what| Error::new(FORMAT, what, row.offset);
        if row.offset >= before {
            return Err(error("entry is a difference from a later one"));
        }
        let at = usize::try_from(row.offset).ok().filter(|at| *at >= HEADER_BYTES && *at < self.entries_end);
        let at = at.ok_or_else(|| error("entry is beyond the file"))?;
        let (head, words, _) = rows::parse_entry(bytes, at, self.entries_end)?;
        if head.position != row.position || (head.xor == 0) != (row.xor_row == NO_XOR) {
            return Err(error("entry is not the one of the lookup table"));
        }
        Ok(BitmapEntry { offset: row.offset, xor_row: row.xor_row, words })
    }
}

struct BitmapEntry<'a> {
    offset: u64,
    xor_row: u32,
    words: Ewah<'a>,
}

/// Reads the flags and the number of entries; checks that the file has room for the header and a trailer.
fn parse_header(bytes: &[u8], hash: HashKind) -> Result<(u16, u32), Error> {
    if bytes.len() < HEADER_BYTES + 2 * hash.len_in_bytes() {
        return Err(Error::new(FORMAT, "header is cut off", bytes.len() as u64));
    }
    if &bytes[..4] != SIGNATURE {
        return Err(Error::new(FORMAT, "signature is not BITM", 0));
    }
    if bytes[4..6] != [0, 1] {
        return Err(Error::new(FORMAT, "version is not 1", 4));
    }
    let flags = u16::from_be_bytes([bytes[6], bytes[7]]);
    if flags & FULL_DAG == 0 {
        return Err(Error::new(FORMAT, "bitmaps are not of whole histories", 6));
    }
    if flags & !(FULL_DAG | HASH_CACHE | LOOKUP_TABLE | PSEUDO_MERGES) != 0 {
        return Err(Error::new(FORMAT, "unknown flag", 6));
    }
    Ok((flags, be::u32_at(bytes, 8)))
}

#[cfg(test)]
mod tests;
