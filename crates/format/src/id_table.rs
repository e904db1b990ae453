//! The sorted ids with a fan-out that an idx, a multi-pack-index and a commit-graph have in common.

use std::cmp::Ordering;
use std::ops::Range;

use packrace_object::{HashKind, oid};

use crate::{Error, be};

/// 256 counts of four bytes.
pub(crate) const FANOUT_BYTES: usize = 1024;

/// Where a file keeps its sorted ids. Holds no bytes: every call is given those of the file that was checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdTable {
    fanout_at: usize,
    /// Where the first id is.
    ids_at: usize,
    /// From an id to the next; more than an id's length where the table is interleaved (idx v1).
    stride: usize,
    id_bytes: usize,
    /// The number of ids; [`Self::fanout_at`]'s last count.
    len: u32,
}

/// Reads the number of ids from the fan-out at `at`, whose counts must never fall.
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

impl IdTable {
    /// A table in a file of which the caller has checked the fan-out, and that it holds `len` ids at `ids_at`.
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
        // Ids differ within their first eight bytes but for accidents, so one number decides nearly every step.
        let wanted_head = be::u64_at(wanted, 0);
        let Range { start: mut low, end: mut high } = self.bucket(bytes, wanted[0]);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = self.ids_at + middle as usize * self.stride;
            let order = match be::u64_at(bytes, at).cmp(&wanted_head) {
                Ordering::Equal => bytes[at + 8..at + self.id_bytes].cmp(&wanted[8..]),
                other => other,
            };
            match order {
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
        start..be::u32_at(bytes, at)
    }
}

/// The first number of `range` for which `before` is false; its end if there is none.
pub(crate) fn partition_point(range: Range<u32>, before: impl Fn(u32) -> bool) -> u32 {
    let Range { start: mut low, end: mut high } = range;
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
