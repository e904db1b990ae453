//! Frames in, gathered batches out.
//!
//! Pack bytes come as [`Segment`]s of any length. The outbox cuts their concatenation into side-band frames of the
//! largest size and collects many frames in a batch, which a [`Door`] hands over in one call:
//!
//! ```text
//! segments  ├──── Mapped 4 MiB ────────────────┤├ Owned 40 ┤├──── Mapped …
//! frames    ├ 65,515 ┤├ 65,515 ┤├ 65,515 ┤├ 65,515 ┤├ 65,515 ┤
//! batch     [5][range][5][range][5][range][5 + 40 copied][range] …      → one gathered write
//! ```
//!
//! A payload is never copied between a mapped pack and the kernel, unless it is so short that a piece of its own
//! costs more than the copy ([`COPY_BELOW_BYTES`]).
//!
//! Keepalive counts from the last byte sent. When it is due, held bytes are sent, a partial frame included; only
//! when there are none, an empty band-1 packet (`0005\x01`) goes out.

use std::io;
use std::ops::Range;
use std::time::Duration;

use packrace_os::Mapped;
use packrace_pack::generate::Segment;
use packrace_protocol::wire::sideband::{self, Band};

/// Ranges shorter than this are copied next to their neighbours, because a piece of a gathered write has a cost of its
/// own. An estimate, not measured yet: docs/decisions/0004-outbox-constants.md.
pub const COPY_BELOW_BYTES: usize = 512;

/// A batch is sent when it holds this much: 16 full frames fill a pipe of 1 MiB.
pub const BATCH_BYTES: usize = 16 * (sideband::LARGE_FRAME_PAYLOAD + 5);

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
    bytes: usize,
}

impl GatherBatch {
    /// A batch of one piece.
    pub fn of(bytes: Vec<u8>) -> Self {
        let mut batch = GatherBatch::default();
        batch.push_owned(bytes);
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

    fn push_copy(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        match self.pieces.last_mut() {
            Some(Piece::Owned(last)) => last.extend_from_slice(bytes),
            _ => self.pieces.push(Piece::Owned(bytes.to_vec())),
        }
    }

    fn push_owned(&mut self, bytes: Vec<u8>) {
        if bytes.len() < COPY_BELOW_BYTES {
            return self.push_copy(&bytes);
        }
        self.bytes += bytes.len();
        self.pieces.push(Piece::Owned(bytes));
    }

    fn push(&mut self, piece: Piece) {
        match piece {
            Piece::Owned(bytes) => self.push_owned(bytes),
            Piece::Mapped(map, range) if range.len() < COPY_BELOW_BYTES => self.push_copy(&map[range]),
            Piece::Mapped(map, range) => {
                self.bytes += range.len();
                self.pieces.push(Piece::Mapped(map, range));
            }
        }
    }
}

/// The way out to one client. Blocks until the batch is accepted; this is the back-pressure.
pub trait Door: Send {
    /// Sends all pieces in order.
    fn send(&mut self, batch: GatherBatch) -> io::Result<()>;

    /// Whether the client is known to have gone, without sending anything.
    fn peer_gone(&mut self) -> bool;
}

/// How pack bytes are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// As they are: a client without side-band. There is no progress, no keepalive and no error message.
    Raw,
    /// In band 1, at most this many payload bytes a frame.
    Sideband {
        /// 65,515 for side-band-64k, 995 for side-band.
        payload_bytes: usize,
    },
}

/// Collects frames and sends them in batches.
pub struct Outbox<'d> {
    door: &'d mut dyn Door,
    framing: Framing,
    /// Frames that are complete.
    batch: GatherBatch,
    /// The beginning of the next band-1 frame, without header.
    frame: GatherBatch,
    keepalive: Option<Duration>,
    last_sent: Duration,
    keepalives_sent: u64,
}

impl<'d> Outbox<'d> {
    /// An empty outbox. `keepalive` is the longest silence that is allowed from `now` on; `None` turns it off.
    pub fn new(door: &'d mut dyn Door, framing: Framing, keepalive: Option<Duration>, now: Duration) -> Self {
        Outbox {
            door,
            framing,
            batch: GatherBatch::default(),
            frame: GatherBatch::default(),
            keepalive: keepalive.filter(|_| framing != Framing::Raw),
            last_sent: now,
            keepalives_sent: 0,
        }
    }

    /// Adds bytes of the pack.
    pub fn pack(&mut self, segment: Segment, now: Duration) -> io::Result<()> {
        let Framing::Sideband { payload_bytes } = self.framing else {
            self.batch.push(piece(segment));
            return self.send_if_full(now);
        };
        match segment {
            Segment::Mapped(map, range) => {
                let mut start = range.start;
                while start < range.end {
                    let take = (payload_bytes - self.frame.len()).min(range.end - start);
                    self.frame.push(Piece::Mapped(map.clone(), start..start + take));
                    start += take;
                    self.close_frame_if_full(payload_bytes, now)?;
                }
            }
            Segment::Owned(bytes) if self.frame.len() + bytes.len() < payload_bytes => {
                self.frame.push_owned(bytes)
            }
            Segment::Owned(bytes) => {
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    let (head, tail) = rest.split_at((payload_bytes - self.frame.len()).min(rest.len()));
                    self.frame.push_copy(head);
                    rest = tail;
                    self.close_frame_if_full(payload_bytes, now)?;
                }
            }
        }
        Ok(())
    }

    /// Sends progress text in band 2, at once, with all complete frames.
    pub fn progress(&mut self, text: &[u8], now: Duration) -> io::Result<()> {
        if let Framing::Sideband { payload_bytes } = self.framing {
            let mut packets = Vec::new();
            sideband::write_packets(Band::Progress, text, payload_bytes, &mut packets);
            self.batch.push_owned(packets);
            self.send(now)?;
        }
        Ok(())
    }

    /// When [`Outbox::tick`] is due, if ever.
    pub fn next_tick(&self) -> Option<Duration> {
        self.keepalive.map(|interval| self.last_sent + interval)
    }

    /// Sends what is held, or a keepalive, if nothing was sent for the keepalive interval.
    pub fn tick(&mut self, now: Duration) -> io::Result<()> {
        if self.next_tick().is_none_or(|due| now < due) {
            return Ok(());
        }
        self.close_frame();
        if self.batch.is_empty() {
            self.batch.push_copy(sideband::KEEPALIVE);
            self.keepalives_sent += 1;
        }
        self.send(now)
    }

    /// Sends everything and the closing flush packet.
    pub fn finish(mut self, now: Duration) -> io::Result<()> {
        self.close_frame();
        if self.framing != Framing::Raw {
            self.batch.push_copy(b"0000");
        }
        self.send(now)
    }

    /// Ends with an error message in band 3; the pack stays incomplete.
    pub fn fail(mut self, message: &[u8], now: Duration) -> io::Result<()> {
        if let Framing::Sideband { payload_bytes } = self.framing {
            self.close_frame();
            let mut packets = Vec::new();
            sideband::write_packets(Band::Error, message, payload_bytes, &mut packets);
            self.batch.push_owned(packets);
        }
        self.send(now)
    }

    /// Whether the client is known to have gone.
    pub fn peer_gone(&mut self) -> bool {
        self.door.peer_gone()
    }

    fn close_frame_if_full(&mut self, payload_bytes: usize, now: Duration) -> io::Result<()> {
        if self.frame.len() < payload_bytes {
            return Ok(());
        }
        self.close_frame();
        self.send_if_full(now)
    }

    fn close_frame(&mut self) {
        if self.frame.is_empty() {
            return;
        }
        let frame = std::mem::take(&mut self.frame);
        self.batch.push_copy(&sideband::frame_header(Band::Data, frame.len()));
        for piece in frame.pieces {
            self.batch.push(piece);
        }
    }

    fn send_if_full(&mut self, now: Duration) -> io::Result<()> {
        if self.batch.len() >= BATCH_BYTES { self.send(now) } else { Ok(()) }
    }

    fn send(&mut self, now: Duration) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.last_sent = now;
        self.door.send(std::mem::take(&mut self.batch))
    }
}

fn piece(segment: Segment) -> Piece {
    match segment {
        Segment::Mapped(map, range) => Piece::Mapped(map, range),
        Segment::Owned(bytes) => Piece::Owned(bytes),
    }
}

#[cfg(test)]
mod tests;
