/// A set of bit positions below a fixed length: one bit each, in words of 64, lower bits first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bits {
    /// Bits at and beyond `len` are zero.
    words: Vec<u64>,
    len: u32,
}

impl Bits {
    /// An empty set of positions below `len`; takes `len / 8` bytes.
    pub fn new(len: u32) -> Self {
        Bits { words: vec![0; (len as usize).div_ceil(64)], len }
    }

    /// The number of positions, set or not.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether the length is 0; [`Bits::none`] says whether no position is set.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The words; bits beyond the length are zero.
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds a position; returns whether it was new.
    #[inline]
    pub fn set(&mut self, position: u32) -> bool {
        self.check_position(position);
        let word = &mut self.words[position as usize / 64];
        let bit = 1 << (position % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Adds all positions of a range.
    pub fn set_range(&mut self, range: std::ops::Range<u32>) {
        if range.is_empty() {
            return;
        }
        self.check_position(range.end - 1);
        let (first, last) = (range.start as usize / 64, (range.end - 1) as usize / 64);
        let from_start = u64::MAX << (range.start % 64);
        let to_end = u64::MAX >> (63 - (range.end - 1) % 64);
        if first == last {
            self.words[first] |= from_start & to_end;
        } else {
            self.words[first] |= from_start;
            self.words[first + 1..last].fill(u64::MAX);
            self.words[last] |= to_end;
        }
    }

    /// Removes a position.
    #[inline]
    pub fn unset(&mut self, position: u32) {
        self.check_position(position);
        self.words[position as usize / 64] &= !(1 << (position % 64));
    }

    /// Whether a position is in the set; those beyond the length are not.
    #[inline]
    pub fn contains(&self, position: u32) -> bool {
        self.words.get(position as usize / 64).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    /// Removes all positions.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Adds all positions of `other`, which has the same length.
    pub fn or_with(&mut self, other: &Bits) {
        self.merge(other, |word, other| *word |= other);
    }

    /// Keeps only the positions that are also in `other`, which has the same length.
    pub fn and_with(&mut self, other: &Bits) {
        self.merge(other, |word, other| *word &= other);
    }

    /// Removes all positions of `other`, which has the same length.
    pub fn and_not(&mut self, other: &Bits) {
        self.merge(other, |word, other| *word &= !other);
    }

    /// The number of positions in the set.
    pub fn count_ones(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether no position is in the set.
    pub fn none(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Iterates over the positions in the set, ascending.
    pub fn iter_ones(&self) -> Ones<'_> {
        Ones { words: self.words.iter(), current: 0, base: 0, next_base: 0 }
    }

    /// The words, to merge others into; [`Bits::trim`] must then clear the bits beyond the length.
    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Clears the bits beyond the length; returns whether any was set.
    pub(super) fn trim(&mut self) -> bool {
        let used = self.len % 64;
        match self.words.last_mut() {
            Some(last) if used != 0 => {
                let excess = *last >> used;
                *last &= !(u64::MAX << used);
                excess != 0
            }
            _ => false,
        }
    }

    #[inline]
    fn merge(&mut self, other: &Bits, merge: impl Fn(&mut u64, u64)) {
        assert_eq!(self.len, other.len, "sets of different lengths");
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| merge(word, *other));
    }

    #[inline]
    fn check_position(&self, position: u32) {
        assert!(position < self.len, "position {position} in a set of {}", self.len);
    }
}

/// Iterates over the positions in a set; see [`Bits::iter_ones`].
#[derive(Debug, Clone)]
pub struct Ones<'a> {
    words: std::slice::Iter<'a, u64>,
    current: u64,
    base: u32,
    next_base: u32,
}

impl Iterator for Ones<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        while self.current == 0 {
            self.current = *self.words.next()?;
            self.base = self.next_base;
            // After the last word this may overflow 32 bits, but the value is not used then.
            self.next_base = self.base.wrapping_add(64);
        }
        let position = self.base + self.current.trailing_zeros();
        self.current &= self.current - 1;
        Some(position)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn check(len: u32, positions: &[u32]) {
        let expect: BTreeSet<u32> = positions.iter().copied().collect();
        let mut bits = Bits::new(len);
        for position in positions {
            let new = !bits.contains(*position);
            assert_eq!(bits.set(*position), new);
        }
        assert!(bits.iter_ones().eq(expect.iter().copied()));
        assert_eq!(bits.count_ones() as usize, expect.len());
        assert_eq!(bits.none(), expect.is_empty());
        for position in 0..len + 130 {
            assert_eq!(bits.contains(position), expect.contains(&position));
        }
        let mut odd = Bits::new(len);
        expect.iter().filter(|position| **position % 2 == 1).for_each(|position| {
            odd.set(*position);
        });
        let mut even = bits.clone();
        even.and_not(&odd);
        assert!(even.iter_ones().all(|position| position % 2 == 0));
        let mut all = even.clone();
        all.or_with(&odd);
        assert_eq!(all, bits);
        even.and_with(&odd);
        assert!(even.none());
        all.clear();
        assert!(all.none());
        expect.iter().for_each(|position| bits.unset(*position));
        assert!(bits.none());
    }

    #[test]
    fn sets() {
        check(0, &[]);
        check(1, &[0]);
        check(64, &[63, 0, 63]);
        check(65, &[64, 1]);
        check(1000, &[999, 5, 6, 7, 640, 128, 127, 64]);
    }

    #[test]
    fn ranges() {
        for (start, end) in [(0, 0), (0, 1), (0, 64), (63, 65), (5, 6), (1, 200), (64, 128), (199, 200)] {
            let mut bits = Bits::new(200);
            bits.set_range(start..end);
            assert!(bits.iter_ones().eq(start..end), "{start}..{end}");
        }
    }

    #[test]
    fn trimming() {
        let mut bits = Bits::new(65);
        bits.words_mut()[1] = 3;
        assert!(bits.trim());
        assert!(!bits.trim());
        assert!(bits.iter_ones().eq([64]));
        assert!(!Bits::new(64).trim());
    }
}
