//! Iteration over the records of one table.

use packrace_object::{HashKind, ObjectId};

use crate::zlib::Inflater;
use crate::{Error, stored_id};

use super::block::Block;
use super::{FORMAT, Layout, LogChange, LogRecord, MAX_INDEX_LEVELS, RefRecord, RefValue, varint};

/// Goes through ref records by name: [`RefIter::advance`], then look at [`RefIter::current`].
#[derive(Debug, Clone)]
pub struct RefIter<'a> {
    bytes: &'a [u8],
    layout: Layout,
    block: Option<Block<'a>>,
    /// Where in the block the next record starts.
    at: usize,
    key: Vec<u8>,
    current: Option<(u64, RefValue<'a>)>,
    /// The current record is the first that was asked for, and was not advanced to yet.
    is_ahead: bool,
}

impl<'a> RefIter<'a> {
    pub(super) fn new(bytes: &'a [u8], layout: Layout, name: &[u8]) -> Result<Self, Error> {
        let (block, key, current) = (None, Vec::new(), None);
        let mut iter = RefIter { bytes, layout, block, at: 0, key, current, is_ahead: false };
        if !layout.has_refs {
            return Ok(iter);
        }
        let Some(start) = iter.block_of(name)? else { return Ok(iter) };
        let block = layout.block(bytes, start)?;
        if block.kind != b'r' {
            return Err(block.bad("block is no ref block", 0));
        }
        iter.at = block.seek(name)?;
        iter.block = Some(block);
        // From the restart on, record by record, into the next block if need be.
        while iter.advance()? {
            if iter.key.as_slice() >= name {
                iter.is_ahead = true;
                break;
            }
        }
        Ok(iter)
    }

    /// The record at hand.
    #[inline]
    pub fn current(&self) -> Option<RefRecord<'_>> {
        let (update_index, value) = self.current?;
        Some(RefRecord { name: &self.key, update_index, value })
    }

    /// What the record at hand says, for as long as the table lives.
    pub fn value(&self) -> Option<RefValue<'a>> {
        self.current.map(|(_, value)| value)
    }

    /// Goes on to the next record. False at the end.
    pub fn advance(&mut self) -> Result<bool, Error> {
        if std::mem::take(&mut self.is_ahead) {
            return Ok(true);
        }
        self.current = None;
        loop {
            let Some(block) = self.block else { return Ok(false) };
            if self.at < block.records().len() {
                let key = block.key(self.at, &mut self.key)?;
                let mut at = key.value_at;
                let parsed = parse_value(block.records(), &mut at, key.value_type, self.layout.hash);
                let (update_index, value) =
                    parsed.ok_or_else(|| block.bad("record is cut off", key.value_at))?;
                self.at = at;
                self.current = Some((self.layout.min_update_index.saturating_add(update_index), value));
                return Ok(true);
            }
            self.block = self.block_after(&block)?;
            self.at = self.block.map_or(0, |block| block.first());
            self.key.clear();
        }
    }

    /// The block that can hold `name`: through the index, or else the first.
    fn block_of(&self, name: &[u8]) -> Result<Option<usize>, Error> {
        if self.layout.ref_index_at == 0 {
            return Ok(Some(0));
        }
        let mut at = self.layout.ref_index_at;
        for _ in 0..MAX_INDEX_LEVELS {
            let block = self.layout.block(self.bytes, at)?;
            match block.kind {
                b'i' => match block.child_of(name)? {
                    Some(child) => at = child,
                    None => return Ok(None),
                },
                _ => return Ok(Some(at)),
            }
        }
        Err(Error::new(FORMAT, "index blocks lead nowhere", self.layout.ref_index_at as u64))
    }

    /// The ref block behind `block`: at the next multiple of the block size, or, where a byte that is no padding
    /// follows at once, there.
    fn block_after(&self, block: &Block<'a>) -> Result<Option<Block<'a>>, Error> {
        let end = block.at + block.length;
        let is_packed = self.layout.block_bytes == 0 || self.bytes.get(end).is_some_and(|byte| *byte != 0);
        let next = match is_packed || block.length > self.layout.block_bytes {
            true => end,
            false => block.at + self.layout.block_bytes,
        };
        if next >= self.layout.refs_end {
            return Ok(None);
        }
        let next = self.layout.block(self.bytes, next)?;
        match next.kind {
            b'r' => Ok(Some(next)),
            // The footer knows the root of the index only, and other levels stand before it.
            b'i' if self.layout.ref_index_at > 0 => Ok(None),
            _ => Err(next.bad("unexpected type of block", 0)),
        }
    }
}

#[inline]
fn parse_value<'a>(
    bytes: &'a [u8],
    at: &mut usize,
    value_type: u8,
    hash: HashKind,
) -> Option<(u64, RefValue<'a>)> {
    let update_index = varint(bytes, at)?;
    let value = match value_type {
        0 => RefValue::Deletion,
        1 => RefValue::Id(parse_id(bytes, at, hash)?),
        2 => RefValue::Tag { id: parse_id(bytes, at, hash)?, peeled: parse_id(bytes, at, hash)? },
        3 => {
            let length = usize::try_from(varint(bytes, at)?).ok()?;
            let target = bytes.get(*at..at.checked_add(length)?)?;
            *at += length;
            RefValue::Symbolic(target)
        }
        _ => return None,
    };
    Some((update_index, value))
}

#[inline]
fn parse_id(bytes: &[u8], at: &mut usize, hash: HashKind) -> Option<ObjectId> {
    let id = stored_id::raw(bytes, *at, hash)?;
    *at += hash.len_in_bytes();
    Some(id)
}

/// Iterates over log records by name, the newest of each first.
pub struct LogIter<'a> {
    bytes: &'a [u8],
    layout: Layout,
    inflater: Inflater,
    /// The inflated block, with its four-byte head.
    block: Vec<u8>,
    /// Where in the file the next block starts.
    next_block: Option<usize>,
    at: usize,
    key: Vec<u8>,
}

impl<'a> LogIter<'a> {
    pub(super) fn new(bytes: &'a [u8], layout: Layout) -> Result<Self, Error> {
        let starts_with_logs =
            !layout.has_refs && bytes[..layout.end].get(layout.header_bytes) == Some(&b'g');
        let next_block = if starts_with_logs { Some(0) } else { Some(layout.log_at).filter(|at| *at > 0) };
        let (block, key) = (Vec::new(), Vec::new());
        Ok(LogIter { bytes, layout, inflater: Inflater::new(), block, next_block, at: 0, key })
    }

    /// The next record.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<LogRecord>, Error> {
        loop {
            if !self.block.is_empty() {
                let block = Block::of_bytes(&self.block, b'g', 0, 0)?;
                if self.at < block.records().len() {
                    let key = block.key(self.at, &mut self.key)?;
                    let mut at = key.value_at;
                    let record =
                        parse_log(block.records(), &mut at, key.value_type, &self.key, self.layout.hash);
                    let record = record.ok_or_else(|| block.bad("log record is cut off", key.value_at))?;
                    self.at = at;
                    return Ok(Some(record));
                }
            }
            if !self.inflate_next()? {
                return Ok(None);
            }
        }
    }

    fn inflate_next(&mut self) -> Result<bool, Error> {
        let Some(start) = self.next_block.take() else { return Ok(false) };
        let limit = if self.layout.log_index_at > start { self.layout.log_index_at } else { self.layout.end };
        let skip = if start == 0 { self.layout.header_bytes } else { 0 };
        let bad = |what| Error::new(FORMAT, what, start as u64);
        let Some(head) = self.bytes[..limit].get(start + skip..start + skip + 4) else { return Ok(false) };
        if head[0] != b'g' {
            return Ok(false);
        }
        let length = super::be(&head[1..], 3) as usize;
        let content = length.checked_sub(skip + 4).ok_or_else(|| bad("block is too short"))?;
        let deflated = &self.bytes[start + skip + 4..limit];
        let mut inflated = Vec::new();
        let used = self.inflater.inflate_measured(deflated, content, &mut inflated)?;
        self.block.clear();
        self.block.extend_from_slice(head);
        self.block.extend_from_slice(&inflated);
        (self.at, self.next_block) = (4, Some(start + skip + 4 + used));
        self.key.clear();
        Ok(true)
    }
}

fn parse_log(bytes: &[u8], at: &mut usize, log_type: u8, key: &[u8], hash: HashKind) -> Option<LogRecord> {
    let name_end = key.len().checked_sub(9).filter(|end| key[*end] == 0)?;
    let update_index = !super::be(&key[name_end + 1..], 8);
    let name = key[..name_end].to_vec();
    let change = match log_type {
        0 => None,
        1 => {
            let text = |at: &mut usize| {
                let length = usize::try_from(varint(bytes, at)?).ok()?;
                let text = bytes.get(*at..at.checked_add(length)?)?.to_vec();
                *at += length;
                Some(text)
            };
            let (old, new) = (parse_id(bytes, at, hash)?, parse_id(bytes, at, hash)?);
            let (name, email) = (text(at)?, text(at)?);
            let seconds = varint(bytes, at)?;
            let offset = bytes.get(*at..*at + 2)?;
            *at += 2;
            let zone = i16::from_be_bytes([offset[0], offset[1]]);
            Some(LogChange { old, new, name, email, seconds, zone, message: text(at)? })
        }
        _ => return None,
    };
    Some(LogRecord { name, update_index, change })
}
