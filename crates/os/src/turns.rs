//! Turns: so many threads at once do something, and the others wait outside of the kernel.

use std::sync::{Condvar, Mutex, PoisonError};

/// So many turns at once.
///
/// Many threads that are all about to write hold up others even when their priority is low: each may be preempted while
/// it holds a lock of the kernel that the others need.
#[derive(Debug)]
pub struct Turns {
    free: Mutex<usize>,
    given_back: Condvar,
}

/// A turn, over when it is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Turns {
    /// `count` threads may have a turn at the same time; at least one.
    pub fn new(count: usize) -> Self {
        Turns { free: Mutex::new(count.max(1)), given_back: Condvar::new() }
    }

    /// Waits for a turn.
    pub fn take(&self) -> Turn<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.given_back.wait_while(free, |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn no_more_than_that_at_once() {
        let (turns, inside, all) = (Turns::new(3), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let turn = turns.take();
                        assert!(inside.fetch_add(1, SeqCst) < 3);
                        all.fetch_add(1, SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        drop(turn);
                    }
                });
            }
        });
        assert_eq!(all.load(SeqCst), 16 * 200);
        assert_eq!(*turns.free.lock().unwrap(), 3);
    }
}
