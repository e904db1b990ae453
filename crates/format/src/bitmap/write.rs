//! Writes a bitmap file; see [`super`] for the layout.

use std::collections::VecDeque;

use packrace_object::{HashKind, ObjectId};

use super::encode::{EwahBuf, difference, words_of_difference};
use super::pseudo_merges::WrittenMerges;
use super::rows::{NO_XOR, ROW_BYTES, parse_entry};
use super::{Bits, FULL_DAG, HASH_CACHE, LOOKUP_TABLE, PSEUDO_MERGES, SIGNATURE};
use crate::checksum;

/// How many earlier entries are tried as the base of a difference. The format allows 160; older entries are
/// hardly ever the best base, because neighbours in history are written one after another.
const TRIED: usize = 10;

/// The longest chain of differences: a reader merges all of it.
const MAX_CHAIN: u32 = 50;

/// Makes a bitmap file from the sets that commits reach.
///
/// Keeps the file written so far, and the last ten sets uncompressed.
#[derive(Debug)]
pub struct BitmapWriter {
    hash: HashKind,
    objects: u32,
    /// The file so far; the header's number of entries is set at the end.
    out: Vec<u8>,
    entries: Vec<WrittenBitmap>,
    recent: VecDeque<Recent>,
    merges: WrittenMerges,
}

#[derive(Debug)]
struct WrittenBitmap {
    index_position: u32,
    offset: u64,
    /// How many entries back the base of this difference is; 0 if the entry is stored whole.
    xor: u8,
}

/// An entry that can be the base of later differences.
#[derive(Debug)]
struct Recent {
    bits: Bits,
    chain: u32,
}

impl BitmapWriter {
    /// Begins the bitmaps of the pack or multi-pack-index with this checksum. `kinds` are the commits, trees,
    /// blobs and tags, in this order; each set has as many positions as there are objects. In a chain, it has
    /// positions for those of the files below, too, but none of them is set.
    pub fn new(hash: HashKind, owner_checksum: &ObjectId, kinds: &[Bits; 4]) -> Self {
        assert_eq!(owner_checksum.kind(), hash);
        let objects = kinds[0].len();
        let mut out = Vec::new();
        out.extend(SIGNATURE);
        out.extend(1u16.to_be_bytes());
        out.extend([0; 6]);
        out.extend(owner_checksum.as_slice());
        for kind in kinds {
            assert_eq!(kind.len(), objects, "sets of different lengths");
            EwahBuf::from_bits(kind).write(&mut out);
        }
        let (entries, recent, merges) = (Vec::new(), VecDeque::new(), WrittenMerges::default());
        BitmapWriter { hash, objects, out, entries, recent, merges }
    }

    /// The number of entries so far.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The length of the file so far.
    pub fn bytes(&self) -> usize {
        self.out.len()
    }

    /// Adds the set of an earlier entry to `bits`; costs as much as for a reader.
    pub fn or_entry_into(&self, entry: usize, bits: &mut Bits) {
        let back = self.entries.len() - 1 - entry;
        if let Some(recent) = self.recent.get(back) {
            return bits.or_with(&recent.bits);
        }
        let mut whole = Bits::new(self.objects);
        let mut entry = entry;
        loop {
            let WrittenBitmap { offset, xor, .. } = self.entries[entry];
            let (_, words, _) =
                parse_entry(&self.out, offset as usize, self.out.len()).expect("written here");
            words.xor_into(&mut whole).expect("written here");
            if xor == 0 {
                return bits.or_with(&whole);
            }
            entry -= usize::from(xor);
        }
    }

    /// Adds what the commit at this index position reaches. Push each commit once, and neighbours in history
    /// one after another, so that they become small differences.
    pub fn push(&mut self, index_position: u32, reached: Bits) {
        assert!(index_position < self.objects && reached.len() == self.objects);
        assert!(self.merges.is_empty(), "entries come before pseudo-merges");
        let mut best = EwahBuf::from_bits(&reached);
        let (mut xor, mut chain, mut words) = (0, 0, best.compressed_bytes() / 8);
        let mut best_base = None;
        for (back, base) in (1u8..).zip(&self.recent).filter(|(_, base)| base.chain < MAX_CHAIN) {
            if let Some(fewer) = words_of_difference(&reached, &base.bits, words) {
                (xor, chain, words) = (back, base.chain + 1, fewer);
                best_base = Some(base);
            }
        }
        if let Some(base) = best_base {
            best = difference(&reached, &base.bits);
        }
        self.entries.push(WrittenBitmap { index_position, offset: self.out.len() as u64, xor });
        self.out.extend(index_position.to_be_bytes());
        // No flags: a later writer decides itself what to reuse.
        self.out.extend([xor, 0]);
        best.write(&mut self.out);
        self.recent.truncate(TRIED - 1);
        self.recent.push_front(Recent { bits: reached, chain });
    }

    /// Adds what a group of commits reaches together, after all entries. `commits` are their bits, ascending.
    pub fn push_pseudo_merge(&mut self, commits: Vec<u32>, reached: &Bits) {
        assert!(commits.last().is_some_and(|commit| *commit < self.objects) && reached.len() == self.objects);
        self.merges.push(commits, reached, &mut self.out);
    }

    /// Completes the file; `name_hashes` are in index order, with zero for objects without a path. In a chain
    /// they are those of the file's own objects, which come last.
    pub fn finish(self, name_hashes: Option<&[u32]>, lookup_table: bool) -> Vec<u8> {
        let BitmapWriter { hash, objects, mut out, entries, merges, .. } = self;
        let mut flags = FULL_DAG;
        if !merges.is_empty() {
            flags |= PSEUDO_MERGES;
            merges.write_tables(&mut out);
        }
        if lookup_table {
            flags |= LOOKUP_TABLE;
            write_lookup_table(&entries, &mut out);
        }
        if let Some(name_hashes) = name_hashes {
            assert!(name_hashes.len() <= objects as usize);
            flags |= HASH_CACHE;
            name_hashes.iter().for_each(|hash| out.extend(hash.to_be_bytes()));
        }
        out[6..8].copy_from_slice(&flags.to_be_bytes());
        out[8..12].copy_from_slice(&(entries.len() as u32).to_be_bytes());
        checksum::append(&mut out, hash);
        out
    }
}

fn write_lookup_table(entries: &[WrittenBitmap], out: &mut Vec<u8>) {
    let mut by_position: Vec<u32> = (0..entries.len() as u32).collect();
    by_position.sort_unstable_by_key(|number| entries[*number as usize].index_position);
    let mut row_of = vec![0; entries.len()];
    for (row, number) in (0u32..).zip(&by_position) {
        row_of[*number as usize] = row;
    }
    out.reserve(entries.len() * ROW_BYTES);
    for number in by_position {
        let number = number as usize;
        let WrittenBitmap { index_position, offset, xor } = entries[number];
        let xor_row = if xor == 0 { NO_XOR } else { row_of[number - usize::from(xor)] };
        out.extend(index_position.to_be_bytes());
        out.extend(offset.to_be_bytes());
        out.extend(xor_row.to_be_bytes());
    }
}
