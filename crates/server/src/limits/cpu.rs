//! Schedules threads that write or compute for long: one slot per processor, interactive work first; threads
//! wait for a slot outside of the kernel.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use packrace_os::sink::WriteGate;

/// Interactive work is short: slots wait for it at most this long.
const SHORT: Duration = Duration::from_millis(20);

/// More interactive work often follows: slots wait this long after its end.
const LINGER: Duration = Duration::from_millis(1);

/// No slot is held back longer than this, divided by half the number of processors, whatever interactive work there is.
const MAX_PAUSE: Duration = Duration::from_millis(1);

/// Threads that a piece of interactive work keeps busy: one that makes something, and one that sends it.
const INTERACTIVE_THREADS: usize = 2;

/// Half of the processors stay free for interactive work until there was none for this long.
const QUIET: Duration = Duration::from_millis(100);

/// Has as many slots as processors, or half as many if there was interactive work lately. If that needs more
/// than its half, slots wait for it, but not for long.
///
/// Many threads that are about to write delay others even at low priority: each may be preempted while it
/// holds a kernel lock that the others need, together they weigh as much as threads of normal priority, and a
/// kernel without preemption lets each of them write all it has.
#[derive(Debug)]
pub struct CpuScheduler {
    state: Mutex<SchedulerState>,
    changed: Condvar,
}

#[derive(Debug)]
struct SchedulerState {
    processors: usize,
    taken: usize,
    /// When the last slot was taken.
    given: Instant,
    /// Interactive work: until when slots wait for it, and its number.
    interactive: Vec<(Instant, u64)>,
    next: u64,
    /// Until when half of the processors stay free for interactive work.
    shared_until: Instant,
    /// Whether a waiting thread watches the clock.
    is_watched: bool,
}

/// The right to work for long, released when it is dropped.
#[derive(Debug)]
pub struct CpuSlot<'a>(&'a CpuScheduler);

/// Interactive work. Slots wait for it until it is dropped or takes too long.
#[derive(Debug)]
pub struct Interactive {
    cpu: Arc<CpuScheduler>,
    number: u64,
}

impl CpuScheduler {
    /// A scheduler for this many processors.
    pub fn new(processors: usize) -> Self {
        let now = Instant::now();
        let state = SchedulerState {
            processors,
            taken: 0,
            given: now,
            interactive: Vec::new(),
            next: 0,
            shared_until: now,
            is_watched: false,
        };
        CpuScheduler { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for a slot.
    pub fn take_slot(&self) -> CpuSlot<'_> {
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
                return CpuSlot(self);
            }
            // One of the waiting threads watches the clock.
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

    /// Begins interactive work, which slots wait for.
    pub fn interactive(self: &Arc<Self>) -> Interactive {
        let mut state = self.lock();
        let (now, number) = (Instant::now(), state.next);
        state.next += 1;
        state.shared_until = now + QUIET;
        state.interactive.push((now + SHORT, number));
        Interactive { cpu: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, SchedulerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriteGate for CpuScheduler {
    fn pass(&self, write: &mut dyn FnMut()) {
        let _slot = self.take_slot();
        write();
    }
}

impl SchedulerState {
    /// The number of slots.
    fn count(&self, now: Instant) -> usize {
        if now < self.shared_until { self.half() } else { self.processors.max(1) }
    }

    fn half(&self) -> usize {
        (self.processors / 2).max(1)
    }

    /// How long the next slot waits for interactive work, if at all.
    fn pause(&mut self, now: Instant) -> Option<Duration> {
        self.interactive.retain(|(until, _)| *until > now);
        let (until, _) = self.interactive.iter().min()?;
        if self.taken + INTERACTIVE_THREADS * self.interactive.len() < 2 * self.half() {
            return None;
        }
        let pause = (MAX_PAUSE / self.half() as u32).checked_sub(now.duration_since(self.given))?;
        Some(pause.min(*until - now)).filter(|wait| !wait.is_zero())
    }
}

impl Drop for CpuSlot<'_> {
    fn drop(&mut self) {
        self.0.lock().taken -= 1;
        self.0.changed.notify_one();
    }
}

impl Drop for Interactive {
    /// Waiting threads check again by themselves.
    fn drop(&mut self) {
        let now = Instant::now();
        let end = now + LINGER;
        let mut state = self.cpu.lock();
        state.shared_until = now + QUIET;
        let own = state.interactive.iter_mut().find(|(_, number)| *number == self.number);
        own.into_iter().for_each(|(until, _)| *until = end.min(*until));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn no_more_than_that_at_once() {
        let (cpu, inside, all) = (Arc::new(CpuScheduler::new(3)), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for number in 0..16 {
                let (cpu, inside, all) = (&cpu, &inside, &all);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let interactive = (number == 0).then(|| cpu.interactive());
                        let slot = cpu.take_slot();
                        assert!(inside.fetch_add(1, SeqCst) < 3);
                        all.fetch_add(1, SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        drop((slot, interactive));
                    }
                });
            }
        });
        assert_eq!(all.load(SeqCst), 16 * 200);
        assert_eq!(cpu.lock().taken, 0);
    }

    /// Times are passed in, not waited for.
    #[test]
    fn interactive_work_goes_first_for_a_moment_only() {
        let cpu = Arc::new(CpuScheduler::new(1));
        let pause = |now| cpu.lock().pause(now);
        let start = cpu.lock().given;
        assert_eq!(pause(start), None);
        let interactive = cpu.interactive();
        let until = cpu.lock().interactive[0].0;
        assert!(until >= start + SHORT);
        assert_eq!(pause(start), Some(MAX_PAUSE));
        assert_eq!(pause(start + MAX_PAUSE / 2), Some(MAX_PAUSE / 2));
        // Now and then a slot is free in any case.
        assert_eq!(pause(start + MAX_PAUSE), None);
        // Work that takes longer is forgotten.
        cpu.lock().given = until;
        assert_eq!(pause(until - LINGER), Some(LINGER));
        assert_eq!(pause(until), None);
        assert!(cpu.lock().interactive.is_empty());
        drop(interactive);
        // Finished work is soon forgotten.
        drop(cpu.interactive());
        let until = cpu.lock().interactive[0].0;
        assert!(until <= Instant::now() + LINGER);
        assert_eq!(pause(until), None);
    }

    /// Of eight processors, two slots and two pieces of interactive work leave some.
    #[test]
    fn slots_go_on_where_there_are_processors() {
        let cpu = Arc::new(CpuScheduler::new(8));
        let _taken = [cpu.take_slot(), cpu.take_slot()];
        let _short = [(); 2].map(|()| cpu.interactive());
        let given = cpu.lock().given;
        assert_eq!(cpu.lock().pause(given), None);
        let _third = cpu.interactive();
        assert_eq!(cpu.lock().pause(given), Some(MAX_PAUSE / 4));
    }

    /// Half of them work interactively all the time; all get their slots, however many wait at once.
    #[test]
    fn everybody_comes_to_an_end() {
        for processors in [1, 2, 6] {
            let cpu = Arc::new(CpuScheduler::new(processors));
            std::thread::scope(|scope| {
                for number in 0..32 {
                    let cpu = cpu.clone();
                    scope.spawn(move || {
                        for _ in 0..20 {
                            match number % 2 {
                                0 => drop(cpu.take_slot()),
                                _ => drop((cpu.interactive(), std::thread::yield_now())),
                            }
                        }
                    });
                }
            });
            let state = cpu.lock();
            assert_eq!((state.taken, state.is_watched), (0, false));
        }
    }

    #[test]
    fn half_of_the_processors_are_left_to_interactive_work() {
        for (processors, all, half) in [(0, 1, 1), (1, 1, 1), (2, 2, 1), (5, 5, 2), (8, 8, 4)] {
            let cpu = Arc::new(CpuScheduler::new(processors));
            let start = cpu.lock().given;
            assert_eq!(cpu.lock().count(start), all);
            let interactive = cpu.interactive();
            let until = cpu.lock().shared_until;
            assert!(until >= start + QUIET);
            assert_eq!(cpu.lock().count(until - QUIET), half);
            drop(interactive);
            assert!(cpu.lock().shared_until >= until);
            let until = cpu.lock().shared_until;
            assert_eq!(cpu.lock().count(until - QUIET), half);
            assert_eq!(cpu.lock().count(until), all);
        }
    }

    #[test]
    fn who_waits_goes_on_when_interactive_work_is_done() {
        let cpu = Arc::new(CpuScheduler::new(1));
        let held = cpu.take_slot();
        let interactive = cpu.interactive();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| drop(cpu.take_slot()));
            }
            drop(held);
            drop(interactive);
        });
        assert_eq!(cpu.lock().taken, 0);
    }
}
