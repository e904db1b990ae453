//! Inverts deltas: from a delta that makes an old version from a new one, one that makes the new version from
//! the old one.
//!
//! Each copy is swapped. What the old version does not contain is inserted. So the cost is that of reading the
//! instructions and writing the insertions, and no base has to be indexed.

use super::delta::{Instruction, Instructions, sizes};
use super::delta_writer::DeltaWriter;
use crate::Error;

const FORMAT: &str = "delta";

/// A shorter copy may take more bytes than an insertion.
const MIN_COPY_BYTES: usize = 8;

/// A part of the base that the result contains, too.
struct Common {
    in_base: usize,
    in_result: usize,
    length: usize,
}

/// Appends to `out` a delta that makes `base` from the result of `delta`, where `base` is what `delta` was made
/// for. If it would exceed `max_bytes`, or if `base` is empty, returns false and leaves `out` unchanged.
///
/// `delta` may be damaged: what is appended makes `base` from any object with which it applies, or an error is
/// returned. The result itself is not needed. Needs up to 24 bytes of memory for each byte of `delta`.
pub fn invert(delta: &[u8], base: &[u8], max_bytes: usize, out: &mut Vec<u8>) -> Result<bool, Error> {
    let damaged = |what| Error::new(FORMAT, what, delta.len() as u64);
    let sizes = sizes(delta)?;
    if sizes.base != base.len() as u64 {
        return Err(damaged("delta was made for another base"));
    }
    let mut common = Vec::new();
    let mut in_result = 0u64;
    for instruction in Instructions::new(delta, sizes.length) {
        let length = match instruction? {
            Instruction::Copy { offset, length } => {
                let (in_base, length) = (offset as usize, length as usize);
                if in_base.checked_add(length).is_none_or(|end| end > base.len()) {
                    return Err(damaged("copy reaches beyond the base"));
                }
                if length >= MIN_COPY_BYTES {
                    common.push(Common { in_base, in_result: in_result as usize, length });
                }
                length
            }
            Instruction::Insert(range) => range.len(),
        };
        in_result += length as u64;
    }
    if in_result != sizes.result {
        return Err(damaged("instructions do not add up to the result"));
    }
    let Some(result_bytes) = u32::try_from(in_result).ok() else { return Ok(false) };
    let start = out.len();
    common.sort_unstable_by_key(|one| (one.in_base, std::cmp::Reverse(one.length)));
    let mut writer = DeltaWriter::new(result_bytes as usize, base, max_bytes, out);
    for one in common {
        // The base may have been copied from several times.
        let skipped = writer.made().saturating_sub(one.in_base);
        if one.length < skipped + MIN_COPY_BYTES {
            continue;
        }
        let at = one.in_base + skipped;
        if writer.is_over(at) {
            break;
        }
        writer.copy(one.in_result + skipped, one.length - skipped, at);
    }
    if writer.finish() {
        return Ok(true);
    }
    out.truncate(start);
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{DeltaIndex, delta};

    /// Words from a small vocabulary, so that there are many matches.
    fn text(seed: u64, words: usize) -> Vec<u8> {
        let mut state = seed;
        let mut text = Vec::new();
        for _ in 0..words {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.extend_from_slice(format!("word number {} of many\n", (state >> 33) % 300).as_bytes());
        }
        text
    }

    fn inverse(new: &[u8], old: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut index, mut forward, mut backward) = (DeltaIndex::default(), Vec::new(), b"before".to_vec());
        index.build(new);
        assert!(index.encode(new, old, usize::MAX, &mut forward));
        assert!(invert(&forward, new, usize::MAX, &mut backward).expect("inverts"));
        (forward, backward.split_off(6))
    }

    #[test]
    fn the_inverse_makes_the_new_version() {
        for seed in 0..50 {
            let new = text(seed, 400);
            let mut old = new.clone();
            let (at, length) = (seed as usize * 37, seed as usize * 11);
            old.drain(at..at + length);
            old.splice(100..100, text(seed + 1000, seed as usize));
            let moved: Vec<u8> = old.drain(200..300).collect();
            old.extend_from_slice(&moved);
            old.extend_from_slice(&moved);
            for (new, old) in [(&new, &old), (&old, &new), (&new, &new)] {
                let (_, backward) = inverse(new, old);
                let mut made = Vec::new();
                delta::apply(old, &backward, &mut made).expect("applies");
                assert_eq!(&made, new);
            }
        }
    }

    #[test]
    fn limits_are_kept_exactly() {
        let new = text(1, 200);
        let (forward, backward) = inverse(&new, &new[300..2000]);
        let mut out = b"kept".to_vec();
        assert!(!invert(&forward, &new, backward.len() - 1, &mut out).expect("inverts"));
        assert_eq!(out, b"kept");
        assert!(invert(&forward, &new, backward.len(), &mut out).expect("inverts"));
        assert_eq!(&out[4..], backward);

        // git would not read a delta that makes nothing.
        assert!(!invert(&[0, 3, 3, 1, 2, 3], b"", usize::MAX, &mut out).expect("inverts"));
        assert_eq!(&out[4..], backward);
    }

    #[test]
    fn damage_is_an_error() {
        let new = text(1, 20);
        let (forward, _) = inverse(&new, &new[100..]);
        let mut out = Vec::new();
        assert!(invert(&forward, &new[1..], usize::MAX, &mut out).is_err());
        // Base of 4 bytes, result of 8: a copy of 8, one that is out of bounds, one that is cut off, too few.
        for damaged in
            [&[4, 8, 0x90, 8][..], &[4, 8, 0x91, 1, 4], &[4, 8, 0x91], &[4, 8, 0x90, 4], &[4, 8, 0]]
        {
            assert!(invert(damaged, b"base", usize::MAX, &mut out).is_err(), "{damaged:?}");
        }
        assert!(out.is_empty());
    }
}
