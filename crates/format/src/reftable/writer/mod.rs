//! Writes a table in one pass; see `reftable/layout.rs` and `reftable/block.rs` for the layout.
//!
//! Where the document leaves a choice, we choose like git, so that the same records give the same bytes,
//! except for deflated logs: a restart also where a name shares nothing with the previous one; an index from
//! four blocks on (from two if blocks are not aligned), with another level as long as a level has that many;
//! object blocks only if refs have an index; no padding before logs and before the footer.

mod block;
mod objects;

use packrace_object::HashKind;

use crate::zlib::Deflater;

use super::layout::{FOOTER_REST_BYTES, SIGNATURE};
use super::logs::KEY_TAIL_BYTES;
use super::{LogRecord, RefRecord, RefValue};
use block::BlockBuilder;
use objects::ObjectPlaces;

/// The default of `reftable.blockSize`.
pub const DEFAULT_BLOCK_BYTES: usize = 4096;

/// The highest `reftable.blockSize`.
pub const MAX_BLOCK_BYTES: usize = (1 << 24) - 1;

/// The default of `reftable.restartInterval`.
pub const DEFAULT_RESTART_INTERVAL: u16 = 16;

/// The sink gets about this many bytes at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// The most blocks without an index, in aligned tables; then in unaligned ones.
const UNINDEXED_BLOCKS: usize = 3;
const UNINDEXED_BLOCKS_UNALIGNED: usize = 1;

/// The most bytes of an index record besides its key: three numbers, a restart, and its share of a block's
/// head and count.
const MAX_INDEX_RECORD_EXTRA_BYTES: usize = 32;

/// The zlib level of most of git; git's tables use level 9.
const LOG_COMPRESSION: i32 = 6;

/// The options of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableOptions {
    /// The hash of object ids; tables have version 1 for SHA-1, else version 2.
    pub hash: HashKind,
    /// `reftable.blockSize`: the longest block, and the alignment of blocks; up to [`MAX_BLOCK_BYTES`]. 0
    /// means unaligned blocks of [`DEFAULT_BLOCK_BYTES`]; in git's configuration, 0 means the default
    /// instead.
    pub block_bytes: usize,
    /// `reftable.restartInterval`: a name is stored whole after this many records; 0 means the default.
    pub restart_interval: u16,
    /// `reftable.indexObjects`: whether to write object blocks, for [`super::Table::refs_to`].
    pub index_objects: bool,
}

impl TableOptions {
    /// Git's defaults.
    pub fn new(hash: HashKind) -> Self {
        let restart_interval = DEFAULT_RESTART_INTERVAL;
        TableOptions { hash, block_bytes: DEFAULT_BLOCK_BYTES, restart_interval, index_objects: true }
    }
}

/// Why a record or table cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReftableWriteError {
    /// The block size is above the format's.
    #[error("reftable block size cannot exceed 16MB")]
    BlockSize,
    /// The first update would come after the last.
    #[error("update indexes of the table do not rise")]
    UpdateRange,
    /// A record does not follow the one before, or a ref follows a log.
    #[error("record of '{}' is out of order", String::from_utf8_lossy(.0))]
    NotSorted(Vec<u8>),
    /// A name is empty or has a NUL.
    #[error("invalid name '{}'", String::from_utf8_lossy(.0))]
    InvalidName(Vec<u8>),
    /// A record belongs to an update outside the table's range.
    #[error("update index of '{}' is not one of the table", String::from_utf8_lossy(.0))]
    UpdateIndex(Vec<u8>),
    /// An object id does not have the table's hash.
    #[error("object id of '{}' is of another hash", String::from_utf8_lossy(.0))]
    WrongHash(Vec<u8>),
    /// A record is longer than a block.
    #[error("entry too large")]
    TooLong {
        /// The name of the ref.
        name: Vec<u8>,
        /// The block size that would be enough.
        needed_bytes: usize,
    },
}

/// The size of a written table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// The length of the table.
    pub bytes: u64,
    /// The number of ref records, deletions included.
    pub refs: u64,
    /// The number of log records, deletions included.
    pub logs: u64,
}

/// Writes one table: refs by name, then logs by name, newest first, then [`Writer::finish`]. After an error,
/// the table is unusable.
///
/// Memory: one chunk, one block, the last name of each block of a section, and for object blocks 48 bytes per
/// id of a ref.
pub struct Writer<S> {
    out: TableOutput<S>,
    options: TableOptions,
    min_update_index: u64,
    max_update_index: u64,
    block: BlockBuilder,
    /// The index of the current section's blocks.
    index: IndexLevel,
    objects: ObjectPlaces,
    positions: FooterPositions,
    deflater: Option<Box<Deflater>>,
    key: Vec<u8>,
    written: Written,
}

/// The positions in the footer, with 0 for missing sections.
#[derive(Debug, Default)]
struct FooterPositions {
    ref_index: u64,
    objects: u64,
    id_bytes: usize,
    object_index: u64,
    logs: u64,
    log_index: u64,
}

impl<S: FnMut(&[u8])> Writer<S> {
    /// A table of the updates from `min_update_index` to `max_update_index`. `sink` gets it in order, in
    /// chunks of about 1 MiB, the last one with the footer; a smaller table is one chunk.
    pub fn new(
        options: &TableOptions,
        min_update_index: u64,
        max_update_index: u64,
        sink: S,
    ) -> Result<Self, ReftableWriteError> {
        let mut options = *options;
        if options.block_bytes > MAX_BLOCK_BYTES {
            return Err(ReftableWriteError::BlockSize);
        }
        if min_update_index > max_update_index {
            return Err(ReftableWriteError::UpdateRange);
        }
        if options.restart_interval == 0 {
            options.restart_interval = DEFAULT_RESTART_INTERVAL;
        }
        let out = TableOutput { sink, chunk: Vec::new(), given: 0, padding: 0 };
        let mut writer = Writer {
            out,
            options,
            min_update_index,
            max_update_index,
            block: BlockBuilder::new(options.restart_interval.into()),
            index: IndexLevel::default(),
            objects: ObjectPlaces::default(),
            positions: FooterPositions::default(),
            deflater: None,
            key: Vec::new(),
            written: Written::default(),
        };
        writer.start_block(b'r');
        Ok(writer)
    }

    /// Appends a ref.
    pub fn add_ref(&mut self, record: &RefRecord<'_>) -> Result<(), ReftableWriteError> {
        let RefRecord { name, update_index, value } = *record;
        self.check_name(name)?;
        if self.block.kind() != b'r' || self.written.refs > 0 && name <= self.key.as_slice() {
            return Err(ReftableWriteError::NotSorted(name.to_vec()));
        }
        let delta = update_index.checked_sub(self.min_update_index);
        let delta = delta.filter(|_| update_index <= self.max_update_index);
        let delta = delta.ok_or_else(|| ReftableWriteError::UpdateIndex(name.to_vec()))?;
        let (value_type, ids) = match value {
            RefValue::Deletion => (0, [None, None]),
            RefValue::Id(id) => (1, [Some(id), None]),
            RefValue::Tag { id, peeled } => (2, [Some(id), Some(peeled)]),
            RefValue::Symbolic(_) => (3, [None, None]),
        };
        let ids = ids.iter().flatten();
        if ids.clone().any(|id| id.kind() != self.options.hash) {
            return Err(ReftableWriteError::WrongHash(name.to_vec()));
        }
        self.key.clear();
        self.key.extend_from_slice(name);
        self.add(value_type, |out| {
            put_varint(out, delta);
            ids.clone().for_each(|id| out.extend_from_slice(id.as_slice()));
            if let RefValue::Symbolic(target) = value {
                put_text(out, target);
            }
        })?;
        if self.options.index_objects {
            let block_at = self.out.next_at();
            ids.for_each(|id| self.objects.add(*id, block_at));
        }
        self.written.refs += 1;
        Ok(())
    }

    /// Appends a log record; deletions may refer to updates of older tables.
    pub fn add_log(&mut self, record: &LogRecord<'_>) -> Result<(), ReftableWriteError> {
        let LogRecord { name, update_index, ref change } = *record;
        self.check_name(name)?;
        if update_index > self.max_update_index {
            return Err(ReftableWriteError::UpdateIndex(name.to_vec()));
        }
        let other_hash = |id: &packrace_object::ObjectId| id.kind() != self.options.hash;
        if change.is_some_and(|change| other_hash(&change.old) || other_hash(&change.new)) {
            return Err(ReftableWriteError::WrongHash(name.to_vec()));
        }
        if self.block.kind() != b'g' {
            self.finish_refs()?;
            self.positions.logs = self.out.next_at();
            self.start_block(b'g');
        } else if self.written.logs > 0 {
            let (last_name, last_tail) = self.key.split_at(self.key.len() - KEY_TAIL_BYTES);
            let reversed = (!update_index).to_be_bytes();
            if (name, &reversed[..]) <= (last_name, &last_tail[1..]) {
                return Err(ReftableWriteError::NotSorted(name.to_vec()));
            }
        }
        self.key.clear();
        self.key.extend_from_slice(name);
        self.key.push(0);
        self.key.extend_from_slice(&(!update_index).to_be_bytes());
        self.add(change.is_some().into(), |out| {
            let Some(change) = change else { return };
            out.extend_from_slice(change.old.as_slice());
            out.extend_from_slice(change.new.as_slice());
            put_text(out, change.name);
            put_text(out, change.email);
            put_varint(out, change.seconds);
            out.extend_from_slice(&change.zone.to_be_bytes());
            put_text(out, change.message);
        })?;
        self.written.logs += 1;
        Ok(())
    }

    /// Writes the remaining blocks, the indexes and the footer.
    pub fn finish(mut self) -> Result<Written, ReftableWriteError> {
        match self.written.logs {
            0 => self.finish_refs()?,
            _ => self.positions.log_index = self.finish_section(b'g')?,
        }
        if self.out.next_at() == 0 {
            let header = self.header();
            self.out.append(&header, 0);
        }
        // Nothing after the last block is aligned.
        self.out.padding = 0;
        let mut footer = self.header();
        let objects = self.positions.objects << 5 | self.positions.id_bytes as u64;
        for place in [
            self.positions.ref_index,
            objects,
            self.positions.object_index,
            self.positions.logs,
            self.positions.log_index,
        ] {
            footer.extend_from_slice(&place.to_be_bytes());
        }
        footer.extend_from_slice(&libdeflater::crc32(&footer).to_be_bytes());
        debug_assert_eq!(footer.len(), self.header().len() + FOOTER_REST_BYTES);
        self.out.append(&footer, 0);
        self.written.bytes = self.out.next_at();
        self.out.give();
        Ok(self.written)
    }

    fn check_name(&self, name: &[u8]) -> Result<(), ReftableWriteError> {
        match name.is_empty() || name.contains(&0) {
            true => Err(ReftableWriteError::InvalidName(name.to_vec())),
            false => Ok(()),
        }
    }

    fn header(&self) -> Vec<u8> {
        let mut header = SIGNATURE.to_vec();
        header.push(if self.options.hash == HashKind::Sha1 { 1 } else { 2 });
        header.extend_from_slice(&(self.options.block_bytes as u32).to_be_bytes()[1..]);
        header.extend_from_slice(&self.min_update_index.to_be_bytes());
        header.extend_from_slice(&self.max_update_index.to_be_bytes());
        if self.options.hash != HashKind::Sha1 {
            header.extend_from_slice(b"s256");
        }
        header
    }

    fn block_limit(&self) -> usize {
        if self.options.block_bytes == 0 { DEFAULT_BLOCK_BYTES } else { self.options.block_bytes }
    }

    fn start_block(&mut self, kind: u8) {
        self.start_long_block(kind, self.block_limit());
    }

    fn start_long_block(&mut self, kind: u8, limit: usize) {
        let header = if self.out.next_at() == 0 { self.header() } else { Vec::new() };
        self.block.start(kind, limit, &header);
    }

    /// Appends a record with the current key to the block, or to the next one.
    fn add(&mut self, value_type: u8, value: impl Fn(&mut Vec<u8>)) -> Result<(), ReftableWriteError> {
        if self.block.add(&self.key, value_type, &value).is_ok() {
            return Ok(());
        }
        if !self.block.is_empty() {
            self.end_block();
            self.start_block(self.block.kind());
        }
        let added = self.block.add(&self.key, value_type, &value);
        added.map_err(|needed_bytes| ReftableWriteError::TooLong { name: name_of(&self.key), needed_bytes })
    }

    /// Writes the block, and records it in the index.
    fn end_block(&mut self) {
        let at = self.out.next_at();
        self.index.add(self.block.last_key(), at);
        let kind = self.block.kind();
        let (bytes, content_at) = self.block.finish();
        if kind == b'g' {
            let deflater = self.deflater.get_or_insert_with(|| Box::new(Deflater::new(LOG_COMPRESSION)));
            self.out.append_deflated(&bytes[..content_at], &bytes[content_at..], deflater);
        } else {
            let padding = match self.options.block_bytes {
                0 => 0,
                aligned => bytes.len().next_multiple_of(aligned) - bytes.len(),
            };
            self.out.append(bytes, padding);
        }
    }

    fn finish_refs(&mut self) -> Result<(), ReftableWriteError> {
        self.positions.ref_index = self.finish_section(b'r')?;
        if self.positions.ref_index > 0 && self.options.index_objects {
            self.write_objects()?;
        }
        // Logs are not aligned.
        self.out.padding = 0;
        Ok(())
    }

    fn write_objects(&mut self) -> Result<(), ReftableWriteError> {
        let mut objects = std::mem::take(&mut self.objects);
        self.positions.id_bytes = objects.sort();
        if objects.is_empty() {
            return Ok(());
        }
        self.positions.objects = self.out.next_at();
        self.start_block(b'o');
        for (id, blocks) in objects.groups() {
            self.key.clear();
            self.key.extend_from_slice(&id.as_slice()[..self.positions.id_bytes]);
            let short = if blocks.len() < 8 { blocks.len() as u8 } else { 0 };
            let added = self.add(short, |out| objects::put_blocks(out, blocks));
            // Too many blocks for one record: a look-up of this object then reads all refs.
            added.or_else(|_| self.add(0, |out| put_varint(out, 0)))?;
        }
        self.positions.object_index = self.finish_section(b'o')?;
        Ok(())
    }

    /// Ends the last block of a section and writes its index if the section has enough blocks; returns the
    /// position of the uppermost level.
    fn finish_section(&mut self, kind: u8) -> Result<u64, ReftableWriteError> {
        if !self.block.is_empty() && self.block.kind() == kind {
            self.end_block();
        }
        self.block.start(0, 0, b"");
        let unindexed = match self.options.block_bytes {
            0 => UNINDEXED_BLOCKS_UNALIGNED,
            _ => UNINDEXED_BLOCKS,
        };
        let mut uppermost = 0;
        while self.index.len() > unindexed {
            uppermost = self.out.next_at();
            let below = std::mem::take(&mut self.index);
            self.write_index_level(&below)?;
            if self.index.len() >= below.len() {
                let name = name_of(self.index.longest_key());
                return Err(ReftableWriteError::TooLong { name, needed_bytes: MAX_BLOCK_BYTES + 1 });
            }
        }
        self.index = IndexLevel::default();
        Ok(uppermost)
    }

    fn write_index_level(&mut self, below: &IndexLevel) -> Result<(), ReftableWriteError> {
        let mut limit = self.block_limit();
        let longest = below.longest_key().len() + MAX_INDEX_RECORD_EXTRA_BYTES;
        // With one record per block, every level would have as many blocks as the level below, endlessly (git
        // 2.47 then writes such a table).
        if 2 * longest > limit {
            limit = 16 * longest;
        }
        self.start_long_block(b'i', limit);
        for (key, at) in below.iter() {
            let mut added = self.block.add(key, 0, |out| put_varint(out, at));
            if added.is_err() && !self.block.is_empty() {
                self.end_block();
                self.start_long_block(b'i', limit);
                added = self.block.add(key, 0, |out| put_varint(out, at));
            }
            added.map_err(|needed_bytes| ReftableWriteError::TooLong { name: name_of(key), needed_bytes })?;
        }
        self.end_block();
        self.block.start(0, 0, b"");
        Ok(())
    }
}

/// The name in the key of a ref or of a log.
fn name_of(key: &[u8]) -> Vec<u8> {
    key.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

/// The last keys of blocks, and the blocks' positions.
#[derive(Debug, Default)]
struct IndexLevel {
    keys: Vec<u8>,
    /// The end of each key, and the position of its block.
    blocks: Vec<(usize, u64)>,
}

impl IndexLevel {
    fn add(&mut self, key: &[u8], at: u64) {
        self.keys.extend_from_slice(key);
        self.blocks.push((self.keys.len(), at));
    }

    fn len(&self) -> usize {
        self.blocks.len()
    }

    fn longest_key(&self) -> &[u8] {
        self.iter().map(|(key, _)| key).max_by_key(|key| key.len()).unwrap_or_default()
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.blocks.iter().scan(0, |start, (end, at)| {
            let key = &self.keys[std::mem::replace(start, *end)..*end];
            Some((key, *at))
        })
    }
}

/// The part of the table written so far.
#[derive(Debug)]
struct TableOutput<S> {
    sink: S,
    chunk: Vec<u8>,
    /// The number of bytes given to the sink.
    given: u64,
    /// The padding of the last block if another one follows.
    padding: usize,
}

impl<S: FnMut(&[u8])> TableOutput<S> {
    /// The position of the next block.
    fn next_at(&self) -> u64 {
        self.given + (self.chunk.len() + self.padding) as u64
    }

    fn append(&mut self, bytes: &[u8], padding: usize) {
        self.pad();
        self.chunk.extend_from_slice(bytes);
        self.padding = padding;
    }

    fn append_deflated(&mut self, head: &[u8], content: &[u8], deflater: &mut Deflater) {
        self.pad();
        self.chunk.extend_from_slice(head);
        deflater.deflate(content, &mut self.chunk);
    }

    fn pad(&mut self) {
        self.chunk.resize(self.chunk.len() + std::mem::take(&mut self.padding), 0);
        if self.chunk.len() >= CHUNK_BYTES {
            self.give();
        }
    }

    fn give(&mut self) {
        (self.sink)(&self.chunk);
        self.given += self.chunk.len() as u64;
        self.chunk.clear();
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// The inverse of [`super::varint`].
fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    let mut bytes = [0; 10];
    let mut at = bytes.len() - 1;
    bytes[at] = (number & 0x7f) as u8;
    while number > 0x7f {
        number = (number >> 7) - 1;
        at -= 1;
        bytes[at] = 0x80 | (number & 0x7f) as u8;
    }
    out.extend_from_slice(&bytes[at..]);
}
