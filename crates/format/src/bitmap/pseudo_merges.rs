//! Pseudo-merge bitmaps: what groups of commits reach together (gitformat-bitmap, "Pseudo-merge bitmaps").
//!
//! ```text
//! (commits: compressed bitmap, what they reach: compressed bitmap) × merges
//! which merges a commit is in: …                           not read here
//! where each merge begins: u64 × merges
//! merges: u32 | commits: u32 | where the second part begins: u64 | bytes of all this: u64
//! ```

use std::ops::Range;

use super::{Ewah, FORMAT};
use crate::{Error, be};

/// merges: u32, commits: u32, lookup offset: u64, size: u64.
const TRAILER_BYTES: usize = 24;

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
