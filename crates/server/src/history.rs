//! Samples of the last minutes, one a second.

use std::collections::VecDeque;
use std::time::Duration;

/// How often a sample is taken.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// The most samples that are kept: five minutes, 12 KB.
pub(crate) const KEPT: usize = 300;

/// Counters of a server, and its calls at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reading {
    pub(crate) at: Duration,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) live: u64,
    pub(crate) queued: u64,
}

/// The change between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Sample {
    /// Bytes a second.
    pub(crate) sent_rate: f64,
    /// Bytes a second.
    pub(crate) received_rate: f64,
    /// Calls running at its end.
    pub(crate) live: f64,
    /// Clones in the queue at its end.
    pub(crate) queued: f64,
}

/// The last samples, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct SampleHistory {
    samples: VecDeque<Sample>,
    last: Reading,
}

impl SampleHistory {
    /// Adds a reading, which makes a sample together with the one before.
    pub(crate) fn take(&mut self, reading: Reading) {
        let seconds = reading.at.saturating_sub(self.last.at).as_secs_f64();
        let rate = |now: u64, before: u64| match seconds {
            0.0 => 0.0,
            _ => now.saturating_sub(before) as f64 / seconds,
        };
        let sample = Sample {
            sent_rate: rate(reading.sent_bytes, self.last.sent_bytes),
            received_rate: rate(reading.received_bytes, self.last.received_bytes),
            live: reading.live as f64,
            queued: reading.queued as f64,
        };
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.last = reading;
    }

    /// All kept samples.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.samples.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_by_the_time_that_passed() {
        let mut history = SampleHistory::default();
        let reading = |seconds, sent_bytes| Reading {
            at: Duration::from_secs(seconds),
            sent_bytes,
            live: 3,
            ..Reading::default()
        };
        history.take(reading(1, 1000));
        history.take(reading(3, 5000));
        history.take(reading(3, 5000));
        let rates: Vec<f64> = history.samples().iter().map(|sample| sample.sent_rate).collect();
        assert_eq!(rates, [1000.0, 2000.0, 0.0]);
        for second in 0..2 * KEPT as u64 {
            history.take(reading(second + 4, 5000));
        }
        assert_eq!(history.samples().len(), KEPT);
        assert_eq!(history.samples()[0], Sample { live: 3.0, ..Sample::default() });
    }
}
