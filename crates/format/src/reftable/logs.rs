//! Iteration over the logs of one table.

use std::ops::Range;

use packrace_object::{HashKind, ObjectId};

use crate::Error;
use crate::zlib::Inflater;

use super::block::{Block, HEAD_BYTES};
use super::layout::Layout;
use super::refs::parse_id;
use super::{FORMAT, LogChange, LogRecord, be, varint};

/// The bytes after the name in a key: a NUL and the inverted update index.
pub(super) const KEY_TAIL_BYTES: usize = 9;

/// Iterates over log records by name, newest first per name: [`LogIter::advance`], then [`LogIter::current`].
pub struct LogIter<'a> {
    bytes: &'a [u8],
    layout: Layout,
    /// Created for the first block.
    inflater: Option<Inflater>,
    /// The inflated content of the current block.
    content: Vec<u8>,
    /// The position of the current block.
    block_at: usize,
    /// The position of the next block in the file.
    next_block: Option<usize>,
    /// The offset of the next record in `content`.
    at: usize,
    key: Vec<u8>,
    current: Option<Found>,
    /// As in [`super::RefIter`].
    is_ahead: bool,
    /// Iteration ends at the first key without this prefix.
    prefix: Vec<u8>,
}

/// The offsets of a record's parts in the inflated block.
#[derive(Debug, Clone)]
struct Found {
    update_index: u64,
    change: Option<FoundChange>,
}

#[derive(Debug, Clone)]
struct FoundChange {
    old: ObjectId,
    new: ObjectId,
    name: Range<usize>,
    email: Range<usize>,
    seconds: u64,
    zone: i16,
    message: Range<usize>,
}

impl<'a> LogIter<'a> {
    /// Positions the iterator before the first record whose key is not less than `wanted`.
    pub(super) fn new(bytes: &'a [u8], layout: Layout, wanted: &[u8], prefix: &[u8]) -> Result<Self, Error> {
        let mut iter = LogIter {
            bytes,
            layout,
            inflater: None,
            content: Vec::new(),
            block_at: 0,
            next_block: None,
            at: 0,
            key: Vec::new(),
            current: None,
            is_ahead: false,
            prefix: prefix.to_vec(),
        };
        let Some(section) = &layout.logs else { return Ok(iter) };
        iter.next_block = layout.find_leaf(bytes, section, wanted)?;
        while iter.inflate_next()? {
            let block = iter.block()?;
            let Some(found) =
                block.search(wanted, |bytes, kind, at| skip_change(bytes, kind, at, layout.hash))?
            else {
                continue;
            };
            let (value_type, value_at) = (found.value_type, found.value_at);
            let mut key = wanted[..found.prefix].to_vec();
            key.extend_from_slice(found.suffix);
            iter.key = key;
            iter.take_change(value_type, value_at)?;
            iter.is_ahead = true;
            break;
        }
        Ok(iter)
    }

    /// The current record.
    pub fn current(&self) -> Option<LogRecord<'_>> {
        let Found { update_index, change } = self.current.as_ref()?;
        let change = change.as_ref().map(|change| LogChange {
            old: change.old,
            new: change.new,
            name: &self.content[change.name.clone()],
            email: &self.content[change.email.clone()],
            seconds: change.seconds,
            zone: change.zone,
            message: &self.content[change.message.clone()],
        });
        let name = &self.key[..self.key.len() - KEY_TAIL_BYTES];
        Some(LogRecord { name, update_index: *update_index, change })
    }

    /// Moves to the next record; false at the end.
    pub fn advance(&mut self) -> Result<bool, Error> {
        if !std::mem::take(&mut self.is_ahead) {
            self.current = None;
            while self.at >= self.records_end()? {
                if !self.inflate_next()? {
                    return Ok(false);
                }
            }
            let block = Block::inflated(&self.content, self.block_at, self.layout.skip(self.block_at))?;
            let key = block.key(self.at, &mut self.key)?;
            self.take_change(key.value_type, key.value_at)?;
        }
        // Comparing with an empty prefix is not free: an empty slice has no address, and a vector load from
        // there costs more than the rest of the record.
        if !self.prefix.is_empty() && !self.key.starts_with(&self.prefix) {
            (self.current, self.next_block) = (None, None);
            self.content.clear();
            self.at = 0;
            return Ok(false);
        }
        Ok(true)
    }

    /// Keys sort like records: by name, then newest first.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    fn records_end(&self) -> Result<usize, Error> {
        if self.content.is_empty() { Ok(0) } else { Ok(self.block()?.records().len()) }
    }

    fn block(&self) -> Result<Block<'_>, Error> {
        Block::inflated(&self.content, self.block_at, self.layout.skip(self.block_at))
    }

    fn take_change(&mut self, value_type: u8, mut at: usize) -> Result<(), Error> {
        let start = at;
        let records = self.block()?.records();
        let name_end =
            self.key.len().checked_sub(KEY_TAIL_BYTES).filter(|end| *end > 0 && self.key[*end] == 0);
        let change = parse_change(records, &mut at, value_type, self.layout.hash);
        let (Some(name_end), Some(change)) = (name_end, change) else {
            return Err(self.block()?.bad("log record is cut off", start));
        };
        self.at = at;
        self.current = Some(Found { update_index: !be(&self.key[name_end + 1..], 8), change });
        Ok(())
    }

    /// Inflates the next block; false after the last one.
    fn inflate_next(&mut self) -> Result<bool, Error> {
        self.content.clear();
        let (Some(start), Some(section)) = (self.next_block.take(), &self.layout.logs) else {
            return Ok(false);
        };
        let limit = section.leaves_end();
        if start >= limit {
            return Ok(false);
        }
        let bad = |what| Error::new(FORMAT, what, start as u64);
        let skip = self.layout.skip(start);
        let head_end = start + skip + HEAD_BYTES;
        let head = self.bytes[..limit].get(start + skip..head_end).ok_or_else(|| bad("block is cut off"))?;
        match head[0] {
            b'g' => {}
            // Lower levels of the index precede the uppermost one.
            b'i' if limit < self.layout.end => return Ok(false),
            _ => return Err(bad("unexpected type of block")),
        }
        let length = (be(&head[1..], 3) as usize).checked_sub(skip + HEAD_BYTES);
        let length = length.ok_or_else(|| bad("block is too short"))?;
        let deflated = &self.bytes[head_end..limit];
        let used = self.inflater.get_or_insert_with(Inflater::new).inflate_measured(
            deflated,
            length,
            &mut self.content,
        );
        let used = used.map_err(|error| Error::new(FORMAT, error.what, head_end as u64))?;
        (self.block_at, self.at, self.next_block) = (start, 0, Some(head_end + used));
        self.block().map(|_| true)
    }
}

impl std::fmt::Debug for LogIter<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("LogIter").field("block_at", &self.block_at).field("current", &self.current).finish()
    }
}

fn skip_change(bytes: &[u8], log_type: u8, mut at: usize, hash: HashKind) -> Option<usize> {
    parse_change(bytes, &mut at, log_type, hash).map(|_| at)
}

fn parse_change(bytes: &[u8], at: &mut usize, log_type: u8, hash: HashKind) -> Option<Option<FoundChange>> {
    let text = |at: &mut usize| {
        let length = usize::try_from(varint(bytes, at)?).ok()?;
        let text = *at..at.checked_add(length)?;
        *at = text.end;
        (text.end <= bytes.len()).then_some(text)
    };
    match log_type {
        0 => Some(None),
        1 => {
            let (old, new) = (parse_id(bytes, at, hash)?, parse_id(bytes, at, hash)?);
            let (name, email) = (text(at)?, text(at)?);
            let seconds = varint(bytes, at)?;
            let zone = i16::from_be_bytes(*bytes.get(*at..)?.first_chunk()?);
            *at += 2;
            Some(Some(FoundChange { old, new, name, email, seconds, zone, message: text(at)? }))
        }
        _ => None,
    }
}
