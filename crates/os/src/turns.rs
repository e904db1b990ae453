//! Turns: so many threads at once do something long, short work goes before them, and they wait outside of the kernel.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Work that goes first is short: after this time it is not waited for.
const SHORT: Duration = Duration::from_millis(20);

/// More of it often follows: so long after it was done, it is still waited for.
const LINGER: Duration = Duration::from_millis(1);

/// After so long without a turn, divided by the number of turns, the next one is given whatever goes first.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// Threads that short work keeps busy: one that makes something, and one that sends it.
const SHORT_THREADS: usize = 2;

/// So many turns at once, half as many as there are processors. Where short work needs more than the other half, turns
/// wait for it, but not for long.
///
/// Many threads that are all about to write hold up others even when their priority is low: each may be preempted while
/// it holds a lock of the kernel that the others need, together they weigh as much as threads of usual priority, and a
/// kernel that does not preempt itself lets each of them write all it has.
#[derive(Debug)]
pub struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    count: usize,
    free: usize,
    /// When the last turn was given.
    given: Instant,
    /// What goes first: until when, and which.
    first: Vec<(Instant, u64)>,
    next: u64,
    /// Somebody waits until the next turn is due.
    is_watched: bool,
}

/// A turn, over when it is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

/// Short work for which turns wait, until it is dropped or turns out to be not that short.
#[derive(Debug)]
pub struct First {
    turns: Arc<Turns>,
    number: u64,
}

impl Turns {
    /// `count` threads may have a turn at the same time; at least one.
    pub fn new(count: usize) -> Self {
        let count = count.max(1);
        let state = State {
            count,
            free: count,
            given: Instant::now(),
            first: Vec::new(),
            next: 0,
            is_watched: false,
        };
        Turns { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for a turn.
    pub fn take(&self) -> Turn<'_> {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let pause = state.pause(now);
            if state.free > 0 && pause.is_none() {
                state.free -= 1;
                state.given = now;
                let has_more = state.free > 0;
                drop(state);
                if has_more {
                    self.changed.notify_one();
                }
                return Turn(self);
            }
            // One of all that wait looks at the clock.
            let watched = pause.filter(|_| state.free > 0 && !state.is_watched);
            state = match watched {
                Some(pause) => {
                    state.is_watched = true;
                    let woken = self.changed.wait_timeout(state, pause);
                    let mut state = woken.unwrap_or_else(PoisonError::into_inner).0;
                    state.is_watched = false;
                    state
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Goes before those that wait for a turn.
    pub fn go_first(self: &Arc<Self>) -> First {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.first.push((Instant::now() + SHORT, number));
        First { turns: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How long the next turn has to wait for what goes first, if it has to.
    fn pause(&mut self, now: Instant) -> Option<Duration> {
        self.first.retain(|(until, _)| *until > now);
        let (until, _) = self.first.iter().min()?;
        let taken = self.count - self.free;
        if taken + SHORT_THREADS * self.first.len() < 2 * self.count {
            return None;
        }
        let pause = (LONGEST_PAUSE / self.count as u32).checked_sub(now.duration_since(self.given))?;
        Some(pause.min(*until - now)).filter(|wait| !wait.is_zero())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().free += 1;
        self.0.changed.notify_one();
    }
}

impl Drop for First {
    /// Whoever waits looks again by itself.
    fn drop(&mut self) {
        let end = Instant::now() + LINGER;
        let mut state = self.turns.lock();
        let own = state.first.iter_mut().find(|(_, number)| *number == self.number);
        own.into_iter().for_each(|(until, _)| *until = end.min(*until));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn no_more_than_that_at_once() {
        let (turns, inside, all) = (Arc::new(Turns::new(3)), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for number in 0..16 {
                let (turns, inside, all) = (&turns, &inside, &all);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let first = (number == 0).then(|| turns.go_first());
                        let turn = turns.take();
                        assert!(inside.fetch_add(1, SeqCst) < 3);
                        all.fetch_add(1, SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        drop((turn, first));
                    }
                });
            }
        });
        assert_eq!(all.load(SeqCst), 16 * 200);
        assert_eq!(turns.lock().free, 3);
    }

    /// Times are given, not waited for.
    #[test]
    fn what_is_short_goes_first_and_for_a_moment_only() {
        let turns = Arc::new(Turns::new(1));
        let pause = |now| turns.lock().pause(now);
        let start = turns.lock().given;
        assert_eq!(pause(start), None);
        let first = turns.go_first();
        let until = turns.lock().first[0].0;
        assert!(until >= start + SHORT);
        assert_eq!(pause(start), Some(LONGEST_PAUSE));
        assert_eq!(pause(start + LONGEST_PAUSE / 2), Some(LONGEST_PAUSE / 2));
        // A turn now and then there is in any case.
        assert_eq!(pause(start + LONGEST_PAUSE), None);
        // What was not that short is forgotten.
        turns.lock().given = until;
        assert_eq!(pause(until - LINGER), Some(LINGER));
        assert_eq!(pause(until), None);
        assert!(turns.lock().first.is_empty());
        drop(first);
        // What is done is soon forgotten.
        drop(turns.go_first());
        let until = turns.lock().first[0].0;
        assert!(until <= Instant::now() + LINGER);
        assert_eq!(pause(until), None);
    }

    /// Of eight processors, two turns and two that are short leave some.
    #[test]
    fn turns_go_on_where_there_are_processors() {
        let turns = Arc::new(Turns::new(4));
        let _taken = [turns.take(), turns.take()];
        let _short = [(); 2].map(|()| turns.go_first());
        let given = turns.lock().given;
        assert_eq!(turns.lock().pause(given), None);
        let _third = turns.go_first();
        assert_eq!(turns.lock().pause(given), Some(LONGEST_PAUSE / 4));
    }

    /// Half of them do something short all the time; all have their turns, however many wait at once.
    #[test]
    fn everybody_comes_to_an_end() {
        for count in [1, 3] {
            let turns = Arc::new(Turns::new(count));
            std::thread::scope(|scope| {
                for number in 0..32 {
                    let turns = turns.clone();
                    scope.spawn(move || {
                        for _ in 0..20 {
                            match number % 2 {
                                0 => drop(turns.take()),
                                _ => drop((turns.go_first(), std::thread::yield_now())),
                            }
                        }
                    });
                }
            });
            let state = turns.lock();
            assert_eq!((state.free, state.is_watched), (count, false));
        }
    }

    #[test]
    fn who_waits_goes_on_when_the_short_work_is_done() {
        let turns = Arc::new(Turns::new(1));
        let held = turns.take();
        let first = turns.go_first();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| drop(turns.take()));
            }
            drop(held);
            drop(first);
        });
        assert_eq!(turns.lock().free, 1);
    }
}
