//! Frames in, gathered batches out.

use std::io;
use std::ops::Range;

use packrace_os::Mapped;

/// A stretch of bytes on its way to a peer.
#[derive(Debug, Clone)]
pub enum Piece {
    /// Bytes made for this response: pkt-line headers, messages, rewritten entry headers.
    Owned(Vec<u8>),
    /// A range of a mapped file; the clone of the map keeps it alive.
    Mapped(Mapped, Range<usize>),
}

impl Piece {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Piece::Owned(bytes) => bytes,
            Piece::Mapped(map, range) => &map[range.clone()],
        }
    }
}

/// Pieces that leave together, in order.
#[derive(Debug, Default)]
pub struct GatherBatch {
    /// The pieces.
    pub pieces: Vec<Piece>,
}

/// The way out to one client. Blocks until the batch is accepted; this is the back-pressure.
pub trait Door: Send {
    /// Sends all pieces in order.
    fn send(&mut self, batch: GatherBatch) -> io::Result<()>;

    /// Whether the client is known to have gone, without sending anything.
    fn peer_gone(&mut self) -> bool;
}
