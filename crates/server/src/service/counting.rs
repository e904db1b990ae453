//! Counts the bytes that a call receives and sends.

use std::io::{self, Read};

use crate::send::outbox::{ClientSink, GatherBatch};
use crate::transfers::Transfer;

/// Counts sent bytes.
pub(crate) struct CountingSink<'a, D> {
    pub(crate) client: D,
    pub(crate) transfer: &'a Transfer,
}

impl<D: ClientSink> ClientSink for CountingSink<'_, D> {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        let length = batch.len() as u64;
        self.client.send(batch)?;
        self.transfer.sent(length);
        Ok(())
    }

    fn peer_gone(&mut self) -> bool {
        self.client.peer_gone()
    }

    fn demote_to_background(&mut self) {
        self.client.demote_to_background();
    }
}

/// Counts received bytes.
pub(crate) struct CountingReader<'a, R: ?Sized> {
    pub(crate) input: &'a mut R,
    pub(crate) transfer: &'a Transfer,
}

impl<R: Read + ?Sized> Read for CountingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.transfer.received(length as u64);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Recorder {
        sent: Vec<u8>,
        is_background: bool,
    }

    impl ClientSink for Recorder {
        fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
            batch.pieces().for_each(|piece| self.sent.extend_from_slice(piece));
            Ok(())
        }

        fn peer_gone(&mut self) -> bool {
            true
        }

        fn demote_to_background(&mut self) {
            self.is_background = true;
        }
    }

    #[test]
    fn what_is_sent_is_counted_and_passed_on() {
        let (transfer, mut recorder) = (Transfer::unlisted("1"), Recorder::default());
        let mut client = CountingSink { client: &mut recorder, transfer: &transfer };
        client.send(GatherBatch::of(b"pack".to_vec())).unwrap();
        assert!(client.peer_gone());
        client.demote_to_background();
        assert_eq!((&recorder.sent[..], recorder.is_background), (&b"pack"[..], true));
        assert_eq!(transfer.sent_bytes(), 4);
    }
}
