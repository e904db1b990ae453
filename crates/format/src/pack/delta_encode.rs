//! Makes deltas: finds what a target can copy from a base.
//!
//! The base is cut into blocks of 16 bytes, which are indexed by a hash. At every byte of the target, the
//! next 16 bytes are looked up; a match is extended in both directions as far as possible, and copied. So
//! every common stretch of 31 bytes or more is found, and shorter ones by chance.
//!
//! The module `delta` has the layout of a delta.

use super::delta_writer::DeltaWriter;

/// The bytes compared by a look-up, and the distance between blocks of the base.
const BLOCK_BYTES: usize = 16;

/// A more frequent block of the base is kept this many times, evenly spread: otherwise content that repeats
/// one line would make every look-up slow.
const MAX_SAME_HASH: u32 = 32;

/// A match of this length is taken without looking for a longer one.
const GOOD_MATCH_BYTES: usize = 4096;

/// Longer bases are not indexed: offsets of copies have 32 bits.
const MAX_BASE_BYTES: usize = u32::MAX as usize;

/// The blocks of a base by their hash; keeps its memory when rebuilt.
#[derive(Debug, Default)]
pub struct DeltaIndex {
    /// The index in `blocks` of each hash's first block, with one entry more than there are hashes.
    starts: Vec<u32>,
    /// Offsets in the base, grouped by hash, ascending.
    blocks: Vec<u32>,
    /// A bit for each value of a longer hash, set if a block has it: most look-ups end here, and the table for them
    /// stays in the processor's nearest cache.
    filter: Vec<u64>,
    /// Hashes have `64 - shift` bits.
    shift: u32,
    hashes: Vec<u32>,
}

/// How much longer the hash of the filter is: one look-up in 30 or fewer passes it by chance.
const FILTER_BITS: u32 = 4;

impl DeltaIndex {
    /// Indexes `base` instead of the previous content.
    pub fn build(&mut self, base: &[u8]) {
        let base = &base[..base.len().min(MAX_BASE_BYTES)];
        let blocks = base.len() / BLOCK_BYTES;
        let bits = usize::BITS - blocks.next_power_of_two().leading_zeros();
        let bits = bits.clamp(4, 24);
        self.shift = 64 - bits;
        self.starts.clear();
        self.starts.resize((1 << bits) + 1, 0);
        self.filter.clear();
        self.filter.resize(1 << (bits + FILTER_BITS - u64::BITS.trailing_zeros()), 0);
        self.hashes.clear();
        let mut previous = u32::MAX;
        for block in base.chunks_exact(BLOCK_BYTES) {
            let long = hash(block.first_chunk().expect("a whole block"), self.shift - FILTER_BITS);
            self.filter[long as usize / 64] |= 1 << (long % 64);
            let hash = long >> FILTER_BITS;
            // In a run of equal blocks, the first is the best to copy from.
            let is_repeated = hash == previous;
            previous = hash;
            self.hashes.push(if is_repeated { u32::MAX } else { hash });
            self.starts[hash as usize] += u32::from(!is_repeated);
        }
        // The end of each hash's blocks; filling from the last block on moves it to the start.
        let mut end = 0;
        for start in &mut self.starts {
            end += *start;
            *start = end;
        }
        self.blocks.clear();
        self.blocks.resize(end as usize, 0);
        for (at, &hash) in self.hashes.iter().enumerate().rev() {
            if hash == u32::MAX {
                continue;
            }
            let slot = &mut self.starts[hash as usize];
            *slot -= 1;
            self.blocks[*slot as usize] = (at * BLOCK_BYTES) as u32;
        }
    }

    /// The memory that it holds, approximately.
    pub fn memory_bytes(&self) -> usize {
        4 * (self.starts.capacity() + self.blocks.capacity() + self.hashes.capacity())
            + 8 * self.filter.capacity()
    }

    /// Appends to `out` a delta that makes `target` from the indexed `base`; if it would exceed `max_bytes`, or if the target is empty,
    /// returns false and leaves `out` unchanged. Gives up as soon as that seems likely. A delta that would
    /// just fit can be lost if so many blocks are alike that not all are tried, and a match begins long
    /// before the place where it was found.
    pub fn encode(&self, base: &[u8], target: &[u8], max_bytes: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let mut writer = DeltaWriter::new(base.len(), target, max_bytes, out);
        if self.write_all(base, &mut writer) {
            return true;
        }
        out.truncate(start);
        false
    }

    fn write_all(&self, base: &[u8], writer: &mut DeltaWriter<'_>) -> bool {
        let target = writer.target();
        // Versions of a file mostly begin alike, and finding that takes no look-up.
        let mut at = common_prefix(base, target);
        if at >= BLOCK_BYTES {
            writer.copy(0, at, 0);
        } else {
            at = 0;
        }
        loop {
            // A match found later may begin earlier: mostly by up to two blocks.
            let end = writer.reach().saturating_add(2 * BLOCK_BYTES + 1);
            let Some((offset, length, found_at)) = self.next_match(base, target, at, end) else { break };
            let backward = common_suffix(&base[..offset], &target[writer.made()..found_at]);
            writer.copy(offset - backward, backward + length, found_at - backward);
            at = found_at + length;
        }
        writer.finish()
    }

    /// The first match of the target that begins at `from` or later, and before `end`: its offset in the base, its
    /// length, and where in the target it begins.
    #[inline]
    fn next_match(
        &self,
        base: &[u8],
        target: &[u8],
        from: usize,
        end: usize,
    ) -> Option<(usize, usize, usize)> {
        let end = end.saturating_add(BLOCK_BYTES - 1).min(target.len());
        for (at, window) in target.get(from..end)?.windows(BLOCK_BYTES).enumerate() {
            let long = hash(window.first_chunk()?, self.shift - FILTER_BITS);
            if self.filter[long as usize / 64] >> (long % 64) & 1 == 0 {
                continue;
            }
            let hash = (long >> FILTER_BITS) as usize;
            let found = &self.blocks[self.starts[hash] as usize..self.starts[hash + 1] as usize];
            if found.is_empty() {
                continue;
            }
            if let Some((offset, length)) = longest(base, target, from + at, found) {
                return Some((offset, length, from + at));
            }
        }
        None
    }
}

/// The longest match of the target from `at` on with any of the blocks: its offset in the base and its length.
#[inline]
fn longest(base: &[u8], target: &[u8], at: usize, blocks: &[u32]) -> Option<(usize, usize)> {
    let rest = &target[at..];
    let (mut best_offset, mut best) = (0, BLOCK_BYTES - 1);
    let step = (blocks.len() as u32).div_ceil(MAX_SAME_HASH).max(1) as usize;
    for &offset in blocks.iter().step_by(step) {
        let offset = offset as usize;
        let source = &base[offset..];
        // A longer match than the best must also agree at the next byte.
        if source.get(best) != rest.get(best) || best >= source.len().min(rest.len()) {
            continue;
        }
        let length = common_prefix(source, rest);
        if length > best {
            (best_offset, best) = (offset, length);
            if best >= GOOD_MATCH_BYTES {
                break;
            }
        }
    }
    (best >= BLOCK_BYTES).then_some((best_offset, best))
}

/// Mixes all 16 bytes into the upper bits and keeps as many as the table uses.
#[inline]
fn hash(window: &[u8; BLOCK_BYTES], shift: u32) -> u32 {
    let low = u64::from_le_bytes(*window.first_chunk().expect("16 bytes"));
    let high = u64::from_le_bytes(*window.last_chunk().expect("16 bytes"));
    // Odd constants with well-spread bits: the fractions of the golden ratio and of the square root of 3.
    let mixed =
        low.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ high.wrapping_mul(0xbb67_ae85_84ca_a73b).rotate_left(32);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as u32
}

#[inline]
fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    let mut length = 0;
    for (one, other) in one.chunks_exact(8).zip(other.chunks_exact(8)) {
        let one = u64::from_le_bytes(*one.first_chunk().expect("8 bytes"));
        let other = u64::from_le_bytes(*other.first_chunk().expect("8 bytes"));
        if one != other {
            return length + ((one ^ other).trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    length + one[length..].iter().zip(&other[length..]).take_while(|(one, other)| one == other).count()
}

#[inline]
fn common_suffix(one: &[u8], other: &[u8]) -> usize {
    one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::delta;

    /// Deterministic bytes that do not repeat.
    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    /// Checks that the delta from `base` to `target` makes `target`, and has at most `expect` bytes.
    fn check(base: &[u8], target: &[u8], expect: usize) {
        let mut index = DeltaIndex::default();
        index.build(&noise(9, 100));
        index.build(base);
        let mut made = b"before".to_vec();
        assert!(index.encode(base, target, usize::MAX - 100, &mut made));
        let made = &made[6..];
        let mut result = Vec::new();
        delta::apply(base, made, &mut result).expect("applies");
        assert_eq!(result, target);
        assert!(made.len() <= expect, "{} bytes, expected at most {expect}", made.len());
        let mut exact = Vec::new();
        assert!(index.encode(base, target, made.len(), &mut exact));
        assert_eq!(exact, made);
        let mut refused = b"kept".to_vec();
        assert!(!index.encode(base, target, made.len() - 1, &mut refused));
        assert_eq!(refused, b"kept");
    }

    #[test]
    fn deltas_make_the_target_and_are_short() {
        let text = noise(1, 10_000);
        check(b"", b"some bytes", 13);
        check(&text, &text, 8);
        check(&text, &text[..31], 6);
        check(&text[..15], &text[..15], 18);
        let inserted = [&text[..4000], b"new words", &text[4000..]].concat();
        check(&text, &inserted, 28);
        check(&inserted, &text, 20);
        let moved = [&text[6000..], &text[..6000]].concat();
        check(&text, &moved, 20);
        let large = noise(2, 300_000);
        check(&large, &[b"x", large.as_slice()].concat(), 60);
        check(&noise(3, 5000), &text, 10_100);
    }

    #[test]
    fn empty_targets_get_no_delta() {
        let mut index = DeltaIndex::default();
        for base in [&b""[..], b"some bytes", &[7; 100_000]] {
            index.build(base);
            let mut out = b"kept".to_vec();
            assert!(!index.encode(base, b"", usize::MAX, &mut out));
            assert_eq!(out, b"kept");
        }
    }

    #[test]
    fn repeated_content_is_not_slow_and_right() {
        let line = b"the same line again and again\n";
        let base: Vec<u8> = line.iter().copied().cycle().take(200_000).collect();
        let target: Vec<u8> = line.iter().copied().cycle().skip(7).take(190_000).collect();
        check(&base, &target, 100);
        check(&vec![0; 100_000], &vec![0; 99_000], 30);
        let mut broken = vec![0; 100_000];
        broken.splice(5..5, b"something else".iter().copied());
        check(&vec![0; 100_000], &broken, 60);
    }

    #[test]
    fn every_small_size() {
        let text = noise(4, 80);
        for base in 0..80 {
            for target in [0, 1, base / 2, base, 79] {
                let edited = [b"!", &text[..target]].concat();
                if target > 0 {
                    check(&text[..base], &text[..target], target + 8);
                }
                check(&text[..base], &edited, target + 9);
            }
        }
    }
}
