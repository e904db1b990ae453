//! The sections of a table, and the search through their indexes.
//!
//! ```text
//! header   'REFT' | u8 version | u24 block size | u64 min update index | u64 max update index | v2: u32 hash id
//! blocks   ref blocks 'r', their index 'i'; object blocks 'o', their index; log blocks 'g', their index
//! footer   header again | u64 ref index | u64 objects << 5 | id length | u64 object index | u64 logs | u64 log index
//!          | u32 CRC-32 of the footer before it
//! ```
//!
//! A position of 0 means that there is no such section; logs at the start of a table also have position 0.
//! Below the uppermost level of an index, every level is complete; the uppermost is one block or, as git
//! writes it, up to three adjacent ones.

use packrace_object::HashKind;

use crate::Error;

use super::block::{Block, Stored};
use super::{FORMAT, be};

pub(super) const SIGNATURE: &[u8; 4] = b"REFT";
pub(super) const HEADER_V1_BYTES: usize = 24;
pub(super) const HEADER_V2_BYTES: usize = 28;
/// The footer's bytes after the copy of the header.
pub(super) const FOOTER_REST_BYTES: usize = 5 * 8 + 4;
/// The shortest abbreviation that git writes; the field has five bits.
pub(super) const MIN_ID_BYTES: usize = 2;

/// The most levels of index blocks that are followed: far more than a table of 2^64 bytes needs.
const MAX_INDEX_LEVELS: usize = 16;

/// The content of header and footer, checked against the length of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) hash: HashKind,
    pub(super) header_bytes: usize,
    /// 0 if blocks are not aligned.
    pub(super) block_bytes: usize,
    pub(super) min_update_index: u64,
    pub(super) max_update_index: u64,
    pub(super) refs: Option<TableSection>,
    pub(super) objects: Option<TableSection>,
    /// The length of ids in object blocks.
    pub(super) id_bytes: usize,
    pub(super) logs: Option<TableSection>,
    /// Where the footer starts.
    pub(super) end: usize,
}

/// Blocks of one type and their index.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableSection {
    pub(super) kind: u8,
    pub(super) first: usize,
    /// The uppermost level of the index.
    index: Option<usize>,
    end: usize,
}

impl Layout {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let bad = |what, offset: usize| Error::new(FORMAT, what, offset as u64);
        if bytes.get(..4) != Some(SIGNATURE) {
            return Err(bad("signature is wrong", 0));
        }
        let header_bytes = match bytes.get(4) {
            Some(1) => HEADER_V1_BYTES,
            Some(2) => HEADER_V2_BYTES,
            _ => return Err(bad("version is neither 1 nor 2", 4)),
        };
        let footer_bytes = header_bytes + FOOTER_REST_BYTES;
        if bytes.len() < header_bytes + footer_bytes {
            return Err(bad("file is too short", bytes.len()));
        }
        let end = bytes.len() - footer_bytes;
        let footer = &bytes[end..];
        if footer[..header_bytes] != bytes[..header_bytes] {
            return Err(bad("footer does not repeat the header", end));
        }
        let (covered, checksum) = footer.split_at(footer_bytes - 4);
        if libdeflater::crc32(covered) != be(checksum, 4) as u32 {
            return Err(bad("footer has a wrong checksum", bytes.len() - 4));
        }
        let hash = match header_bytes {
            HEADER_V1_BYTES => HashKind::Sha1,
            _ => match &bytes[24..28] {
                b"sha1" => HashKind::Sha1,
                b"s256" => HashKind::Sha256,
                _ => return Err(bad("hash is neither sha1 nor s256", 24)),
            },
        };
        let (min_update_index, max_update_index) = (be(&bytes[8..], 8), be(&bytes[16..], 8));
        if min_update_index > max_update_index {
            return Err(bad("first update comes after the last", 8));
        }
        let mut layout = Layout {
            hash,
            header_bytes,
            block_bytes: be(&bytes[5..], 3) as usize,
            min_update_index,
            max_update_index,
            refs: None,
            objects: None,
            id_bytes: (be(&footer[header_bytes + 8..], 8) & 31) as usize,
            logs: None,
            end,
        };
        layout.find_sections(bytes)?;
        Ok(layout)
    }

    fn find_sections(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let fields_at = self.end + self.header_bytes;
        let bad = |what, offset: usize| Error::new(FORMAT, what, offset as u64);
        let place = |at: usize, shift: u32| match be(&bytes[fields_at + at..], 8) >> shift {
            0 => Ok(None),
            position => match usize::try_from(position) {
                Ok(position) if position < self.end => Ok(Some(position)),
                _ => Err(bad("section starts beyond the end", fields_at + at)),
            },
        };
        let (ref_index, objects, object_index) = (place(0, 0)?, place(8, 5)?, place(16, 0)?);
        let (mut logs, log_index) = (place(24, 0)?, place(32, 0)?);
        let first = if self.header_bytes < self.end { Some(bytes[self.header_bytes]) } else { None };
        let (mut has_refs, mut starts_with_logs) = (false, false);
        match first {
            None => {}
            Some(b'r') => has_refs = true,
            // Logs start at 0 or, which is also valid, right after the header.
            Some(b'g') if logs.is_none_or(|at| at == self.header_bytes) => {
                (starts_with_logs, logs) = (true, None);
            }
            Some(_) => return Err(bad("first block is of an unknown type", self.header_bytes)),
        }
        let in_order = [ref_index, objects, object_index, logs, log_index];
        let rises = in_order.iter().flatten().is_sorted_by(|left, right| left < right);
        let is_whole = (has_refs || ref_index.or(objects).is_none())
            && (objects.is_some() || object_index.is_none())
            && (starts_with_logs || logs.is_some() || log_index.is_none())
            && in_order.iter().flatten().all(|at| *at > self.header_bytes);
        if !rises || !is_whole {
            return Err(bad("sections are out of order", fields_at));
        }
        if objects.is_some() && !(MIN_ID_BYTES..=self.hash.len_in_bytes()).contains(&self.id_bytes) {
            return Err(bad("length of object ids is impossible", fields_at + 8));
        }
        let logs = if starts_with_logs { Some(0) } else { logs };
        let section = |kind, first, index, end| TableSection { kind, first, index, end };
        let logs_at = logs.unwrap_or(self.end);
        self.refs = has_refs.then(|| section(b'r', 0, ref_index, objects.unwrap_or(logs_at)));
        self.objects = objects.map(|first| section(b'o', first, object_index, logs_at));
        self.logs = logs.map(|first| section(b'g', first, log_index, self.end));
        Ok(())
    }

    /// The length of the file's header if it is in the block at `at`, else 0.
    pub(super) fn skip(&self, at: usize) -> usize {
        if at == 0 { self.header_bytes } else { 0 }
    }

    /// The type of the block at `at`.
    fn kind(&self, bytes: &[u8], at: usize) -> Option<u8> {
        bytes[..self.end].get(at.checked_add(self.skip(at))?).copied()
    }

    /// The block at `at`, which is not a log block.
    fn block<'a>(&self, bytes: &'a [u8], at: usize) -> Result<Block<'a>, Error> {
        Block::read(&bytes[..self.end], at, self.skip(at))
    }

    /// The block at `at`, which must be in the section and of its type.
    pub(super) fn leaf<'a>(
        &self,
        bytes: &'a [u8],
        section: &TableSection,
        at: usize,
    ) -> Result<Block<'a>, Error> {
        let block = self.block(bytes, at)?;
        match block.kind == section.kind && at + block.length <= section.leaves_end() {
            true => Ok(block),
            false => Err(block.bad("unexpected type of block", 0)),
        }
    }

    /// The block after `block` in its section.
    pub(super) fn leaf_after<'a>(
        &self,
        bytes: &'a [u8],
        section: &TableSection,
        block: &Block<'_>,
    ) -> Result<Option<Block<'a>>, Error> {
        let next = self.end_of(bytes, block);
        if next >= section.leaves_end() {
            return Ok(None);
        }
        match self.kind(bytes, next) {
            // The footer names only the uppermost level of the index; other levels precede it.
            Some(b'i') if section.index.is_some() => Ok(None),
            _ => self.leaf(bytes, section, next).map(Some),
        }
    }

    /// Where the next block starts, if there is one: after the padding, or at once.
    fn end_of(&self, bytes: &[u8], block: &Block<'_>) -> usize {
        let end = block.at + block.length;
        // No block type is 0, so any other byte is not padding.
        let is_packed = self.block_bytes == 0 || bytes.get(end).is_some_and(|byte| *byte != 0);
        if is_packed { end } else { block.at + block.length.next_multiple_of(self.block_bytes) }
    }

    /// The first record whose key is not less than `wanted`, in a section that is not deflated; `skip` as in
    /// [`Block::search`].
    pub(super) fn seek<'a>(
        &self,
        bytes: &'a [u8],
        section: &TableSection,
        wanted: &[u8],
        skip: impl Fn(&'a [u8], u8, usize) -> Option<usize>,
    ) -> Result<Option<(Block<'a>, Stored<'a>)>, Error> {
        let Some(start) = self.find_leaf(bytes, section, wanted)? else { return Ok(None) };
        let mut block = self.leaf(bytes, section, start)?;
        loop {
            if let Some(found) = block.search(wanted, &skip)? {
                return Ok(Some((block, found)));
            }
            match self.leaf_after(bytes, section, &block)? {
                Some(next) => block = next,
                None => return Ok(None),
            }
        }
    }

    /// The position of the section's block that may contain `wanted`, by the index or, without one, the first
    /// block. `None` if `wanted` is beyond all records.
    pub(super) fn find_leaf(
        &self,
        bytes: &[u8],
        section: &TableSection,
        wanted: &[u8],
    ) -> Result<Option<usize>, Error> {
        // Reading from the start needs no index, and works even if the index is damaged.
        let Some(index) = section.index.filter(|_| !wanted.is_empty()) else {
            return Ok(Some(section.first));
        };
        let Some(mut at) = self.find_in_uppermost(bytes, section, index, wanted)? else { return Ok(None) };
        for _ in 0..MAX_INDEX_LEVELS {
            if at < section.first {
                break;
            }
            if self.kind(bytes, at) != Some(b'i') {
                return Ok(Some(at));
            }
            match self.block(bytes, at)?.child_of(wanted)? {
                Some(child) => at = child,
                None => break,
            }
        }
        Err(Error::new(FORMAT, "index leads nowhere", index as u64))
    }

    fn find_in_uppermost(
        &self,
        bytes: &[u8],
        section: &TableSection,
        mut at: usize,
        wanted: &[u8],
    ) -> Result<Option<usize>, Error> {
        while at < section.end {
            let block = self.block(bytes, at)?;
            if block.kind != b'i' {
                return Err(block.bad("unexpected type of block", 0));
            }
            match block.child_of(wanted)? {
                None => at = self.end_of(bytes, &block),
                child => return Ok(child),
            }
        }
        Ok(None)
    }
}

impl TableSection {
    /// An upper bound of the end of the section's own blocks.
    pub(super) fn leaves_end(&self) -> usize {
        self.index.unwrap_or(self.end)
    }
}
