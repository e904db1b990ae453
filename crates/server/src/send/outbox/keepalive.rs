//! Decides when a connection was silent for so long that a proxy or a client might give it up.

use std::time::Duration;

/// Measures the silence towards one client.
#[derive(Debug)]
pub(super) struct Keepalive {
    /// The longest silence; `None` for no limit.
    interval: Option<Duration>,
    last_sent: Duration,
    /// Empty packets sent so far.
    pub(super) sent: u64,
}

impl Keepalive {
    pub(super) fn new(interval: Option<Duration>, now: Duration) -> Self {
        Keepalive { interval, last_sent: now, sent: 0 }
    }

    /// Silence counts from now on: something was sent, or the client had to speak.
    pub(super) fn restart(&mut self, now: Duration) {
        self.last_sent = self.last_sent.max(now);
    }

    /// When the silence becomes too long, if ever.
    pub(super) fn due(&self) -> Option<Duration> {
        self.interval.map(|interval| self.last_sent + interval)
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.due().is_some_and(|due| now >= due)
    }
}
