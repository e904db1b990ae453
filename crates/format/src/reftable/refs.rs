//! Iteration over the refs of one table.

use packrace_object::{HashKind, ObjectId, StoredId};

use crate::{Error, NameRange};

use super::block::{Block, shared};
use super::layout::{Layout, TableSection};
use super::{RefRecord, RefValue, varint};

/// Iterates over ref records by name: [`RefIter::advance`], then [`RefIter::current`].
#[derive(Debug, Clone)]
pub struct RefIter<'a> {
    bytes: &'a [u8],
    layout: Layout,
    block: Option<Block<'a>>,
    /// The offset of the next record in the block.
    at: usize,
    key: Vec<u8>,
    current: Option<(u64, RefValue<'a, StoredId<'a>>)>,
    /// Whether the current record is the first in the range and has not been returned yet.
    is_ahead: bool,
    /// The first name beyond the range.
    end: Option<Vec<u8>>,
    /// The bytes of `end` that the last compared name shares.
    shared_with_end: usize,
}

impl<'a> RefIter<'a> {
    /// Positions the iterator before the first record of the range.
    pub(super) fn new(bytes: &'a [u8], layout: Layout, range: &NameRange) -> Result<Self, Error> {
        let NameRange { start: name, end } = range;
        let mut iter = RefIter::nowhere(bytes, layout, end.clone());
        let Some(section) = &layout.refs else { return Ok(iter) };
        let skip = |bytes, kind, at| skip_value(bytes, kind, at, layout.hash);
        if let Some((block, found)) = layout.seek(bytes, section, name, skip)? {
            iter.key.extend_from_slice(&name[..found.prefix]);
            iter.key.extend_from_slice(found.suffix);
            (iter.block, iter.at, iter.is_ahead) = (Some(block), found.value_at, true);
            iter.take_value(&block, found.value_type)?;
        }
        Ok(iter)
    }

    /// An iterator at its end.
    pub(super) fn nowhere(bytes: &'a [u8], layout: Layout, end: Option<Vec<u8>>) -> Self {
        let (block, key, current) = (None, Vec::new(), None);
        RefIter { bytes, layout, block, at: 0, key, current, is_ahead: false, end, shared_with_end: 0 }
    }

    /// Moves to the start of the ref block at `at`; returns the earliest possible position of the next block.
    pub(super) fn enter(&mut self, section: &TableSection, at: usize) -> Result<usize, Error> {
        let block = self.layout.leaf(self.bytes, section, at)?;
        self.key.clear();
        (self.block, self.at, self.is_ahead) = (Some(block), block.first(), false);
        Ok(block.at + block.length)
    }

    /// The current record.
    #[inline]
    pub fn current(&self) -> Option<RefRecord<'_>> {
        let (update_index, value) = self.current?;
        Some(RefRecord { name: &self.key, update_index, value: value.to_ids() })
    }

    /// The value of the current record, valid as long as the table.
    pub fn value(&self) -> Option<RefValue<'a>> {
        self.stored_value().map(RefValue::to_ids)
    }

    /// The same, with ids as stored.
    #[inline]
    pub fn stored_value(&self) -> Option<RefValue<'a, StoredId<'a>>> {
        self.current.map(|(_, value)| value)
    }

    /// The name of the current record.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Moves to the next record; false at the end.
    pub fn advance(&mut self) -> Result<bool, Error> {
        loop {
            if self.advance_in_block()? {
                return Ok(true);
            }
            let (Some(block), Some(section)) = (self.block.take(), &self.layout.refs) else {
                return Ok(false);
            };
            self.block = self.layout.leaf_after(self.bytes, section, &block)?;
            self.at = self.block.map_or(0, |block| block.first());
        }
    }

    /// Moves to the next record of the block; false at its end, and beyond the range.
    #[inline]
    pub(super) fn advance_in_block(&mut self) -> Result<bool, Error> {
        let mut shared_before = 0;
        if !std::mem::take(&mut self.is_ahead) {
            self.current = None;
            let Some(block) = self.block.filter(|block| self.at < block.records().len()) else {
                return Ok(false);
            };
            let key = block.key(self.at, &mut self.key)?;
            (self.at, shared_before) = (key.value_at, key.prefix);
            self.take_value(&block, key.value_type)?;
        }
        if self.is_past_end(shared_before) {
            (self.current, self.block) = (None, None);
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether the name is beyond the range; `shared_before` is the length that it shares with the previous
    /// name.
    #[inline]
    fn is_past_end(&mut self, shared_before: usize) -> bool {
        let Some(end) = &self.end else { return false };
        // A name that shares more with the previous name than that shares with the end precedes the end, too.
        if shared_before > self.shared_with_end {
            return false;
        }
        self.shared_with_end = shared(&self.key, end);
        self.key >= *end
    }

    #[inline]
    fn take_value(&mut self, block: &Block<'a>, value_type: u8) -> Result<(), Error> {
        let start = self.at;
        let parsed = parse_value(block.records(), &mut self.at, value_type, self.layout.hash);
        let Some((update_index, value)) = parsed else { return Err(block.bad("record is cut off", start)) };
        self.current = Some((self.layout.min_update_index.saturating_add(update_index), value));
        Ok(())
    }
}

/// The update index and the value of the ref with this name; allocates nothing.
pub(super) fn find<'a>(
    bytes: &'a [u8],
    layout: &Layout,
    name: &[u8],
) -> Result<Option<(u64, RefValue<'a>)>, Error> {
    let Some(section) = &layout.refs else { return Ok(None) };
    let skip = |bytes, kind, at| skip_value(bytes, kind, at, layout.hash);
    let Some((block, found)) = layout.seek(bytes, section, name, skip)? else { return Ok(None) };
    if found.suffix != &name[found.prefix..] {
        return Ok(None);
    }
    let mut at = found.value_at;
    let value = parse_value(block.records(), &mut at, found.value_type, layout.hash);
    let (delta, value) = value.ok_or_else(|| block.bad("record is cut off", found.value_at))?;
    Ok(Some((layout.min_update_index.saturating_add(delta), value.to_ids())))
}

/// Whether a record has a name that starts with `prefix`; allocates nothing.
pub(super) fn has_below(bytes: &[u8], layout: &Layout, prefix: &[u8]) -> Result<bool, Error> {
    let Some(section) = &layout.refs else { return Ok(false) };
    let skip = |bytes, kind, at| skip_value(bytes, kind, at, layout.hash);
    // The suffix lacks the bytes that the record shares with the prefix.
    let found = layout.seek(bytes, section, prefix, skip)?;
    Ok(found.is_some_and(|(_, found)| found.suffix.starts_with(&prefix[found.prefix..])))
}

fn skip_value(bytes: &[u8], value_type: u8, mut at: usize, hash: HashKind) -> Option<usize> {
    parse_value(bytes, &mut at, value_type, hash).map(|_| at)
}

#[inline]
fn parse_value<'a>(
    bytes: &'a [u8],
    at: &mut usize,
    value_type: u8,
    hash: HashKind,
) -> Option<(u64, RefValue<'a, StoredId<'a>>)> {
    let update_index = varint(bytes, at)?;
    let value = match value_type {
        0 => RefValue::Deletion,
        1 => RefValue::Id(stored_id(bytes, at, hash)?),
        2 => RefValue::Tag { id: stored_id(bytes, at, hash)?, peeled: stored_id(bytes, at, hash)? },
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

pub(super) fn parse_id(bytes: &[u8], at: &mut usize, hash: HashKind) -> Option<ObjectId> {
    stored_id(bytes, at, hash).map(StoredId::to_id)
}

#[inline]
fn stored_id<'a>(bytes: &'a [u8], at: &mut usize, hash: HashKind) -> Option<StoredId<'a>> {
    let id = StoredId::raw(bytes, *at, hash)?;
    *at += hash.len_in_bytes();
    Some(id)
}
