//! Twins of the real parts that tests control: time stands still until it is advanced, a peer and a disk misbehave
//! on cue.

mod disk;
mod forgetful;

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::clock::Clock;
use crate::sink::{GatherLimits, Sink};

pub use disk::{DiskFault, DiskOp, DiskStep, on_disk};
pub(crate) use disk::{before, done};
pub use forgetful::{DiskChange, DiskState, Recording, changes_so_far, recorded};

/// A clock that moves only when told to; clones show the same time.
#[derive(Debug, Clone, Default)]
pub struct SimulatedClock(Arc<AtomicU64>);

impl SimulatedClock {
    /// Advances the time.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), SeqCst);
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(SeqCst))
    }
}

/// What one write call of a [`SimulatedSink`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteStep {
    /// Takes at most this many bytes.
    Take(usize),
    /// Fails with this kind.
    Fail(io::ErrorKind),
}

/// A sink that keeps what it receives and follows a script; after the script it takes everything.
#[derive(Debug)]
pub struct SimulatedSink {
    limits: GatherLimits,
    steps: VecDeque<WriteStep>,
    received: Vec<u8>,
    calls: usize,
    waits: usize,
    gone: bool,
}

impl SimulatedSink {
    /// A sink with these limits and this script.
    pub fn new(limits: GatherLimits, steps: Vec<WriteStep>) -> Self {
        SimulatedSink { limits, steps: steps.into(), received: Vec::new(), calls: 0, waits: 0, gone: false }
    }

    /// Everything that arrived.
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    /// Write calls so far, failed ones included.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// The number of waits for room so far.
    pub fn waits(&self) -> usize {
        self.waits
    }

    /// The peer is gone from now on.
    pub fn leave(&mut self) {
        self.gone = true;
    }
}

impl Sink for SimulatedSink {
    fn write_gathered(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        assert!(pieces.len() <= self.limits.pieces, "more pieces than the limit");
        assert!(
            pieces.iter().map(|p| p.len()).sum::<usize>() <= self.limits.bytes,
            "more bytes than the limit"
        );
        self.calls += 1;
        if self.gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut room = match self.steps.pop_front() {
            Some(WriteStep::Fail(kind)) => return Err(kind.into()),
            Some(WriteStep::Take(bytes)) => bytes,
            None => usize::MAX,
        };
        let before = self.received.len();
        for piece in pieces {
            let take = piece.len().min(room);
            self.received.extend_from_slice(&piece[..take]);
            room -= take;
        }
        Ok(self.received.len() - before)
    }

    fn limits(&self) -> GatherLimits {
        self.limits
    }

    fn wait_writable(&mut self) -> io::Result<()> {
        self.waits += 1;
        Ok(())
    }

    fn peer_gone(&mut self) -> bool {
        self.gone
    }

    fn demote_to_background(&mut self) {}
}
