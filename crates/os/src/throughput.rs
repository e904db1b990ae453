//! The minimum throughput of a peer.

use std::io;
use std::time::{Duration, Instant};

/// The throughput required of a peer that is waited for: this many bytes in each period, or all
/// that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinThroughput {
    /// The period. Waits add up; time between them does not count.
    pub time: Duration,
    /// The bytes. With 1, only silence counts.
    pub bytes: usize,
}

/// Watches the throughput of a peer.
#[derive(Debug)]
pub struct ThroughputWatch {
    min: MinThroughput,
    waited: Duration,
    moved_bytes: usize,
}

impl ThroughputWatch {
    /// A watch that has not waited for the peer yet.
    pub fn new(min: MinThroughput) -> Self {
        ThroughputWatch { min, waited: Duration::ZERO, moved_bytes: 0 }
    }

    /// The longest single wait.
    pub fn longest_wait(&self) -> Duration {
        self.min.time
    }

    /// Records a wait that began at `since` and moved `bytes`. Fails with [`io::ErrorKind::TimedOut`] once the peer
    /// is too slow.
    pub fn waited(&mut self, since: Instant, bytes: usize) -> io::Result<()> {
        self.add(since.elapsed(), bytes)
    }

    fn add(&mut self, waited: Duration, bytes: usize) -> io::Result<()> {
        self.waited += waited;
        self.moved_bytes = self.moved_bytes.saturating_add(bytes);
        if self.waited < self.min.time {
            return Ok(());
        }
        let is_too_slow = self.moved_bytes < self.min.bytes;
        *self = ThroughputWatch::new(self.min);
        if is_too_slow { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of the step at which the peer is too slow.
    fn check(steps: &[(u64, usize)], expect: Option<usize>) {
        let mut speed = ThroughputWatch::new(MinThroughput { time: Duration::from_secs(10), bytes: 100 });
        let slow = steps.iter().position(|(seconds, bytes)| {
            let added = speed.add(Duration::from_secs(*seconds), *bytes);
            added.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
        });
        assert_eq!(slow, expect, "{steps:?}");
    }

    #[test]
    fn who_trickles_is_too_slow() {
        check(&[(9, 0), (0, 0)], None);
        check(&[(9, 0), (1, 0)], Some(1));
        check(&[(10, 99)], Some(0));
        check(&[(10, 100)], None);
        check(&[(1, 100), (9, 0), (1, 0)], None);
        check(&[(1, 100), (9, 0), (9, 99), (1, 0)], Some(3));
        check(&[(5, 50), (5, 50), (5, 50), (5, 49)], Some(3));
        check(&[(100, 1 << 40), (1, 0)], None);
    }
}
