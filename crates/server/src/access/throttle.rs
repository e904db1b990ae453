//! Limits the verification of passwords: a few at a time, and none for addresses that send wrong ones.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::address;

/// How long a request waits for its turn to have credentials verified.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The most wrong credentials from one address in [`FAILURE_WINDOW`].
const MAX_FAILURES: u32 = 30;

/// How long wrong credentials count.
const FAILURE_WINDOW: Duration = Duration::from_secs(60);

/// The most addresses whose failures are counted. Beyond that the expired counts are dropped, or else all.
const MAX_ADDRESSES: usize = 100_000;

/// Limits how many credentials are verified at the same time.
#[derive(Debug)]
pub(super) struct VerifyLimit {
    free: Mutex<usize>,
    changed: Condvar,
}

impl VerifyLimit {
    pub(super) fn new(at_once: usize) -> Self {
        VerifyLimit { free: Mutex::new(at_once.max(1)), changed: Condvar::new() }
    }

    /// Runs `work` when its turn comes; `None` if that takes too long.
    pub(super) fn run<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(free, MAX_WAIT, |free| *free == 0);
        let (mut free, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && *free == 0 {
            return None;
        }
        *free -= 1;
        drop(free);
        let _turn = Turn(self);
        Some(work())
    }
}

/// A turn, which also ends with a panic.
struct Turn<'a>(&'a VerifyLimit);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.changed.notify_one();
    }
}

/// Wrong credentials by address.
#[derive(Debug, Default)]
pub(super) struct FailureLimit(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl FailureLimit {
    /// Whether an address has sent too many.
    pub(super) fn is_reached(&self, address: IpAddr, now: Instant) -> bool {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = failures.get(&address::client(address));
        of_client.is_some_and(|(begin, count)| *count >= MAX_FAILURES && now < *begin + FAILURE_WINDOW)
    }

    /// Counts wrong credentials.
    pub(super) fn add(&self, address: IpAddr, now: Instant) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= MAX_ADDRESSES {
            failures.retain(|_, (begin, _)| now < *begin + FAILURE_WINDOW);
        }
        if failures.len() >= MAX_ADDRESSES {
            failures.clear();
        }
        let (begin, count) = failures.entry(address::client(address)).or_insert((now, 0));
        if now >= *begin + FAILURE_WINDOW {
            (*begin, *count) = (now, 0);
        }
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_for_a_minute_and_by_client() {
        let (limit, now) = (FailureLimit::default(), Instant::now());
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        for _ in 0..MAX_FAILURES {
            assert!(!limit.is_reached(address("2001:db8::1"), now));
            limit.add(address("2001:db8::1"), now);
        }
        assert!(limit.is_reached(address("2001:db8::2"), now));
        assert!(!limit.is_reached(address("192.0.2.1"), now));
        assert!(!limit.is_reached(address("2001:db8::1"), now + FAILURE_WINDOW));
        limit.add(address("2001:db8::1"), now + FAILURE_WINDOW);
        assert!(!limit.is_reached(address("2001:db8::1"), now + FAILURE_WINDOW));
    }

    #[test]
    fn a_turn_comes_back_after_a_panic() {
        let limit = VerifyLimit::new(1);
        let panics = std::panic::AssertUnwindSafe(|| limit.run(|| panic!("as a bug would")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(limit.run(|| 7), Some(7));
    }
}
