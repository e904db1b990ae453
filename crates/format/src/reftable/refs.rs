//! Iteration over the refs of one table.

use packrace_object::{HashKind, ObjectId};

use crate::{Error, stored_id};

use super::block::Block;
use super::layout::{Layout, Section};
use super::{RefRecord, RefValue, varint};

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
    /// Names that do not start so end it.
    prefix: Vec<u8>,
}

impl<'a> RefIter<'a> {
    /// Stands before the first record whose name is `name` or comes after it.
    pub(super) fn new(bytes: &'a [u8], layout: Layout, name: &[u8], prefix: &[u8]) -> Result<Self, Error> {
        let mut iter = RefIter::nowhere(bytes, layout, prefix);
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

    /// Stands nowhere, and is at its end.
    pub(super) fn nowhere(bytes: &'a [u8], layout: Layout, prefix: &[u8]) -> Self {
        let (block, key, current, prefix) = (None, Vec::new(), None, prefix.to_vec());
        RefIter { bytes, layout, block, at: 0, key, current, is_ahead: false, prefix }
    }

    /// Goes to the start of the ref block at `at`. Where the next block can be at the earliest is given back.
    pub(super) fn enter(&mut self, section: &Section, at: usize) -> Result<usize, Error> {
        let block = self.layout.leaf(self.bytes, section, at)?;
        self.key.clear();
        (self.block, self.at, self.is_ahead) = (Some(block), block.first(), false);
        Ok(block.at + block.length)
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

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Goes on to the next record. False at the end.
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

    /// Goes on to the next record of the block. False at its end, and behind the last name with the prefix.
    #[inline]
    pub(super) fn advance_in_block(&mut self) -> Result<bool, Error> {
        if !std::mem::take(&mut self.is_ahead) {
            self.current = None;
            let Some(block) = self.block.filter(|block| self.at < block.records().len()) else {
                return Ok(false);
            };
            let key = block.key(self.at, &mut self.key)?;
            self.at = key.value_at;
            self.take_value(&block, key.value_type)?;
        }
        // Comparing with nothing is not free: an empty slice points nowhere, and a vector load from nowhere costs more than
        // the rest of the record.
        if !self.prefix.is_empty() && !self.key.starts_with(&self.prefix) {
            (self.current, self.block) = (None, None);
            return Ok(false);
        }
        Ok(true)
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

/// The update index and the value of the ref of this name. Allocates nothing.
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
    Ok(Some((layout.min_update_index.saturating_add(delta), value)))
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
pub(super) fn parse_id(bytes: &[u8], at: &mut usize, hash: HashKind) -> Option<ObjectId> {
    let id = stored_id::raw(bytes, *at, hash)?;
    *at += hash.len_in_bytes();
    Some(id)
}
