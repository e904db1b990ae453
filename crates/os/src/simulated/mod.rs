//! Test doubles of the real parts: time stands still until advanced, and a peer and a disk
//! misbehave on request.

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

/// A clock that moves only when advanced; clones show the same time.
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

/// The effect of one write call of a [`SimulatedSink`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteStep {
    /// Takes at most this many bytes.
    Take(usize),
    /// Fails with this kind.
    Fail(io::ErrorKind),
}

/// A sink that stores what it receives and follows a script; after the script it accepts everything.
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

    /// Everything received.
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    /// Write calls so far, including failed ones.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// The number of waits for room so far.
    pub fn waits(&self) -> usize {
        self.waits
    }

    /// Makes the peer gone from now on.
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
