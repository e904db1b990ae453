use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::shared_pack::{Keeping, SharedPack, SharedPackState};
use crate::send::event::Event;

/// Reads a pack from its first byte. If the last reader is dropped before the end, the pack is cancelled; in
/// any case its worker has ended afterwards.
#[derive(Debug)]
pub struct Reader {
    pack: Arc<SharedPack>,
    number: u64,
    reports_seen: u64,
    has_just_reported: bool,
}

impl Reader {
    fn new(pack: Arc<SharedPack>, number: u64) -> Self {
        Reader { pack, number, reports_seen: 0, has_just_reported: false }
    }

    /// A reader at the first byte, if that is still held; and whether the pack is complete.
    pub(super) fn join(pack: Arc<SharedPack>) -> Option<(Self, bool)> {
        let (number, is_complete) = pack.join()?;
        Some((Reader::new(pack, number), is_complete))
    }

    /// The first reader.
    pub(super) fn first(pack: Arc<SharedPack>) -> Self {
        let number = pack.first_reader();
        Reader::new(pack, number)
    }

    /// The next event, or `None` after exactly `wait` without one.
    pub fn next(&mut self, wait: Duration) -> Option<Event> {
        let pack = self.pack.clone();
        let mut state = pack.lock();
        let mut found = None;
        state.waiting_readers += 1;
        // A wake-up for a piece that this reader has already taken must not end the wait.
        let woken = pack.for_readers.wait_timeout_while(state, wait, |state| {
            found = self.look(state);
            found.is_none()
        });
        let (mut state, timeout) = woken.expect("no panic while held");
        state.waiting_readers -= 1;
        if timeout.timed_out() {
            pack.flush_requested.store(true, Relaxed);
        }
        found
    }

    fn look(&mut self, state: &mut SharedPackState) -> Option<Event> {
        let at = state.readers.get(&self.number).map_or(0, |place| place.pieces);
        if at < state.first {
            return Some(Event::Lagged);
        }
        let is_piece_there = at < state.next_piece();
        let unseen = state.phases.iter().filter(|report| report.number > self.reports_seen);
        if let Some(report) = unseen.min_by_key(|report| report.number) {
            let is_newest = report.number == state.reports;
            // Finished phases are reported before the bytes; the newest report only between pieces, so that
            // they do not wait.
            if !is_newest || !is_piece_there || !self.has_just_reported {
                self.reports_seen = report.number;
                self.has_just_reported = is_newest;
                return Some(Event::Progress { phase: report.phase, done: report.done, total: report.total });
            }
        }
        self.has_just_reported = false;
        let Some(segment) = state.take(self.number) else {
            return state.end.clone().map(|end| Event::End(end.map(Some)));
        };
        if state.is_worker_waiting {
            self.pack.for_worker.notify_one();
        }
        Some(Event::Segment(segment))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.pack.lock();
        state.readers.remove(&self.number);
        if state.keeping == Keeping::Nothing {
            state.drop_what_all_have();
        }
        let is_last = state.readers.is_empty();
        if is_last && state.end.is_none() {
            self.pack.cancelled.store(true, Relaxed);
        }
        drop(state);
        self.pack.for_worker.notify_one();
        if is_last {
            let worker = self.pack.worker.lock().expect("no panic while held").take();
            // Its result was delivered already, and so was a panic.
            let _ = worker.map(std::thread::JoinHandle::join);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use prometheus_client::metrics::gauge::Gauge;

    use super::*;
    use crate::send::pack_cache::budget::ByteBudget;
    use crate::send::pack_cache::shared_pack::Bounds;

    #[test]
    fn is_not_woken_for_nothing() {
        let budget = ByteBudget::new(0, &Gauge::default());
        let pack = SharedPack::new(Bounds::default(), Keeping::Memory, &budget, &budget);
        let mut reader = Reader::first(pack.clone());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    pack.for_readers.notify_all();
                    std::thread::yield_now();
                }
            });
            let (start, wait) = (Instant::now(), Duration::from_millis(50));
            let received = reader.next(wait);
            is_over.store(true, Relaxed);
            assert!(received.is_none() && start.elapsed() >= wait);
        });
    }
}
