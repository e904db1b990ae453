//! A block: a type, a length, records with shared prefixes, and the offsets of restarts: records stored
//! whole.
//!
//! ```text
//! u8 type | u24 length | records | u24 restart offset × n | u16 n
//! record: varint prefix length | varint suffix length << 3 | type | suffix | value
//! ```
//!
//! Lengths and offsets count from the start of the block; for the first block that is the start of the file,
//! header included. In a log block everything after the length is deflated; its lengths and offsets count
//! inflated bytes.

use std::cmp::Ordering;

use crate::Error;

use super::{FORMAT, be, varint};

/// The bytes before the records.
pub(super) const HEAD_BYTES: usize = 4;

/// A block in place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    /// The block up to the restart table, from its start or, if it was inflated, from the first record.
    bytes: &'a [u8],
    restarts: &'a [u8],
    /// The position of the block in the file.
    pub(super) at: usize,
    pub(super) kind: u8,
    /// The offset in `bytes` of the first record.
    first: usize,
    /// The bytes that restart offsets count but `bytes` lacks.
    missing: usize,
    /// The length, including the restart table.
    pub(super) length: usize,
}

/// The key of a record, and the offset of its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// The bytes that it shares with the previous key.
    pub(super) prefix: usize,
    pub(super) value_type: u8,
    pub(super) value_at: usize,
}

/// A record as stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored<'a> {
    /// The bytes that it shares with the previous key; after [`Block::search`], with the searched key
    /// instead.
    pub(super) prefix: usize,
    pub(super) suffix: &'a [u8],
    pub(super) value_type: u8,
    pub(super) value_at: usize,
}

impl<'a> Block<'a> {
    /// Reads the block at `at`, which is not a log block; `skip` is the length of the file's header for the
    /// first block, else 0.
    pub(super) fn read(file: &'a [u8], at: usize, skip: usize) -> Result<Self, Error> {
        let bad = |what| Error::new(FORMAT, what, at as u64);
        let head = file.get(at..).and_then(|bytes| bytes.get(skip..skip + HEAD_BYTES));
        let head = head.ok_or_else(|| bad("block is cut off"))?;
        let length = be(&head[1..], 3) as usize;
        let bytes = file[at..].get(..length).ok_or_else(|| bad("block is longer than the file"))?;
        Self::of_bytes(bytes, head[0], at, skip + HEAD_BYTES, 0)
    }

    /// A log block with the inflated `content`; `skip` as in [`Block::read`].
    pub(super) fn inflated(content: &'a [u8], at: usize, skip: usize) -> Result<Self, Error> {
        Self::of_bytes(content, b'g', at, 0, skip + HEAD_BYTES)
    }

    fn of_bytes(bytes: &'a [u8], kind: u8, at: usize, first: usize, missing: usize) -> Result<Self, Error> {
        let bad = |what| Error::new(FORMAT, what, at as u64);
        let length = bytes.len();
        let count_at = length.checked_sub(2).filter(|at| *at >= first);
        let count_at = count_at.ok_or_else(|| bad("block is too short"))?;
        let count = be(&bytes[count_at..], 2) as usize;
        if count == 0 {
            return Err(bad("block has no restarts"));
        }
        let restarts_at = count_at.checked_sub(count * 3).filter(|at| *at >= first);
        let restarts_at = restarts_at.ok_or_else(|| bad("block has more restarts than bytes"))?;
        let restarts = &bytes[restarts_at..count_at];
        Ok(Block { bytes: &bytes[..restarts_at], restarts, at, kind, first, missing, length })
    }

    pub(super) fn records(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// An error at `offset` of the block; if the block was inflated, only its start is reported.
    #[cold]
    pub(super) fn bad(&self, what: &'static str, offset: usize) -> Error {
        Error::new(FORMAT, what, (self.at + if self.missing > 0 { 0 } else { offset }) as u64)
    }

    #[inline]
    fn stored(&self, mut at: usize) -> Result<Stored<'a>, Error> {
        let start = at;
        let lengths = varint(self.bytes, &mut at).zip(varint(self.bytes, &mut at));
        let (prefix, suffix) = lengths.ok_or_else(|| self.bad("record is cut off", start))?;
        let value_type = (suffix & 7) as u8;
        // The next step compares it with a key's length, so a number that does not fit is too large anyway.
        let prefix = usize::try_from(prefix).unwrap_or(usize::MAX);
        let suffix_end = usize::try_from(suffix >> 3).ok().and_then(|length| at.checked_add(length));
        let suffix = suffix_end.and_then(|end| self.bytes.get(at..end));
        let suffix = suffix.ok_or_else(|| self.bad("record is cut off", start))?;
        // With an empty suffix, it would be a prefix of the previous key, or no key.
        if suffix.is_empty() {
            return Err(self.bad("keys of records do not rise", start));
        }
        Ok(Stored { prefix, suffix, value_type, value_at: at + suffix.len() })
    }

    /// Reads the key of the record at `at` into `key`, which holds the previous record's key, even across a
    /// block boundary, or nothing.
    #[inline]
    pub(super) fn key(&self, at: usize, key: &mut Vec<u8>) -> Result<Key, Error> {
        let Stored { prefix, suffix, value_type, value_at } = self.stored(at)?;
        if prefix > key.len() || prefix > 0 && at == self.first {
            return Err(self.bad("record shares more than there is", at));
        }
        // Keys ascend; a damaged table that breaks this would confuse merging.
        if suffix[0] <= key.get(prefix).copied().unwrap_or_default() && suffix <= &key[prefix..] {
            return Err(self.bad("keys of records do not rise", at));
        }
        key.truncate(prefix);
        key.extend_from_slice(suffix);
        Ok(Key { prefix, value_type, value_at })
    }

    /// The first record whose key is not less than `wanted`; `skip` returns the end of a value of a given
    /// type. A binary search over restarts, then record by record; no key is assembled.
    pub(super) fn search(
        &self,
        wanted: &[u8],
        skip: impl Fn(&'a [u8], u8, usize) -> Option<usize>,
    ) -> Result<Option<Stored<'a>>, Error> {
        let mut at = self.restart_before(wanted)?;
        // The previous key is less than `wanted`: the bytes that they share, and its length.
        let (mut common, mut length) = (0, 0);
        while at < self.bytes.len() {
            let stored = self.stored(at)?;
            if stored.prefix > length {
                return Err(self.bad("record shares more than there is", at));
            }
            // A key that shares more with the previous key than that shares with `wanted` is less than
            // `wanted`, too.
            if stored.prefix <= common {
                let rest = &wanted[stored.prefix..];
                if stored.suffix >= rest {
                    return Ok(Some(stored));
                }
                common = stored.prefix + shared(stored.suffix, rest);
            }
            length = stored.prefix + stored.suffix.len();
            let end = skip(self.bytes, stored.value_type, stored.value_at);
            at = end.ok_or_else(|| self.bad("record is cut off", at))?;
        }
        Ok(None)
    }

    /// The last restart before the first record whose key is not less than `wanted`.
    fn restart_before(&self, wanted: &[u8]) -> Result<usize, Error> {
        let (mut low, mut high) = (0, self.restarts.len() / 3);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = self.restart(middle)?;
            let stored = self.stored(at)?;
            if stored.prefix != 0 {
                return Err(self.bad("record at a restart is not whole", at));
            }
            match stored.suffix.cmp(wanted) {
                Ordering::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        match low.checked_sub(1) {
            Some(before) => self.restart(before),
            None => Ok(self.first),
        }
    }

    fn restart(&self, number: usize) -> Result<usize, Error> {
        let at = (be(&self.restarts[number * 3..], 3) as usize).checked_sub(self.missing);
        let at = at.filter(|at| *at >= self.first && *at < self.bytes.len());
        at.ok_or_else(|| self.bad("restart is outside the block", self.bytes.len() + number * 3))
    }

    /// In an index block: the position of the block that may contain `wanted`; `None` if `wanted` is beyond
    /// all.
    pub(super) fn child_of(&self, wanted: &[u8]) -> Result<Option<usize>, Error> {
        let found = self.search(wanted, |bytes, _, mut at| varint(bytes, &mut at).map(|_| at))?;
        let Some(Stored { mut value_at, .. }) = found else { return Ok(None) };
        let child = varint(self.bytes, &mut value_at).and_then(|child| usize::try_from(child).ok());
        // Blocks precede their index, so following it ends.
        let child = child.filter(|child| *child < self.at);
        child.ok_or_else(|| self.bad("index leads nowhere", value_at)).map(Some)
    }
}

/// The length of the longest common prefix.
#[inline]
pub(super) fn shared(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}
