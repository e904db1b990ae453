//! Writes lines to a client, batch by batch.

use packrace_protocol::wire::pkt_line;

use crate::error::Error;
use crate::repository_cache::Chunk;
use crate::send::outbox::{ClientSink, GatherBatch};

/// Lines for a client, which are sent batch by batch.
pub(crate) struct Lines<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    client: &'a mut dyn ClientSink,
    /// The most bytes in a batch.
    max_bytes: usize,
    keeping: Option<Keeping>,
}

/// The bytes that were sent, for equal requests.
struct Keeping {
    /// Where the kept bytes begin in the unsent ones.
    start: usize,
    chunks: Vec<Chunk>,
    room: usize,
}

impl<'a> Lines<'a> {
    /// Batches have at most `max_bytes`, also the last one if a flush packet follows.
    pub(crate) fn new(out: &'a mut Vec<u8>, client: &'a mut dyn ClientSink, max_bytes: usize) -> Self {
        Lines { out, client, max_bytes: max_bytes - pkt_line::FLUSH.len(), keeping: None }
    }

    /// Lines that are also kept, if they take no more than `room`.
    #[must_use]
    pub(crate) fn kept(mut self, room: usize) -> Self {
        self.keeping = Some(Keeping { start: self.out.len(), chunks: Vec::new(), room });
        self
    }

    #[inline]
    pub(crate) fn send_if_full(&mut self) -> Result<(), Error> {
        while self.out.len() >= self.max_bytes {
            self.send()?;
        }
        Ok(())
    }

    /// Sends lines that are in a batch of their own, after those before.
    pub(crate) fn send_batch(&mut self, batch: GatherBatch) -> Result<(), Error> {
        if !self.out.is_empty() {
            self.client.send(GatherBatch::of(std::mem::take(self.out))).map_err(Error::gone)?;
        }
        self.client.send(batch).map_err(Error::gone)
    }

    /// All lines, including the unsent ones, if they were kept.
    pub(crate) fn end(mut self) -> Option<Vec<Chunk>> {
        let rest = self.out.len();
        let keeping = self.keeping.as_mut().filter(|keeping| keeping.fits(rest))?;
        keeping.chunks.push(Chunk::new(self.out[keeping.start..].to_vec(), 0));
        self.keeping.map(|keeping| keeping.chunks)
    }

    /// Only one batch is held at a time.
    #[cold]
    fn send(&mut self) -> Result<(), Error> {
        let rest = self.out.split_off(self.max_bytes);
        let bytes = std::mem::replace(self.out, rest);
        self.keeping.take_if(|keeping| !keeping.fits(bytes.len()));
        let batch = match &mut self.keeping {
            None => GatherBatch::of(bytes),
            Some(keeping) => {
                keeping.room -= bytes.len();
                let chunk = Chunk::new(bytes, std::mem::take(&mut keeping.start));
                keeping.chunks.push(chunk.clone());
                chunk.whole()
            }
        };
        self.client.send(batch).map_err(Error::gone)?;
        self.out.reserve(self.max_bytes + pkt_line::MAX_PACKET);
        Ok(())
    }
}

impl Keeping {
    fn fits(&self, bytes: usize) -> bool {
        bytes <= self.room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_BYTES: usize = 1 << 20;

    /// Collects what a client gets.
    #[derive(Default)]
    struct Received(Vec<u8>);

    impl ClientSink for Received {
        fn send(&mut self, batch: GatherBatch) -> std::io::Result<()> {
            batch.pieces().for_each(|piece| self.0.extend_from_slice(piece));
            Ok(())
        }

        fn peer_gone(&mut self) -> bool {
            false
        }

        fn demote_to_background(&mut self) {}
    }

    /// Lines of this many bytes after some that are not kept: the sent bytes are the same, and all lines are
    /// kept or none.
    #[track_caller]
    fn check(bytes: usize, room: usize, expect_chunks: Option<usize>) {
        let (mut out, mut client) = (b"before".to_vec(), Received::default());
        let mut expect = Vec::new();
        let mut lines = Lines::new(&mut out, &mut client, MAX_BYTES).kept(room);
        for number in 0..bytes / 8 {
            let line = format!("{number:07}\n");
            lines.out.extend_from_slice(line.as_bytes());
            expect.extend_from_slice(line.as_bytes());
            lines.send_if_full().unwrap();
        }
        let chunks = lines.end();
        assert_eq!(chunks.as_ref().map(Vec::len), expect_chunks);
        let kept =
            chunks.map(|chunks| chunks.iter().flat_map(|chunk| chunk.bytes()).copied().collect::<Vec<u8>>());
        assert!(kept.is_none_or(|kept| kept == expect));
        client.0.extend_from_slice(&out);
        assert!(client.0 == [b"before".as_slice(), &expect].concat());
    }

    #[test]
    fn lines_are_kept_as_they_were_sent() {
        check(0, 100, Some(1));
        check(800, 900, Some(1));
        check(800, 700, None);
        check(MAX_BYTES * 5 / 2, MAX_BYTES * 3, Some(3));
        check(MAX_BYTES * 5 / 2, MAX_BYTES * 2, None);
        check(MAX_BYTES * 5 / 2, 10, None);
    }
}
