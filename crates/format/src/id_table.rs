//! The sorted ids with a fan-out that idx, multi-pack-index and commit-graph share.

use std::cmp::Ordering;
use std::ops::Range;

use packrace_object::{HashKind, oid};

use crate::{Error, be};

/// 256 counts of four bytes.
pub const FANOUT_BYTES: usize = 1024;

/// The position of a file's sorted ids; every call passes the bytes of the checked file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdTable {
    fanout_at: usize,
    /// The offset of the first id.
    ids_at: usize,
    /// The distance between ids; more than an id's length if the table is interleaved (idx v1).
    stride: usize,
    id_bytes: usize,
    /// The number of ids; [`Self::fanout_at`]'s last count.
    len: u32,
}

/// Reads the number of ids from the fan-out at `at`, whose counts must never decrease.
pub(crate) fn check_fanout(format: &'static str, bytes: &[u8], at: usize) -> Result<u32, Error> {
    let fanout = at
        .checked_add(FANOUT_BYTES)
        .and_then(|end| bytes.get(at..end))
        .ok_or_else(|| Error::new(format, "fan-out is cut off", bytes.len() as u64))?;
    let mut last = 0;
    for (i, count) in fanout.chunks_exact(4).enumerate() {
        let count = be::u32_at(count, 0);
        if count < last {
            return Err(Error::new(format, "fan-out is not sorted", (at + 4 * i) as u64));
        }
        last = count;
    }
    Ok(last)
}

/// Writes the fan-out of sorted ids from the first byte of each; there are at most 2³² − 1 ids.
pub(crate) fn write_fanout(out: &mut Vec<u8>, first_bytes: impl Iterator<Item = u8>) {
    let mut counts = [0u32; 256];
    first_bytes.for_each(|byte| counts[usize::from(byte)] += 1);
    write_counts(out, &counts);
}

/// Like [`write_fanout`], from the number of ids with each first byte.
pub(crate) fn write_counts(out: &mut Vec<u8>, counts: &[u32; 256]) {
    let mut sum = 0;
    for count in counts {
        sum += count;
        out.extend_from_slice(&sum.to_be_bytes());
    }
}

impl IdTable {
    /// A table of `len` ids at `ids_at`, in a file whose fan-out the caller has checked.
    pub(crate) fn new(fanout_at: usize, ids_at: usize, stride: usize, hash: HashKind, len: u32) -> Self {
        IdTable { fanout_at, ids_at, stride, id_bytes: hash.len_in_bytes(), len }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn id_at<'a>(&self, bytes: &'a [u8], position: u32) -> &'a oid {
        assert!(position < self.len, "position {position} of {} ids", self.len);
        let at = self.ids_at + position as usize * self.stride;
        oid::from_bytes_unchecked(&bytes[at..at + self.id_bytes])
    }

    #[inline]
    pub(crate) fn position_of(&self, bytes: &[u8], id: &oid) -> Option<u32> {
        let wanted = id.as_bytes();
        if wanted.len() != self.id_bytes {
            return None;
        }
        // Ids nearly always differ in their first eight bytes, so one number decides nearly every step.
        let wanted_head = be::u64_at(wanted, 0);
        let order = |position: u32| {
            let at = self.ids_at + position as usize * self.stride;
            match be::u64_at(bytes, at).cmp(&wanted_head) {
                Ordering::Equal => bytes[at + 8..at + self.id_bytes].cmp(&wanted[8..]),
                order => order,
            }
        };
        let Range { start: mut low, end: mut high } =
            narrowed(self.bucket(bytes, wanted[0]), (wanted_head >> 24) as u32, order);
        while low < high {
            let middle = low + (high - low) / 2;
            match order(middle) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// The positions whose ids begin with the first `hex_len` hex digits of `prefix`.
    pub(crate) fn range_of_prefix(&self, bytes: &[u8], prefix: &oid, hex_len: usize) -> Range<u32> {
        let whole = (hex_len / 2).min(self.id_bytes);
        let prefix = prefix.as_bytes();
        if prefix.len() != self.id_bytes || self.len == 0 {
            return 0..0;
        }
        let order = |id: &[u8]| match id[..whole].cmp(&prefix[..whole]) {
            Ordering::Equal if hex_len % 2 == 1 && whole < id.len() => {
                (id[whole] >> 4).cmp(&(prefix[whole] >> 4))
            }
            order => order,
        };
        let all = if whole > 0 { self.bucket(bytes, prefix[0]) } else { 0..self.len };
        let id = |position: u32| self.id_at(bytes, position).as_bytes();
        let start = partition_point(all.clone(), |position| order(id(position)).is_lt());
        start..partition_point(start..all.end, |position| order(id(position)).is_le())
    }

    #[inline]
    fn bucket(&self, bytes: &[u8], first: u8) -> Range<u32> {
        let at = self.fanout_at + 4 * usize::from(first);
        let start = if first == 0 { 0 } else { be::u32_at(bytes, at - 4) };
        // A file overwritten after the check may hide ids, but nothing reads beyond its end.
        let end = be::u32_at(bytes, at).min(self.len);
        start.min(end)..end
    }
}

/// The part of a bucket where the wanted id must be. If ids are spread evenly, as hashes are, it is around
/// `fraction` / 2³² of the bucket's length, give or take twice the standard deviation. Two adjacent look-ups
/// replace half of those of a binary search, which are all over the bucket and miss the cache. If ids are not
/// evenly spread, this may exclude little, but never the wanted id.
#[inline]
fn narrowed(bucket: Range<u32>, fraction: u32, order: impl Fn(u32) -> Ordering) -> Range<u32> {
    let Range { start: mut low, end: mut high } = bucket;
    let len = high - low;
    if len < 64 {
        return low..high;
    }
    let expected = low + ((u64::from(len) * u64::from(fraction)) >> 32) as u32;
    // The deviation is at most √n / 2; this is between √n / √2 and √n × √2.
    let margin = 1 << ((32 - len.leading_zeros()) / 2);
    let (below, above) = (expected.saturating_sub(margin), expected.saturating_add(margin));
    if below > low {
        match order(below) {
            Ordering::Greater => high = below,
            _ => low = below,
        }
    }
    if above < high && above > low {
        match order(above) {
            Ordering::Less => low = above + 1,
            _ => high = above + 1,
        }
    }
    low..high
}

/// The first number of `range` for which `before` is false, or its end.
pub(crate) fn partition_point(range: Range<u32>, before: impl Fn(u32) -> bool) -> u32 {
    let Range { start: mut low, end: mut high } = range;
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use packrace_object::ObjectId;
    use packrace_testkit::Random;

    use super::*;

    /// Sorts `ids`, then looks up every id and its neighbours in their table.
    fn check(mut ids: Vec<[u8; 20]>) {
        ids.sort();
        ids.dedup();
        let mut bytes = Vec::new();
        for first in 0..=255 {
            let count = ids.iter().filter(|id| id[0] <= first).count() as u32;
            bytes.extend(count.to_be_bytes());
        }
        bytes.extend(ids.iter().flatten());
        let len = check_fanout("idx", &bytes, 0).unwrap();
        assert_eq!(len as usize, ids.len());
        let table = IdTable::new(0, FANOUT_BYTES, 20, HashKind::Sha1, len);
        for (position, id) in (0u32..).zip(&ids) {
            assert_eq!(table.position_of(&bytes, &ObjectId::Sha1(*id)), Some(position));
            for (at, change) in [(19, 1), (19, 255), (8, 1), (7, 1), (7, 255), (1, 1), (1, 255), (1, 128)] {
                let mut other = *id;
                other[at] = other[at].wrapping_add(change);
                let expect = ids.binary_search(&other).ok().map(|found| found as u32);
                assert_eq!(table.position_of(&bytes, &ObjectId::Sha1(other)), expect);
            }
        }
    }

    #[test]
    fn lookups() {
        let mut random = Random::new(7);
        let mut ids = |count: usize, fixed: usize| -> Vec<[u8; 20]> {
            (0..count)
                .map(|_| std::array::from_fn(|at| if at < fixed { 0x42 } else { random.next_u64() as u8 }))
                .collect()
        };
        check(vec![]);
        check(ids(1, 0));
        check(ids(30_000, 0));
        // Not spread at all: in one bucket, and within eight bytes of each other.
        check(ids(5000, 1));
        check(ids(5000, 3));
        check(ids(3000, 8));
        check([ids(2000, 0), ids(2000, 1), ids(500, 2), ids(500, 9)].concat());
        check(
            (0..3000u32)
                .map(|n| {
                    let mut id = [0; 20];
                    id[16..].copy_from_slice(&n.to_be_bytes());
                    id
                })
                .collect(),
        );
        check(
            (0..3000u32)
                .map(|n| {
                    let mut id = [0xff; 20];
                    id[16..].copy_from_slice(&n.to_be_bytes());
                    id
                })
                .collect(),
        );
    }
}
