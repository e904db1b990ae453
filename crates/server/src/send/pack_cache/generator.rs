//! Makes a pack: collects small segments, and stores what is kept.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use packrace_os::Mapped;
use packrace_os::spool::Spool;
use packrace_pack::generate::Segment;
use packrace_pack::{BitmapUse, Phase, ProgressSink, Totals};

use super::key::Key;
use super::shared_pack::{Keeping, PackPiece, SharedPack};
use super::{Resource, SharedCache};
use crate::error::Error;
use crate::traced_phases;

/// Shorter ranges are copied next to their neighbours: a place in the list of pieces, its lock and a piece of
/// a gathered write cost more, for every reader. They are hashed anyway, which costs ten times as much.
const SHORT_SEGMENT_BYTES: usize = 4 << 10;

/// The size of chunks of copied and of made bytes, unless a reader has waited for long; longer segments are
/// not chunked.
const CHUNK_BYTES: usize = 128 << 10;

/// The least size of a write to disk, except the first and the last one.
const WRITE_BYTES: u64 = 1 << 20;

/// Makes a pack. All readers get its segments, in this order.
#[derive(Debug)]
pub struct Generator {
    pack: Arc<SharedPack>,
    /// Where the pack is indexed, unless it is not shared.
    index: Option<(Arc<SharedCache>, Key)>,
    /// Small segments, collected for the next piece.
    chunk: Vec<u8>,
    spool: Option<Spool>,
    /// The first piece that may not be in the spool yet.
    spooled_to: u64,
    /// Bytes in memory of the pieces from there on.
    unspooled_bytes: u64,
}

impl ProgressSink for Generator {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        self.pack.report(phase, done, total);
    }

    fn cancelled(&self) -> bool {
        self.pack.is_cancelled()
    }

    fn bitmaps_used(&self, used: &dyn Fn() -> BitmapUse) {
        traced_phases::bitmaps_used(used);
    }
}

impl Generator {
    pub(super) fn new(pack: Arc<SharedPack>, index: Option<(Arc<SharedCache>, Key)>) -> Self {
        Generator { pack, index, chunk: Vec::new(), spool: None, spooled_to: 0, unspooled_bytes: 0 }
    }

    /// Appends the next bytes of the pack; waits for the fastest reader. Without readers the bytes are
    /// dropped: see [`ProgressSink::cancelled`].
    pub fn push(&mut self, segment: Segment) {
        let length = segment.bytes().len();
        match segment {
            Segment::Mapped(..) if length >= SHORT_SEGMENT_BYTES => {
                self.close_chunk();
                self.append(PackPiece::new(segment, 0));
            }
            Segment::Owned(bytes) if length >= CHUNK_BYTES => {
                self.close_chunk();
                self.append_own(bytes);
            }
            Segment::Mapped(..) | Segment::Owned(_) | Segment::EntryHeader(_) => {
                let mut rest = segment.bytes();
                while !rest.is_empty() {
                    if self.chunk.capacity() == 0 {
                        self.chunk.reserve_exact(CHUNK_BYTES);
                    }
                    let (now, later) = rest.split_at(rest.len().min(CHUNK_BYTES - self.chunk.len()));
                    self.chunk.extend_from_slice(now);
                    rest = later;
                    if self.chunk.len() == CHUNK_BYTES || self.pack.flush_requested.load(Relaxed) {
                        self.close_chunk();
                    }
                }
            }
        }
    }

    /// Ends the pack.
    pub(super) fn finish(mut self, result: Result<Totals, Error>) {
        // Also before a failure: the client gets the pack up to where it failed.
        self.close_chunk();
        if !self.pack.end(result) {
            return self.leave_index();
        }
        let keeping = self.pack.lock().keeping;
        match keeping {
            // Readers have all they need; this only frees memory.
            Keeping::Disk => self.write_out(),
            Keeping::Memory => {}
            Keeping::Nothing => self.leave_index(),
        }
    }

    fn close_chunk(&mut self) {
        if self.chunk.is_empty() {
            return;
        }
        self.pack.flush_requested.store(false, Relaxed);
        // A short chunk does not take the room of a whole one for as long as it is kept.
        if self.chunk.len() >= CHUNK_BYTES / 2 {
            let chunk = std::mem::take(&mut self.chunk);
            self.append_own(chunk);
        } else {
            let chunk = self.chunk.as_slice().to_vec();
            self.chunk.clear();
            self.append_own(chunk);
        }
    }

    fn append_own(&mut self, bytes: Vec<u8>) {
        let (length, own_bytes) = (bytes.len(), bytes.capacity() as u64);
        self.append(PackPiece::new(Segment::Mapped(Mapped::from(bytes), 0..length), own_bytes));
    }

    fn append(&mut self, piece: PackPiece) {
        let own_bytes = piece.own_bytes;
        if self.pack.append(piece) {
            self.unspooled_bytes += own_bytes;
            self.keep(own_bytes);
        }
    }

    /// Makes room to keep the piece that was appended last, or stops keeping the pack.
    fn keep(&mut self, own_bytes: u64) {
        let keeping = self.pack.lock().keeping;
        match keeping {
            Keeping::Nothing => {}
            Keeping::Memory => {
                let kept_bytes = self.pack.kept_bytes().0 + own_bytes + PackPiece::LISTED_BYTES;
                let fits = kept_bytes <= self.pack.bounds().kept_bytes;
                if !fits || !self.take(Resource::Memory, own_bytes + PackPiece::LISTED_BYTES) {
                    self.go_on_disk();
                }
            }
            Keeping::Disk => {
                if !self.take(Resource::Memory, PackPiece::LISTED_BYTES) {
                    self.keep_nothing();
                } else if self.unspooled_bytes >= WRITE_BYTES {
                    self.write_out();
                }
            }
        }
    }

    /// The kept bytes are too many for memory: they go to disk if the pack was requested twice, else nothing
    /// is kept.
    fn go_on_disk(&mut self) {
        let has_disk = self.index.as_ref().is_some_and(|(shared, _)| shared.has_disk());
        let mut state = self.pack.lock();
        if !state.was_asked_again || !has_disk {
            state.keep_nothing();
            drop(state);
            return self.leave_index();
        }
        state.keeping = Keeping::Disk;
        // From here on only the list counts: pieces that are written release their memory.
        let list_bytes = state.pieces.len() as u64 * PackPiece::LISTED_BYTES;
        let own_bytes = state.memory.bytes().saturating_sub(list_bytes);
        state.memory.shrink(own_bytes);
        drop(state);
        self.write_out();
    }

    /// Writes the pieces in memory to the spool, and lets readers get them from there.
    fn write_out(&mut self) {
        match self.try_write_out() {
            Ok(()) => return,
            Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
                tracing::debug!("pack not cached: all cached packs are in use");
            }
            Err(error) => tracing::warn!("pack not cached: {error}"),
        }
        self.keep_nothing();
    }

    fn try_write_out(&mut self) -> io::Result<()> {
        let (pieces, next) = self.unspooled();
        let slices: Vec<&[u8]> = pieces.iter().map(|(_, segment)| segment.bytes()).collect();
        let bytes = slices.iter().map(|slice| slice.len() as u64).sum();
        if bytes == 0 {
            return Ok(());
        }
        if !self.take(Resource::Disk, bytes) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let mut spool = match (self.spool.take(), &self.index) {
            (Some(spool), _) => spool,
            (None, Some((shared, _))) => shared.new_spool()?,
            (None, None) => return Err(io::ErrorKind::Unsupported.into()),
        };
        let map = spool.append(&slices)?;
        let mut state = self.pack.lock();
        let mut start = 0;
        for (number, segment) in &pieces {
            state.replace(*number, &map, start);
            start += segment.bytes().len();
        }
        drop(state);
        (self.spool, self.spooled_to, self.unspooled_bytes) = (Some(spool), next, 0);
        Ok(())
    }

    /// The pieces in memory that are not in the spool yet, with their numbers; and the number that follows.
    fn unspooled(&self) -> (Vec<(u64, Segment)>, u64) {
        let state = self.pack.lock();
        let known = self.spooled_to.saturating_sub(state.first) as usize;
        let unspooled =
            (state.first..).zip(&state.pieces).skip(known).filter(|(_, piece)| piece.own_bytes > 0);
        (unspooled.map(|(number, piece)| (number, piece.segment.clone())).collect(), state.next_piece())
    }

    fn keep_nothing(&mut self) {
        self.pack.lock().keep_nothing();
        self.leave_index();
    }

    fn leave_index(&self) {
        if let Some((shared, key)) = &self.index {
            shared.remove(key, &self.pack);
        }
    }

    /// Takes more of a resource; idle packs are evicted for it.
    fn take(&self, resource: Resource, bytes: u64) -> bool {
        let grow = || {
            let mut state = self.pack.lock();
            match resource {
                Resource::Memory => state.memory.grow(bytes),
                Resource::Disk => state.disk.grow(bytes),
            }
        };
        self.index.as_ref().is_some_and(|(shared, _)| shared.make_room(resource, bytes, grow))
    }
}
