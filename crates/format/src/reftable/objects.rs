//! Finds refs by the objects that they point at, with object blocks.
//!
//! ```text
//! object record: varint prefix length | varint suffix length << 3 | count if below 8 | suffix of an abbreviated id
//!                | varint count, if it was 0 | varint distance from the ref block before × count
//! ```
//!
//! A count of 0 means that such a ref may be in any block.

use packrace_object::ObjectId;

use crate::{Error, NameRange};

use super::block::{Block, Stored};
use super::layout::Layout;
use super::{RefIter, RefRecord, RefValue, varint};

/// Iterates over the refs that point at an object or at a tag of it, by name, like [`RefIter`].
#[derive(Debug, Clone)]
pub struct RefsTo<'a> {
    refs: RefIter<'a>,
    id: ObjectId,
    layout: Layout,
    /// The blocks to search; `None` means all.
    blocks: Option<Positions<'a>>,
}

/// Positions of ref blocks, ascending.
#[derive(Debug, Clone)]
struct Positions<'a> {
    block: Block<'a>,
    at: usize,
    left: u64,
    last: Option<usize>,
    /// The end of the last block: the next one must not start before it, so nothing is read twice.
    earliest: usize,
}

impl<'a> RefsTo<'a> {
    pub(super) fn new(bytes: &'a [u8], layout: Layout, id: &ObjectId) -> Result<Self, Error> {
        let nowhere = RefIter::nowhere(bytes, layout, None);
        let found = match layout.objects.filter(|_| id.kind() == layout.hash) {
            Some(_) => Positions::find(bytes, &layout, id)?,
            None => Lookup::Everywhere,
        };
        let (refs, blocks) = match found {
            _ if id.kind() != layout.hash => (nowhere, None),
            Lookup::Everywhere => (RefIter::new(bytes, layout, &NameRange::from(b""))?, None),
            Lookup::Nowhere => (nowhere, None),
            Lookup::At(positions) => (nowhere, Some(positions)),
        };
        Ok(RefsTo { refs, id: *id, layout, blocks })
    }

    /// The current record.
    pub fn current(&self) -> Option<RefRecord<'_>> {
        self.refs.current()
    }

    /// The value of the current record, valid as long as the table.
    pub fn value(&self) -> Option<RefValue<'a>> {
        self.refs.value()
    }

    /// Moves to the next record; false at the end.
    pub fn advance(&mut self) -> Result<bool, Error> {
        loop {
            let is_there = match self.blocks {
                None => self.refs.advance()?,
                Some(_) => self.refs.advance_in_block()?,
            };
            match self.refs.value() {
                Some(RefValue::Id(id)) if id == self.id => return Ok(true),
                Some(RefValue::Tag { id, peeled }) if id == self.id || peeled == self.id => return Ok(true),
                _ if is_there => {}
                _ => {
                    if !self.enter_next()? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    fn enter_next(&mut self) -> Result<bool, Error> {
        let (Some(blocks), Some(section)) = (&mut self.blocks, &self.layout.refs) else { return Ok(false) };
        let Some(at) = blocks.next(section.leaves_end())? else { return Ok(false) };
        blocks.earliest = self.refs.enter(section, at)?;
        Ok(true)
    }
}

enum Lookup<'a> {
    Everywhere,
    Nowhere,
    At(Positions<'a>),
}

impl<'a> Positions<'a> {
    fn find(bytes: &'a [u8], layout: &Layout, id: &ObjectId) -> Result<Lookup<'a>, Error> {
        let Some(section) = &layout.objects else { return Ok(Lookup::Everywhere) };
        let wanted = &id.as_slice()[..layout.id_bytes];
        let Some((block, found)) = layout.seek(bytes, section, wanted, skip_positions)? else {
            return Ok(Lookup::Nowhere);
        };
        let Stored { prefix, suffix, value_type, value_at: mut at } = found;
        if prefix + suffix.len() != wanted.len() {
            return Err(block.bad("object id is not as long as announced", at));
        }
        if suffix != &wanted[prefix..] {
            return Ok(Lookup::Nowhere);
        }
        let left = count(block.records(), value_type, &mut at);
        Ok(match left.ok_or_else(|| block.bad("record is cut off", at))? {
            0 => Lookup::Everywhere,
            left => Lookup::At(Positions { block, at, left, last: None, earliest: 0 }),
        })
    }

    /// The next position, which is below `end`.
    fn next(&mut self, end: usize) -> Result<Option<usize>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        let start = self.at;
        let distance = varint(self.block.records(), &mut self.at);
        let distance = distance.ok_or_else(|| self.block.bad("record is cut off", start))?;
        let position = usize::try_from(distance).ok().and_then(|distance| match self.last {
            None => Some(distance),
            Some(last) => last.checked_add(distance),
        });
        let position = position.filter(|position| (self.earliest..end).contains(position));
        let position = position.ok_or_else(|| self.block.bad("there is no such block", start))?;
        self.last = Some(position);
        Ok(Some(position))
    }
}

fn count(bytes: &[u8], short: u8, at: &mut usize) -> Option<u64> {
    if short > 0 { Some(u64::from(short)) } else { varint(bytes, at) }
}

fn skip_positions(bytes: &[u8], short: u8, mut at: usize) -> Option<usize> {
    for _ in 0..count(bytes, short, &mut at)? {
        varint(bytes, &mut at)?;
    }
    Some(at)
}
