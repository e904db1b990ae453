//! Ranges of maps and bytes of our own, sent in one gathered write.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use packrace_os::Mapped;
use packrace_store::Config;

/// The most bytes in a batch, unless a setting says otherwise: 16 full frames, which fill a pipe of 1 MiB.
pub const BATCH_BYTES: usize = (1 << 20) - CHUNK_FRAMING_BYTES;

/// The frame of a chunk of HTTP/1.1 around a batch: its length in hexadecimal digits, and two line ends.
const CHUNK_FRAMING_BYTES: usize = 16;

/// The most bytes in a batch that keeps one write to the client below `packrace.writeBytes`.
pub(crate) fn batch_bytes(config: &Config) -> Result<usize, packrace_store::Error> {
    let bytes = config.bytes_within("packrace.writeBytes", 4 << 10..=1 << 20)?;
    Ok(bytes.map_or(BATCH_BYTES, |bytes| bytes as usize - CHUNK_FRAMING_BYTES))
}

/// Shorter ranges are copied next to their neighbours, because each piece of a gathered write has its own
/// cost. An estimate, not measured yet: docs/decisions/0004-outbox-constants.md.
pub const COPY_BELOW_BYTES: usize = 512;

/// A contiguous part of a batch.
#[derive(Debug, Clone)]
enum BatchPiece {
    /// Bytes made for this response, in the batch itself: pkt-line headers, messages, rewritten entry headers.
    Own(Range<usize>),
    /// A range of a mapped file; the clone of the map keeps it alive.
    Mapped(Mapped, Range<usize>),
}

/// Bytes that are sent together, in order.
#[derive(Debug, Default)]
pub struct GatherBatch {
    pieces: Vec<BatchPiece>,
    /// The bytes of pieces that no file holds.
    own: Vec<u8>,
    bytes: usize,
}

impl GatherBatch {
    /// A batch of one piece.
    pub fn of(bytes: Vec<u8>) -> Self {
        let length = bytes.len();
        let pieces = if length == 0 { Vec::new() } else { vec![BatchPiece::Own(0..length)] };
        GatherBatch { pieces, own: bytes, bytes: length }
    }

    /// A batch of one piece that other clients may also be getting.
    pub fn of_shared(bytes: &Mapped, range: Range<usize>) -> Self {
        let mut batch = GatherBatch::default();
        batch.push_mapped(bytes, range);
        batch
    }

    /// Length of all pieces together.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes, piece by piece; none is empty.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.pieces.len()).map(|at| self.piece(at).unwrap_or_default())
    }

    /// One of the pieces.
    pub fn piece(&self, at: usize) -> Option<&[u8]> {
        Some(match self.pieces.get(at)? {
            BatchPiece::Own(range) => &self.own[range.clone()],
            BatchPiece::Mapped(map, range) => &map[range.clone()],
        })
    }

    /// How many of the bytes are ranges of mapped files.
    pub fn mapped_bytes(&self) -> usize {
        let mapped = self.pieces.iter().filter(|piece| matches!(piece, BatchPiece::Mapped(..)));
        mapped.map(|piece| piece.range().len()).sum()
    }

    /// Adds bytes, which are copied.
    pub fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let start = self.own.len();
        self.own.extend_from_slice(bytes);
        self.bytes += bytes.len();
        match self.pieces.last_mut() {
            Some(BatchPiece::Own(last)) => last.end = self.own.len(),
            _ => self.pieces.push(BatchPiece::Own(start..self.own.len())),
        }
    }

    /// Where a piece that is pushed next begins.
    pub(super) fn mark(&self) -> Mark {
        Mark { pieces: self.pieces.len(), own: self.own.len(), bytes: self.bytes }
    }

    /// Begins a new piece with `bytes`, even if the last one could be continued.
    pub(super) fn push_apart(&mut self, bytes: &[u8]) {
        self.pieces.push(BatchPiece::Own(self.own.len()..self.own.len()));
        self.push(bytes);
    }

    /// Removes and returns what was pushed since `mark`, where a piece began.
    pub(super) fn split_off(&mut self, mark: &Mark) -> GatherBatch {
        let mut pieces = self.pieces.split_off(mark.pieces);
        for piece in &mut pieces {
            if let BatchPiece::Own(range) = piece {
                *range = range.start - mark.own..range.end - mark.own;
            }
        }
        let rest = GatherBatch { pieces, own: self.own.split_off(mark.own), bytes: self.bytes - mark.bytes };
        self.bytes = mark.bytes;
        rest
    }

    /// Overwrites the first bytes pushed after `mark`.
    pub(super) fn overwrite(&mut self, mark: &Mark, bytes: &[u8]) {
        self.own[mark.own..mark.own + bytes.len()].copy_from_slice(bytes);
    }

    /// Adds a range of a mapped file.
    pub fn push_mapped(&mut self, map: &Mapped, range: Range<usize>) {
        if range.len() < COPY_BELOW_BYTES {
            return self.push(&map[range]);
        }
        self.bytes += range.len();
        self.pieces.push(BatchPiece::Mapped(map.clone(), range));
    }
}

/// The end of a batch at some moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mark {
    pieces: usize,
    own: usize,
    /// Bytes that the batch held then.
    pub(super) bytes: usize,
}

impl AsRef<GatherBatch> for GatherBatch {
    fn as_ref(&self) -> &GatherBatch {
        self
    }
}

/// The pieces of a batch. Each keeps the owner of the batch until it was sent: nothing is copied.
pub(crate) fn owned_pieces<O>(owner: O) -> impl Iterator<Item = Bytes>
where
    O: AsRef<GatherBatch> + Send + Sync + 'static,
{
    let count = owner.as_ref().pieces.len();
    let owner = Arc::new(owner);
    (0..count).map(move |at| Bytes::from_owner(OwnedPiece(owner.clone(), at)))
}

struct OwnedPiece<O>(Arc<O>, usize);

impl<O: AsRef<GatherBatch>> AsRef<[u8]> for OwnedPiece<O> {
    fn as_ref(&self) -> &[u8] {
        O::as_ref(&self.0).piece(self.1).unwrap_or_default()
    }
}

impl BatchPiece {
    fn range(&self) -> &Range<usize> {
        match self {
            BatchPiece::Own(range) | BatchPiece::Mapped(_, range) => range,
        }
    }
}
