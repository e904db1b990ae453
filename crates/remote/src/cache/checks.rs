//! Checks of one repository's head by concurrent requests.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use super::lock;
use crate::error::{Error, ErrorKind};

/// Most concurrent checks. Requests beyond that share the next one: an unlimited number would cost a request to the
/// store each, and a single one would make each wait for the one before.
pub(super) const MAX_CHECKS: usize = 4;

/// A check that has not begun yet, is running, or has a result.
type HeadCheck = Arc<OnceLock<Result<(), Error>>>;

#[derive(Debug, Default)]
pub(super) struct HeadChecks {
    state: Mutex<ChecksState>,
    /// A check has ended.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct ChecksState {
    running: usize,
    /// The next check to begin, for all requests that wait for it.
    next: HeadCheck,
}

impl HeadChecks {
    /// Runs `check`, or waits for the result of one that another request has begun after this call.
    pub(super) fn run(&self, check: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let mut state = lock(&self.state);
        let wanted = state.next.clone();
        while state.running == MAX_CHECKS || !Arc::ptr_eq(&wanted, &state.next) {
            if let Some(result) = wanted.get() {
                return result.clone();
            }
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.next = HeadCheck::default();
        state.running += 1;
        drop(state);
        let running = Running { checks: self, check: &wanted };
        let result = check();
        // It is set only here and, after a panic, on drop.
        let _ = running.check.set(result.clone());
        result
    }
}

#[cfg(test)]
impl HeadChecks {
    /// How many requests wait for the next check.
    pub(super) fn waiting(&self) -> usize {
        Arc::strong_count(&lock(&self.state).next) - 1
    }
}

/// Ends a check, also after a panic.
struct Running<'a> {
    checks: &'a HeadChecks,
    check: &'a HeadCheck,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let panicked = || Err(Error::new(ErrorKind::Unavailable, "check of the head failed"));
        self.check.get_or_init(panicked);
        lock(&self.checks.state).running -= 1;
        self.checks.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Barrier, mpsc};
    use std::thread;

    use super::*;

    /// Requests that come while all checks run share the next one, and none gets the result of one that had begun before.
    #[test]
    fn who_comes_later_shares_the_next_check() {
        let (checks, begun) = (&HeadChecks::default(), &AtomicUsize::new(0));
        let all_run = &Barrier::new(MAX_CHECKS + 1);
        thread::scope(|scope| {
            let mut ends = Vec::new();
            for _ in 0..MAX_CHECKS {
                let (end, ended) = mpsc::channel::<()>();
                ends.push(end);
                scope.spawn(move || {
                    checks.run(|| {
                        begun.fetch_add(1, SeqCst);
                        all_run.wait();
                        let _ = ended.recv();
                        Err(Error::new(ErrorKind::Unavailable, "an old one"))
                    })
                });
            }
            all_run.wait();
            let later: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(move || {
                        checks.run(|| {
                            begun.fetch_add(1, SeqCst);
                            Ok(())
                        })
                    })
                })
                .collect();
            while checks.waiting() < 8 {
                thread::yield_now();
            }
            drop(ends);
            assert!(later.into_iter().all(|one| one.join().unwrap().is_ok()));
        });
        assert_eq!(begun.load(SeqCst), MAX_CHECKS + 1);
        assert_eq!(lock(&checks.state).running, 0);
    }

    #[test]
    fn a_panic_ends_a_check() {
        let checks = HeadChecks::default();
        let panicked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| checks.run(|| panic!("a fault"))));
        assert!(panicked.is_err());
        assert_eq!(lock(&checks.state).running, 0);
        assert!(checks.run(|| Ok(())).is_ok());
    }
}
