//! One block: a type, a length, records with shared prefixes, and the places where a record is whole.
//!
//! ```text
//! u8 type | u24 length | records | u24 restart offset × n | u16 n
//! record: varint prefix length | varint suffix length << 3 | type | suffix | value
//! ```
//!
//! Lengths and offsets count from the start of the block; for the first block that is the start of the file, header
//! included.

use crate::Error;

use super::{FORMAT, be, varint};

/// A block in place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    /// The block from its start, up to the restart table.
    bytes: &'a [u8],
    restarts: &'a [u8],
    /// Where in the file it starts.
    pub(super) at: usize,
    pub(super) kind: u8,
    /// Where the first record starts.
    first: usize,
    /// With the restart table.
    pub(super) length: usize,
}

/// The key of a record, and where its value starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) value_type: u8,
    pub(super) value_at: usize,
}

impl<'a> Block<'a> {
    /// Reads the block at `at`; `skip` is the length of the file's header if it is the first.
    pub(super) fn read(file: &'a [u8], at: usize, skip: usize) -> Result<Self, Error> {
        let bad = |what| Error::new(FORMAT, what, at as u64);
        let bytes =
            file.get(at..).filter(|bytes| bytes.len() >= skip + 4).ok_or_else(|| bad("block is cut off"))?;
        let kind = bytes[skip];
        let length = be(&bytes[skip + 1..], 3) as usize;
        let bytes = bytes.get(..length).ok_or_else(|| bad("block is longer than the file"))?;
        Self::of_bytes(bytes, kind, at, skip)
    }

    /// A block whose bytes are at hand.
    pub(super) fn of_bytes(bytes: &'a [u8], kind: u8, at: usize, skip: usize) -> Result<Self, Error> {
        let bad = |what| Error::new(FORMAT, what, at as u64);
        let length = bytes.len();
        let first = skip + 4;
        let count_at =
            length.checked_sub(2).filter(|at| *at >= first).ok_or_else(|| bad("block is too short"))?;
        let count = be(&bytes[count_at..], 2) as usize;
        let restarts_at = count_at.checked_sub(count * 3).filter(|at| *at >= first);
        let restarts_at = restarts_at.ok_or_else(|| bad("block has more restarts than bytes"))?;
        let restarts = &bytes[restarts_at..count_at];
        Ok(Block { bytes: &bytes[..restarts_at], restarts, at, kind, first, length })
    }

    pub(super) fn records(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn first(&self) -> usize {
        self.first
    }

    pub(super) fn bad(&self, what: &'static str, offset: usize) -> Error {
        Error::new(FORMAT, what, (self.at + offset) as u64)
    }

    /// Reads the key of the record at `at` into `key`, which holds that of the record before.
    #[inline]
    pub(super) fn key(&self, mut at: usize, key: &mut Vec<u8>) -> Result<Key, Error> {
        let start = at;
        let lengths = varint(self.bytes, &mut at).zip(varint(self.bytes, &mut at));
        let (prefix, suffix) = lengths.ok_or_else(|| self.bad("record is cut off", start))?;
        let value_type = (suffix & 7) as u8;
        let prefix = usize::try_from(prefix).ok().filter(|prefix| *prefix <= key.len());
        let prefix = prefix.ok_or_else(|| self.bad("record shares more than there is", start))?;
        let suffix_end = usize::try_from(suffix >> 3).ok().and_then(|length| at.checked_add(length));
        let suffix = suffix_end.and_then(|end| self.bytes.get(at..end));
        let suffix = suffix.ok_or_else(|| self.bad("record is cut off", start))?;
        // Keys rise, or whoever merges tables would be confused by a damaged one.
        if !key.is_empty() && suffix <= &key[prefix..] {
            return Err(self.bad("keys of records do not rise", start));
        }
        key.truncate(prefix);
        key.extend_from_slice(suffix);
        Ok(Key { value_type, value_at: at + suffix.len() })
    }

    /// Where to start reading for the first record whose key is not less than `wanted`: the last restart before it.
    pub(super) fn seek(&self, wanted: &[u8]) -> Result<usize, Error> {
        let mut key = Vec::new();
        let (mut low, mut high) = (0, self.restarts.len() / 3);
        while low < high {
            let middle = low + (high - low) / 2;
            key.clear();
            self.key(self.restart(middle)?, &mut key)?;
            if key.as_slice() < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        match low.checked_sub(1) {
            Some(before) => self.restart(before),
            None => Ok(self.first),
        }
    }

    fn restart(&self, number: usize) -> Result<usize, Error> {
        let at = be(&self.restarts[number * 3..], 3) as usize;
        if at < self.first || at >= self.bytes.len() {
            return Err(self.bad("restart is outside the block", self.bytes.len() + number * 3));
        }
        Ok(at)
    }

    /// In an index block: where the block is that can hold `wanted`; `None` if `wanted` is beyond all.
    pub(super) fn child_of(&self, wanted: &[u8]) -> Result<Option<usize>, Error> {
        let mut key = Vec::new();
        let mut at = self.seek(wanted)?;
        while at < self.bytes.len() {
            let found = self.key(at, &mut key)?;
            at = found.value_at;
            let child = varint(self.bytes, &mut at).and_then(|child| usize::try_from(child).ok());
            let child = child.ok_or_else(|| self.bad("record is cut off", found.value_at))?;
            if key.as_slice() >= wanted {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }
}
