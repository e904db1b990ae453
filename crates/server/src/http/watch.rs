//! Timeouts of HTTP: how long a client may be idle or slow.
//!
//! One watch covers a whole connection, whatever its protocol version: the time without a running request
//! (before the first, between two, while a head trickles in), and the bytes of each answer that wait for the
//! client.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use packrace_os::throughput::MinThroughput;
use tokio::sync::Notify;

use crate::limits::budget::CUT;
use crate::limits::connections::Permit;

/// A connection, from accept to close.
#[derive(Debug)]
pub(crate) struct ConnectionWatch {
    /// How long it may have no request.
    request_time: Duration,
    /// The lowest throughput of an answer.
    min: MinThroughput,
    /// Notified when a long answer begins, which continues in the background.
    background: Arc<Notify>,
    /// Its connection permit; idle while no request is running.
    permit: Option<Permit>,
    state: Mutex<WatchState>,
}

#[derive(Debug)]
struct WatchState {
    /// Since when no request is running, if none is.
    idle_since: Instant,
    requests: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    sent: Arc<Sent>,
    mark: Option<Mark>,
}

/// Bytes of an answer: those that hyper has received, and those that have left this program.
#[derive(Debug, Default)]
struct Sent {
    handed_bytes: AtomicU64,
    taken_bytes: AtomicU64,
}

/// The counters when bytes were first seen waiting.
#[derive(Debug, Clone, Copy)]
struct Mark {
    since: Instant,
    handed_bytes: u64,
    taken_bytes: u64,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooSlow {
    /// No request arrived.
    Silent,
    /// The client read an answer too slowly.
    Stalled,
    /// No request arrived, and another client needed the permit.
    Cut,
}

impl std::fmt::Display for TooSlow {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            TooSlow::Silent => "no request within limits.request-time",
            TooSlow::Stalled => "client reads its response too slowly (limits.stall-time)",
            TooSlow::Cut => CUT,
        })
    }
}

impl ConnectionWatch {
    pub(crate) fn new(request_time: Duration, min: MinThroughput, permit: Option<Permit>) -> Arc<Self> {
        let state = WatchState { idle_since: Instant::now(), requests: Vec::new() };
        permit.iter().for_each(Permit::waits);
        let (background, state) = (Arc::default(), Mutex::new(state));
        Arc::new(ConnectionWatch { request_time, min, background, permit, state })
    }

    /// Ready when its permit is cut.
    async fn cut(&self) {
        match &self.permit {
            Some(permit) => permit.cut().await,
            None => std::future::pending().await,
        }
    }

    /// Notified when a long answer begins.
    pub(super) fn background(&self) -> &Arc<Notify> {
        &self.background
    }

    /// Called when the request waits for its body: if no other request is running, the connection counts as
    /// waiting.
    pub(super) fn awaits_body(&self) {
        if self.state().requests.len() == 1 {
            self.permit.iter().for_each(Permit::waits);
        }
    }

    /// Called when the body has arrived.
    pub(super) fn has_body(&self) {
        self.permit.iter().for_each(Permit::works);
    }

    /// Begins a request. It runs until the result is dropped.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Arc<InFlight> {
        let sent = Arc::new(Sent::default());
        let mut state = self.state();
        state.requests.push(Watched { sent: sent.clone(), mark: None });
        self.permit.iter().for_each(Permit::works);
        drop(state);
        Arc::new(InFlight { watch: self.clone(), sent })
    }

    /// Bytes of an answer have left hyper and are not in the client's socket yet. They count as a running
    /// answer until the result is dropped; their holder reports what the socket takes with
    /// [`InFlight::moved`].
    pub(super) fn begin_unsent(self: &Arc<Self>) -> Arc<InFlight> {
        let in_flight = self.begin_request();
        // As much as the client must take in a time span; bytes that it takes are handed over again.
        in_flight.handed(self.min.bytes.max(1));
        in_flight
    }

    /// Ready when the client is too slow.
    pub(super) async fn too_slow(&self) -> TooSlow {
        tokio::select! {
            () = self.cut() => TooSlow::Cut,
            why = self.look_again_and_again() => why,
        }
    }

    async fn look_again_and_again(&self) -> TooSlow {
        loop {
            let now = Instant::now();
            match self.look(now) {
                Ok(next) => tokio::time::sleep(next.saturating_duration_since(now)).await,
                Err(why) => return why,
            }
        }
    }

    /// When to check again, or why the connection must be closed.
    pub(super) fn look(&self, now: Instant) -> Result<Instant, TooSlow> {
        let mut state = self.state();
        if state.requests.is_empty() {
            let due = state.idle_since + self.request_time;
            return if now < due { Ok(due) } else { Err(TooSlow::Silent) };
        }
        match state.requests.iter_mut().all(|watched| watched.is_moving(now, self.min)) {
            true => Ok(now + self.request_time.min(self.min.time)),
            false => Err(TooSlow::Stalled),
        }
    }

    fn state(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Whether the client is fast enough: in each time span it takes all bytes that waited at its start, or
    /// the minimum.
    fn is_moving(&mut self, now: Instant, min: MinThroughput) -> bool {
        let handed_bytes = self.sent.handed_bytes.load(Relaxed);
        let taken_bytes = self.sent.taken_bytes.load(Relaxed);
        let here = Mark { since: now, handed_bytes, taken_bytes };
        match self.mark {
            Some(mark) if taken_bytes < mark.handed_bytes => {
                if now.saturating_duration_since(mark.since) < min.time {
                    return true;
                }
                self.mark = Some(here);
                taken_bytes - mark.taken_bytes >= min.bytes as u64
            }
            _ => {
                self.mark = (taken_bytes < handed_bytes).then_some(here);
                true
            }
        }
    }
}

/// A request and its answer, while any part of them is held.
#[derive(Debug)]
pub(crate) struct InFlight {
    watch: Arc<ConnectionWatch>,
    sent: Arc<Sent>,
}

impl InFlight {
    /// The watch that it belongs to.
    pub(super) fn watch(&self) -> &ConnectionWatch {
        &self.watch
    }

    /// Counts bytes that were handed over to be sent.
    pub(super) fn handed(&self, bytes: usize) {
        self.sent.handed_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts bytes that the client's socket took, or that will not be sent any more.
    pub(super) fn taken(&self, bytes: usize) {
        self.sent.taken_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts bytes that the client's socket took, while as many seem to wait as before.
    pub(super) fn moved(&self, bytes: u64) {
        self.sent.handed_bytes.fetch_add(bytes, Relaxed);
        self.sent.taken_bytes.fetch_add(bytes, Relaxed);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.watch.state();
        state.requests.retain(|watched| !Arc::ptr_eq(&watched.sent, &self.sent));
        state.idle_since = Instant::now();
        if state.requests.is_empty() {
            self.watch.permit.iter().for_each(Permit::waits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn new_watch() -> (Arc<ConnectionWatch>, Instant) {
        let watch = ConnectionWatch::new(10 * SECOND, MinThroughput { time: 20 * SECOND, bytes: 100 }, None);
        let start = watch.state().idle_since;
        (watch, start)
    }

    #[test]
    fn silence_ends_it() {
        let (watch, start) = new_watch();
        assert_eq!(watch.look(start), Ok(start + 10 * SECOND));
        assert_eq!(watch.look(start + 9 * SECOND), Ok(start + 10 * SECOND));
        assert_eq!(watch.look(start + 10 * SECOND), Err(TooSlow::Silent));
        let in_flight = watch.begin_request();
        assert_eq!(watch.look(start + 500 * SECOND), Ok(start + 510 * SECOND));
        drop(in_flight);
        let idle_since = watch.state().idle_since;
        assert_eq!(watch.look(idle_since + SECOND), Ok(idle_since + 10 * SECOND));
    }

    /// Steps of time, bytes handed over and bytes taken; the step at which the client is too slow.
    fn check(steps: &[(u32, usize, usize)], expect: Option<usize>) {
        let (watch, start) = new_watch();
        let (quick, slow) = (watch.begin_request(), watch.begin_request());
        quick.handed(1);
        quick.taken(1);
        let stalled = steps.iter().position(|&(second, handed, taken)| {
            slow.handed(handed);
            slow.taken(taken);
            watch.look(start + second * SECOND) == Err(TooSlow::Stalled)
        });
        assert_eq!(stalled, expect, "{steps:?}");
    }

    #[test]
    fn an_answer_that_is_not_taken_ends_it() {
        check(&[(0, 1000, 0), (10, 0, 0), (19, 0, 0), (20, 0, 0)], Some(3));
        check(&[(0, 1000, 0), (10, 0, 50), (20, 0, 49)], Some(2));
        check(&[(0, 1000, 0), (20, 0, 100), (40, 0, 100), (60, 0, 99)], Some(3));
        // The server may take any time.
        check(&[(0, 50, 50), (100, 0, 0), (200, 50, 0), (210, 0, 50), (400, 0, 0)], None);
        // Little, but all that waited: a keepalive is sometimes seen waiting by chance.
        check(&[(0, 5, 0), (20, 5, 5), (40, 5, 5), (60, 5, 5)], None);
        check(&[(0, 5, 0), (20, 5, 5), (40, 5, 0)], Some(2));
    }
}
