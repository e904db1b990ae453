//! What goes through a door, told to the call that it belongs to.

use std::io::{self, Read};

use crate::outbox::{Door, GatherBatch};
use crate::transfers::Transfer;

/// A door that counts what leaves.
pub(super) struct Told<'a, D> {
    pub(super) door: D,
    pub(super) transfer: &'a Transfer,
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
}

/// An input that counts what comes.
pub(super) struct Heard<'a, R: ?Sized> {
    pub(super) input: &'a mut R,
    pub(super) transfer: &'a Transfer,
}

impl<R: Read + ?Sized> Read for Heard<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.transfer.received(length as u64);
        Ok(length)
    }
}
