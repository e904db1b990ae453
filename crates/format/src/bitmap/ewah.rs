//! Compressed sets (gitformat-bitmap, appendix A).
//!
//! ```text
//! bits: u32 | words: u32
//! (marker: u64, literal: u64 × literals) …        words in all
//! index of the last marker: u32
//!
//! marker: literals(31) run length in words(32) run bit(1)      most significant first
//! ```

use super::Bits;
use super::FORMAT;
use crate::{Error, be};

const HEAD_BYTES: usize = 8;
const TAIL_BYTES: usize = 4;

/// A view of a compressed set: its length in words is checked, its content is not.
#[derive(Debug, Clone, Copy)]
pub struct Ewah<'a> {
    /// Complete words of eight bytes.
    words: &'a [u8],
    /// The offset of the words in the file, for errors.
    at: usize,
}

impl<'a> Ewah<'a> {
    /// Reads the set that begins at `at` and ends before `end`; returns the set and its end.
    pub(crate) fn parse(bytes: &'a [u8], at: usize, end: usize) -> Result<(Self, usize), Error> {
        let cut_off = || Error::new(FORMAT, "compressed bitmap is cut off", at as u64);
        let bytes = &bytes[..end];
        let head = bytes.get(at..).and_then(<[u8]>::first_chunk::<HEAD_BYTES>).ok_or_else(cut_off)?;
        let words_at = at + HEAD_BYTES;
        let words_end = (be::u32_at(head, 4) as usize)
            .checked_mul(8)
            .and_then(|length| words_at.checked_add(length))
            .filter(|words_end| bytes.len().saturating_sub(*words_end) >= TAIL_BYTES)
            .ok_or_else(cut_off)?;
        let set = Ewah { words: &bytes[words_at..words_end], at: words_at };
        Ok((set, words_end + TAIL_BYTES))
    }

    /// The bytes of the compressed words.
    pub fn compressed_bytes(&self) -> usize {
        self.words.len()
    }

    /// Decompresses the set into positions below `len`.
    pub fn to_bits(&self, len: u32) -> Result<Bits, Error> {
        let mut bits = Bits::new(len);
        self.or_into(&mut bits)?;
        Ok(bits)
    }

    /// Adds the set to `bits`; after an error, part of it may have been added.
    pub fn or_into(&self, bits: &mut Bits) -> Result<(), Error> {
        self.merge_into(bits, |run| run.fill(u64::MAX), |word, literal| *word |= literal)
    }

    /// Whether the set has positions, and all of them are in one of two sets of the same length. Costs at most a pass
    /// over the compressed words and those of `one` that they cover; ends at the first position that is missing.
    pub fn is_within(&self, one: &Bits, other: &Bits) -> bool {
        let in_both = |at: usize| Some(one.words().get(at)? | other.words().get(at)?);
        let (mut at, mut is_empty, mut rest) = (0usize, true, self.words);
        while let Some((marker, literals)) = rest.split_first_chunk::<8>() {
            let marker = u64::from_be_bytes(*marker);
            let (run_words, literal_words) = ((marker >> 1 & 0xffff_ffff) as usize, (marker >> 33) as usize);
            if marker & 1 == 1 && run_words > 0 {
                is_empty = false;
                if !(at..at + run_words).all(|at| in_both(at) == Some(u64::MAX)) {
                    return false;
                }
            }
            at += run_words;
            let Some((literals, after)) = literals.split_at_checked(literal_words * 8) else { return false };
            for literal in literals.chunks_exact(8).map(|literal| be::u64_at(literal, 0)) {
                is_empty &= literal == 0;
                if literal != 0 && in_both(at).is_none_or(|both| literal & !both != 0) {
                    return false;
                }
                at += 1;
            }
            rest = after;
        }
        !is_empty
    }

    /// Flips the bits of the set in `bits`; after an error, part of them may have been flipped.
    pub(super) fn xor_into(&self, bits: &mut Bits) -> Result<(), Error> {
        let flip = |run: &mut [u64]| run.iter_mut().for_each(|word| *word = !*word);
        self.merge_into(bits, flip, |word, literal| *word ^= literal)
    }

    #[inline]
    fn merge_into(
        &self,
        bits: &mut Bits,
        merge_ones: impl Fn(&mut [u64]),
        merge: impl Fn(&mut u64, u64),
    ) -> Result<(), Error> {
        let error = |rest: &[u8]| {
            let at = self.at + self.words.len() - rest.len();
            Err(Error::new(FORMAT, "compressed bitmap has more bits than objects", at as u64))
        };
        let mut target = bits.words_mut();
        let mut rest = self.words;
        while let Some((marker, literals)) = rest.split_first_chunk::<8>() {
            let marker = u64::from_be_bytes(*marker);
            let run_words = (marker >> 1 & 0xffff_ffff) as usize;
            let literal_words = (marker >> 33) as usize;
            let Some((run, after_run)) = target.split_at_mut_checked(run_words) else {
                return error(rest);
            };
            if marker & 1 == 1 {
                merge_ones(run);
            }
            let Some((literals, after_literals)) = literals.split_at_checked(literal_words * 8) else {
                return Err(Error::new(
                    FORMAT,
                    "literals of a compressed bitmap are cut off",
                    self.at as u64,
                ));
            };
            let Some((words, after_words)) = after_run.split_at_mut_checked(literal_words) else {
                return error(rest);
            };
            for (word, literal) in words.iter_mut().zip(literals.chunks_exact(8)) {
                merge(word, be::u64_at(literal, 0));
            }
            rest = after_literals;
            target = after_words;
        }
        if bits.trim() { error(rest) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(words: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0xee; 3];
        bytes.extend([0; 4]);
        bytes.extend((words.len() as u32).to_be_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_be_bytes()));
        bytes.extend([0; 4]);
        bytes
    }

    fn marker(bit: u64, run: u64, literals: u64) -> u64 {
        bit | run << 1 | literals << 33
    }

    fn check(len: u32, words: &[u64], expect: Result<&[u64], &'static str>) {
        let bytes = file(words);
        let (set, end) = Ewah::parse(&bytes, 3, bytes.len()).unwrap();
        assert_eq!(end, bytes.len());
        let got = set.to_bits(len).map_err(|error| error.what);
        assert_eq!(got.as_ref().map(Bits::words).map_err(|what| *what), expect);
        if let Ok(mut bits) = got {
            set.xor_into(&mut bits).unwrap();
            assert!(bits.none());
            set.or_into(&mut bits).unwrap();
            set.or_into(&mut bits).unwrap();
            assert_eq!(Ok(bits.words()), expect);
            check_within(&set, &bits);
        }
    }

    /// A set is within any two halves of itself, but not without its last position.
    fn check_within(set: &Ewah<'_>, bits: &Bits) {
        let (mut even, mut odd) = (Bits::new(bits.len()), Bits::new(bits.len()));
        for bit in bits.iter_ones() {
            if bit % 2 == 0 {
                even.set(bit)
            } else {
                odd.set(bit)
            };
        }
        assert_eq!(set.is_within(&even, &odd), !bits.none());
        if let Some(last) = bits.iter_ones().last() {
            even.unset(last);
            odd.unset(last);
            assert!(!set.is_within(&even, &odd));
        }
    }

    #[test]
    fn sets() {
        check(128, &[], Ok(&[0, 0]));
        check(128, &[0], Ok(&[0, 0]));
        check(128, &[marker(1, 1, 0)], Ok(&[u64::MAX, 0]));
        check(192, &[marker(0, 1, 1), 5, marker(1, 1, 0)], Ok(&[0, 5, u64::MAX]));
        check(70, &[marker(1, 1, 1), 63], Ok(&[u64::MAX, 63]));
        let beyond = Err("compressed bitmap has more bits than objects");
        check(70, &[marker(1, 1, 1), 64], beyond);
        check(70, &[marker(1, 2, 0)], beyond);
        check(128, &[marker(1, 3, 0)], beyond);
        check(128, &[marker(0, 3, 0)], beyond);
        check(128, &[marker(0, 1, 2), 0, 0], beyond);
        check(128, &[marker(0, 0xffff_ffff, 0)], beyond);
        check(128, &[marker(0, 0, 2), 1], Err("literals of a compressed bitmap are cut off"));
        check(128, &[u64::MAX], beyond);
        check(0, &[1], Ok(&[]));
    }

    #[test]
    fn cut_off() {
        let bytes = file(&[marker(1, 1, 0)]);
        for end in 3..bytes.len() {
            assert!(Ewah::parse(&bytes, 3, end).is_err(), "{end}");
        }
        let mut lying = bytes;
        lying[7] = 0xff;
        assert!(Ewah::parse(&lying, 3, lying.len()).is_err());
    }
}
