//! Frames in, gathered batches out.
//!
//! Pack bytes come as [`Segment`]s of any length. The outbox cuts their concatenation into side-band frames of the
//! largest size and collects many frames in a batch, which a [`ClientSink`] hands over in one call:
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
//! The keepalive interval counts from the last byte sent. When it is over, held bytes are sent, a partial
//! frame included; only without any, an empty band-1 packet (`0005\x01`) is sent.

mod batch;
mod keepalive;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::DerefMut;
use std::time::Duration;

use packrace_pack::generate::Segment;
use packrace_protocol::wire::pkt_line;
use packrace_protocol::wire::sideband::{self, Band};

use self::batch::Mark;
use self::keepalive::Keepalive;
pub use batch::{BATCH_BYTES, COPY_BELOW_BYTES, GatherBatch};
pub(crate) use batch::{batch_bytes, owned_pieces};

/// Sends batches to one client. Blocks until a batch is accepted: this is the back-pressure.
pub trait ClientSink: Send {
    /// Sends all pieces in order.
    fn send(&mut self, batch: GatherBatch) -> io::Result<()>;

    /// Whether the client is known to be gone, without sending anything.
    fn peer_gone(&mut self) -> bool;

    /// A long response follows: other clients go first from now on.
    fn demote_to_background(&mut self);
}

/// References and boxes of a sink are sinks.
impl<P> ClientSink for P
where
    P: DerefMut + Send,
    P::Target: ClientSink,
{
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        (**self).send(batch)
    }

    fn peer_gone(&mut self) -> bool {
        (**self).peer_gone()
    }

    fn demote_to_background(&mut self) {
        (**self).demote_to_background();
    }
}

/// How pack bytes are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Unframed, for a client without side-band: no progress, no keepalive and no error message.
    Raw,
    /// In band 1, at most this many payload bytes a frame.
    Sideband {
        /// 65,515 for side-band-64k, 995 for side-band.
        payload_bytes: usize,
    },
}

/// Collects frames and sends them in batches.
pub struct Outbox<'d> {
    client: &'d mut dyn ClientSink,
    framing: Framing,
    max_bytes: usize,
    /// Frames; the last one may be open.
    batch: GatherBatch,
    /// Where the open band-1 frame begins, if there is one. Its header is made when it is closed.
    open: Option<Mark>,
    keepalive: Keepalive,
}

impl<'d> Outbox<'d> {
    /// An empty outbox. `keepalive` is the longest silence from `now` on; `None` turns keepalives off.
    pub fn new(
        client: &'d mut dyn ClientSink,
        framing: Framing,
        keepalive: Option<Duration>,
        now: Duration,
    ) -> Self {
        Outbox {
            client,
            framing,
            max_bytes: BATCH_BYTES,
            batch: GatherBatch::default(),
            open: None,
            keepalive: Keepalive::new(keepalive.filter(|_| framing != Framing::Raw), now),
        }
    }

    /// No batch will have more bytes than this.
    #[must_use]
    pub fn with_batch_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        if let Framing::Sideband { payload_bytes } = &mut self.framing {
            *payload_bytes = (*payload_bytes).min(max_bytes - sideband::FRAME_HEADER_BYTES);
        }
        self
    }

    /// Adds bytes of the pack.
    pub fn pack(&mut self, segment: Segment, now: Duration) -> io::Result<()> {
        let mut start = 0;
        let length = segment.bytes().len();
        while start < length {
            let take = self.room().min(length - start);
            match &segment {
                Segment::Mapped(map, range) => {
                    self.batch.push_mapped(map, range.start + start..range.start + start + take);
                }
                Segment::Owned(_) | Segment::EntryHeader(_) => {
                    self.batch.push(&segment.bytes()[start..start + take]);
                }
            }
            start += take;
            if self.room() == 0 {
                self.close_frame();
                let next = match self.framing {
                    Framing::Sideband { payload_bytes } => sideband::FRAME_HEADER_BYTES + payload_bytes,
                    Framing::Raw => 1,
                };
                self.make_room(next, now)?;
            }
        }
        Ok(())
    }

    /// Payload bytes that fit in the open frame, which is opened if necessary; if unframed, bytes that fit in
    /// the batch.
    fn room(&mut self) -> usize {
        let Framing::Sideband { payload_bytes } = self.framing else {
            return self.max_bytes.saturating_sub(self.batch.len());
        };
        let open = self.open.get_or_insert_with(|| {
            let mark = self.batch.mark();
            self.batch.push_apart(&[0; sideband::FRAME_HEADER_BYTES]);
            mark
        });
        open.bytes + sideband::FRAME_HEADER_BYTES + payload_bytes - self.batch.len()
    }

    /// Sends progress text in band 2 at once, after all complete frames.
    pub fn progress(&mut self, text: &[u8], now: Duration) -> io::Result<()> {
        if let Framing::Sideband { payload_bytes } = self.framing {
            let mut packets = Vec::new();
            sideband::write_packets(Band::Progress, text, payload_bytes, &mut packets);
            let open = self.open.take().map(|mark| self.batch.split_off(&mark));
            self.push_packets(&packets, now)?;
            self.send(now)?;
            if let Some(open) = open {
                self.batch = open;
                self.open = Some(Mark::default());
            }
        }
        Ok(())
    }

    /// Sends packets that are framed already, or any bytes if unframed, after everything before.
    pub fn packets(&mut self, packets: &[u8], now: Duration) -> io::Result<()> {
        self.close_frame();
        self.push_packets(packets, now)?;
        self.send(now)
    }

    /// Counts silence from now on: until now the client had to speak.
    pub fn restart_keepalive(&mut self, now: Duration) {
        self.keepalive.restart(now);
    }

    /// When [`Outbox::tick`] is due, if ever.
    pub fn next_tick(&self) -> Option<Duration> {
        self.keepalive.due()
    }

    /// Sends held bytes, or else a keepalive, if nothing was sent for the keepalive interval.
    pub fn tick(&mut self, now: Duration) -> io::Result<()> {
        if !self.keepalive.is_due(now) {
            return Ok(());
        }
        self.close_frame();
        if self.batch.is_empty() {
            self.batch.push(sideband::KEEPALIVE);
            self.keepalive.sent += 1;
        }
        self.send(now)
    }

    /// Sends all held bytes, a partial frame included.
    pub fn flush(&mut self, now: Duration) -> io::Result<()> {
        self.close_frame();
        self.send(now)
    }

    /// Sends everything and the closing flush packet.
    pub fn finish(mut self, now: Duration) -> io::Result<()> {
        self.close_frame();
        if self.framing != Framing::Raw {
            self.push_packets(pkt_line::FLUSH, now)?;
        }
        self.send(now)
    }

    /// Ends with an error message in band 3; the pack stays incomplete.
    pub fn fail(mut self, message: &[u8], now: Duration) -> io::Result<()> {
        if let Framing::Sideband { payload_bytes } = self.framing {
            self.close_frame();
            let mut packets = Vec::new();
            sideband::write_packets(Band::Error, message, payload_bytes, &mut packets);
            self.push_packets(&packets, now)?;
        }
        self.send(now)
    }

    /// How many empty packets kept the connection alive.
    pub fn keepalives_sent(&self) -> u64 {
        self.keepalive.sent
    }

    /// Whether the client is known to be gone.
    pub fn peer_gone(&mut self) -> bool {
        self.client.peer_gone()
    }

    fn close_frame(&mut self) {
        let Some(open) = self.open.take() else { return };
        let payload_bytes = self.batch.len() - open.bytes - sideband::FRAME_HEADER_BYTES;
        if payload_bytes == 0 {
            self.batch.split_off(&open);
        } else {
            self.batch.overwrite(&open, &sideband::frame_header(Band::Data, payload_bytes));
        }
    }

    /// Adds packets behind closed frames.
    fn push_packets(&mut self, packets: &[u8], now: Duration) -> io::Result<()> {
        for part in packets.chunks(self.max_bytes) {
            self.make_room(part.len(), now)?;
            self.batch.push(part);
        }
        Ok(())
    }

    /// Sends the batch if this many bytes more would be too many.
    fn make_room(&mut self, bytes: usize, now: Duration) -> io::Result<()> {
        if self.batch.len() + bytes > self.max_bytes { self.send(now) } else { Ok(()) }
    }

    fn send(&mut self, now: Duration) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.keepalive.restart(now);
        self.client.send(std::mem::take(&mut self.batch))
    }
}
