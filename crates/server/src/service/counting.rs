//! What goes through a door, told to the call that it belongs to.

use std::io::{self, Read};

use crate::send::outbox::{Door, GatherBatch};
use crate::transfers::Transfer;

/// A door that counts what leaves.
pub(crate) struct Told<'a, D> {
    pub(crate) door: D,
    pub(crate) transfer: &'a Transfer,
}

impl<D: Door> Door for Told<'_, D> {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        let length = batch.len() as u64;
        self.door.send(batch)?;
        self.transfer.sent(length);
        Ok(())
    }

    fn peer_gone(&mut self) -> bool {
        self.door.peer_gone()
    }

    fn step_back(&mut self) {
        self.door.step_back();
    }
}

/// An input that counts what comes.
pub(crate) struct Heard<'a, R: ?Sized> {
    pub(crate) input: &'a mut R,
    pub(crate) transfer: &'a Transfer,
}

impl<R: Read + ?Sized> Read for Heard<'_, R> {
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
        has_stepped_back: bool,
    }

    impl Door for &mut Recorder {
        fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
            batch.pieces().for_each(|piece| self.sent.extend_from_slice(piece));
            Ok(())
        }

        fn peer_gone(&mut self) -> bool {
            true
        }

        fn step_back(&mut self) {
            self.has_stepped_back = true;
        }
    }

    #[test]
    fn all_that_a_door_is_told_goes_through_it() {
        let (transfer, mut recorder) = (Transfer::unlisted("1"), Recorder::default());
        let mut door = Told { door: &mut recorder, transfer: &transfer };
        door.send(GatherBatch::of(b"pack".to_vec())).unwrap();
        assert!(door.peer_gone());
        door.step_back();
        assert_eq!((&recorder.sent[..], recorder.has_stepped_back), (&b"pack"[..], true));
        assert_eq!(transfer.sent_bytes(), 4);
    }
}
