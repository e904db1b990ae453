//! Builds a block; see `reftable/block.rs` for the layout.

use super::super::block::{HEAD_BYTES, shared};
use super::{MAX_BLOCK_BYTES, put_varint};

/// The count has 16 bits.
const MAX_RESTARTS: usize = u16::MAX as usize;

const COUNT_BYTES: usize = 2;
const RESTART_BYTES: usize = 3;

#[derive(Debug)]
pub(super) struct BlockBuilder {
    kind: u8,
    /// The bytes of the block; the first block starts with the header of the file.
    bytes: Vec<u8>,
    /// The offset of the block's type.
    head_at: usize,
    restarts: Vec<u32>,
    last_key: Vec<u8>,
    records: usize,
    restart_interval: usize,
    /// The longest that the block may be, with its restarts.
    limit: usize,
}

impl BlockBuilder {
    /// An empty block.
    pub(super) fn new(restart_interval: usize) -> Self {
        BlockBuilder {
            kind: 0,
            bytes: Vec::new(),
            head_at: 0,
            restarts: Vec::new(),
            last_key: Vec::new(),
            records: 0,
            restart_interval,
            limit: 0,
        }
    }

    /// Starts a new block of this type after `before`, which is the header of the file or nothing.
    pub(super) fn start(&mut self, kind: u8, limit: usize, before: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(before);
        self.bytes.extend_from_slice(&[kind, 0, 0, 0]);
        self.restarts.clear();
        self.last_key.clear();
        (self.kind, self.head_at, self.records) = (kind, before.len(), 0);
        self.limit = limit.min(MAX_BLOCK_BYTES);
    }

    pub(super) fn kind(&self) -> u8 {
        self.kind
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(super) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Appends a record. If it does not fit, returns the length that the block would have and leaves it
    /// unchanged.
    pub(super) fn add(
        &mut self,
        key: &[u8],
        value_type: u8,
        value: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), usize> {
        let start = self.bytes.len();
        let is_due = self.records.is_multiple_of(self.restart_interval);
        let prefix = if is_due { 0 } else { shared(&self.last_key, key) };
        let suffix = &key[prefix..];
        put_varint(&mut self.bytes, prefix as u64);
        put_varint(&mut self.bytes, (suffix.len() as u64) << 3 | u64::from(value_type));
        self.bytes.extend_from_slice(suffix);
        value(&mut self.bytes);
        // A record that shares nothing is stored whole, whether or not a restart is due.
        let is_restart = prefix == 0 && self.restarts.len() < MAX_RESTARTS;
        let restarts = self.restarts.len() + usize::from(is_restart);
        let length = self.bytes.len() + restarts * RESTART_BYTES + COUNT_BYTES;
        if length > self.limit {
            self.bytes.truncate(start);
            return Err(length);
        }
        if is_restart {
            // Fits, because the block is below its limit, which has three bytes.
            self.restarts.push(start as u32);
        }
        self.last_key.truncate(prefix);
        self.last_key.extend_from_slice(suffix);
        self.records += 1;
        Ok(())
    }

    /// Completes the block with its length and restarts; the number is the length of the part before the
    /// content.
    pub(super) fn finish(&mut self) -> (&[u8], usize) {
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_be_bytes()[1..]);
        }
        self.bytes.extend_from_slice(&(self.restarts.len() as u16).to_be_bytes());
        let length = (self.bytes.len() as u32).to_be_bytes();
        self.bytes[self.head_at + 1..][..3].copy_from_slice(&length[1..]);
        (&self.bytes, self.head_at + HEAD_BYTES)
    }
}
