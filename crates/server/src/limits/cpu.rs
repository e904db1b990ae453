//! Turns: so many threads at once do something long, short work goes before them, and they wait outside of the kernel.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use packrace_os::sink::WriteGate;

/// Work that goes first is short: after this time it is not waited for.
const SHORT: Duration = Duration::from_millis(20);

/// More of it often follows: so long after it was done, it is still waited for.
const LINGER: Duration = Duration::from_millis(1);

/// After so long without a turn, divided by half the number of processors, the next one is given whatever goes first.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// Threads that short work keeps busy: one that makes something, and one that sends it.
const SHORT_THREADS: usize = 2;

/// After so long without short work no processor is left to it.
const QUIET: Duration = Duration::from_millis(100);

/// As many turns at once as there are processors, or half as many where something short was done lately. Where that needs more than
/// the other half, turns wait for it, but not for long.
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
    processors: usize,
    taken: usize,
    /// When the last turn was given.
    given: Instant,
    /// What goes first: until when, and which.
    first: Vec<(Instant, u64)>,
    next: u64,
    /// Until when half of the processors are left to what goes first.
    shared_until: Instant,
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
    /// Turns on so many processors.
    pub fn new(processors: usize) -> Self {
        let now = Instant::now();
        let state = State {
            processors,
            taken: 0,
            given: now,
            first: Vec::new(),
            next: 0,
            shared_until: now,
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
            let count = state.count(now);
            if state.taken < count && pause.is_none() {
                state.taken += 1;
                state.given = now;
                let has_more = state.taken < count;
                drop(state);
                if has_more {
                    self.changed.notify_one();
                }
                return Turn(self);
            }
            // One of all that wait looks at the clock.
            let watched = pause.filter(|_| state.taken < count && !state.is_watched);
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
        let (now, number) = (Instant::now(), state.next);
        state.next += 1;
        state.shared_until = now + QUIET;
        state.first.push((now + SHORT, number));
        First { turns: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriteGate for Turns {
    fn pass(&self, write: &mut dyn FnMut()) {
        let _turn = self.take();
        write();
    }
}

impl State {
    /// How many may have turns at the same time.
    fn count(&self, now: Instant) -> usize {
        if now < self.shared_until { self.half() } else { self.processors.max(1) }
    }

    fn half(&self) -> usize {
        (self.processors / 2).max(1)
    }

    /// How long the next turn has to wait for what goes first, if it has to.
    fn pause(&mut self, now: Instant) -> Option<Duration> {
        self.first.retain(|(until, _)| *until > now);
        let (until, _) = self.first.iter().min()?;
        if self.taken + SHORT_THREADS * self.first.len() < 2 * self.half() {
            return None;
        }
        let pause = (LONGEST_PAUSE / self.half() as u32).checked_sub(now.duration_since(self.given))?;
        Some(pause.min(*until - now)).filter(|wait| !wait.is_zero())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().taken -= 1;
        self.0.changed.notify_one();
    }
}

impl Drop for First {
    /// Whoever waits looks again by itself.
    fn drop(&mut self) {
        let now = Instant::now();
        let end = now + LINGER;
        let mut state = self.turns.lock();
        state.shared_until = now + QUIET;
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
        assert_eq!(turns.lock().taken, 0);
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
        let turns = Arc::new(Turns::new(8));
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
        for processors in [1, 2, 6] {
            let turns = Arc::new(Turns::new(processors));
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
            assert_eq!((state.taken, state.is_watched), (0, false));
        }
    }

    #[test]
    fn half_of_the_processors_are_left_to_what_is_short() {
        for (processors, all, half) in [(0, 1, 1), (1, 1, 1), (2, 2, 1), (5, 5, 2), (8, 8, 4)] {
            let turns = Arc::new(Turns::new(processors));
            let start = turns.lock().given;
            assert_eq!(turns.lock().count(start), all);
            let first = turns.go_first();
            let until = turns.lock().shared_until;
            assert!(until >= start + QUIET);
            assert_eq!(turns.lock().count(until - QUIET), half);
            drop(first);
            assert!(turns.lock().shared_until >= until);
            let until = turns.lock().shared_until;
            assert_eq!(turns.lock().count(until - QUIET), half);
            assert_eq!(turns.lock().count(until), all);
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
        assert_eq!(turns.lock().taken, 0);
    }
}
