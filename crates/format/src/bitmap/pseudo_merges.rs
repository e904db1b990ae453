//! Pseudo-merge bitmaps: what groups of commits reach together (gitformat-bitmap, "Pseudo-merge bitmaps").
//!
//! ```text
//! (commits: compressed bitmap, what they reach: compressed bitmap) × merges
//! (commit: u32, offset: u64) × commits                     sorted by commit; not read here
//! (merges: u32, offset of each: u64) × commits in several  not read here
//! where each merge begins: u64 × merges
//! merges: u32 | commits: u32 | where the second part begins: u64 | bytes of all this: u64
//! ```
//!
//! Commits are bits. Offsets count from the start of the file, except in the last line. The offset of a commit in
//! several merges has its highest bit set and leads to the list of them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Bits, Ewah, EwahBuf, FORMAT};
use crate::{Error, be};

/// merges: u32, commits: u32, lookup offset: u64, size: u64.
const TRAILER_BYTES: usize = 24;

/// commit: u32, offset: u64.
const COMMIT_BYTES: usize = 12;

/// The commit is in several merges.
const IN_SEVERAL: u64 = 1 << 63;

/// The position of the merges in a section whose length is checked.
#[derive(Debug, Clone, Default)]
pub(super) struct PseudoMerges {
    /// The position of the offsets; the merges are between `start` and here.
    offsets_at: usize,
    start: usize,
    count: usize,
}

/// A group of commits.
#[derive(Debug, Clone)]
pub struct PseudoMerge<'a> {
    /// The bits of the commits.
    pub commits: Ewah<'a>,
    /// Everything that the commits reach, including themselves.
    pub reached: Ewah<'a>,
}

impl PseudoMerges {
    /// Finds the offsets of the merges in `section`.
    pub(super) fn open(bytes: &[u8], section: Range<usize>) -> Result<Self, Error> {
        let error = |what, at: usize| Error::new(FORMAT, what, at as u64);
        let trailer_at = section.end.checked_sub(TRAILER_BYTES).filter(|at| *at >= section.start);
        let trailer_at = trailer_at.ok_or_else(|| error("pseudo-merges are cut off", section.start))?;
        let count = be::u32_at(bytes, trailer_at) as usize;
        let room = (trailer_at - section.start) / 8;
        if count > room {
            return Err(error("more pseudo-merges than bytes", trailer_at));
        }
        Ok(PseudoMerges { offsets_at: trailer_at - count * 8, start: section.start, count })
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn get<'a>(&self, bytes: &'a [u8], number: usize) -> Result<PseudoMerge<'a>, Error> {
        let at = be::u64_at(bytes, self.offsets_at + number * 8);
        let is_inside = |at: &usize| (self.start..self.offsets_at).contains(at);
        let start = usize::try_from(at).ok().filter(is_inside);
        let start = start.ok_or_else(|| Error::new(FORMAT, "pseudo-merge is beyond its section", at))?;
        let (commits, next) = Ewah::parse(bytes, start, self.offsets_at)?;
        let (reached, _) = Ewah::parse(bytes, next, self.offsets_at)?;
        Ok(PseudoMerge { commits, reached })
    }
}

/// The merges of a file that is being written: their offsets and the bits of their commits.
#[derive(Debug, Default)]
pub(super) struct WrittenMerges(Vec<(u64, Vec<u32>)>);

impl WrittenMerges {
    /// Appends a merge of `commits`, ascending bits.
    pub(super) fn push(&mut self, commits: Vec<u32>, reached: &Bits, out: &mut Vec<u8>) {
        let start = out.len() as u64;
        EwahBuf::from_ascending(commits.iter().copied()).write(out);
        EwahBuf::from_bits(reached).write(out);
        self.0.push((start, commits));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends what comes after the merges.
    pub(super) fn write_tables(&self, out: &mut Vec<u8>) {
        let Some((start, _)) = self.0.first() else { return };
        let mut by_commit: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (offset, commits) in &self.0 {
            commits.iter().for_each(|commit| by_commit.entry(*commit).or_default().push(*offset));
        }
        let table_at = out.len() as u64;
        let mut lists = Vec::new();
        let lists_at = table_at + (by_commit.len() * COMMIT_BYTES) as u64;
        for (commit, offsets) in &by_commit {
            out.extend(commit.to_be_bytes());
            match offsets.as_slice() {
                [offset] => out.extend(offset.to_be_bytes()),
                offsets => {
                    out.extend((IN_SEVERAL | (lists_at + lists.len() as u64)).to_be_bytes());
                    lists.extend((offsets.len() as u32).to_be_bytes());
                    offsets.iter().for_each(|offset| lists.extend(offset.to_be_bytes()));
                }
            }
        }
        out.extend(lists);
        self.0.iter().for_each(|(offset, _)| out.extend(offset.to_be_bytes()));
        out.extend((self.0.len() as u32).to_be_bytes());
        out.extend((by_commit.len() as u32).to_be_bytes());
        out.extend((table_at - start).to_be_bytes());
        out.extend((out.len() as u64 + 8 - start).to_be_bytes());
    }
}
