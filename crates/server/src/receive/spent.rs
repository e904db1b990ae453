//! What one push may cost, and how much it has used.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_os::clock::thread_cpu_time;
use packrace_pack::ingest::MaxUnpacked;

/// The shortest time between two readings of a thread's processor time.
const CPU_TIME_INTERVAL: Duration = Duration::from_micros(500);

/// After this much processor time, a thread yields its processor. Its low priority alone does not do that: a
/// kernel may check only once a tick, every 4 ms, whether another thread should run first.
const OFFER_INTERVAL: Duration = Duration::from_micros(500);

/// A push gets another second of processor time for each this many bytes of its pack.
const BYTES_A_SECOND: u64 = 1 << 20;

/// What a push may cost, in addition to git's own settings (`receive.maxInputSize`). Plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushBudget {
    /// Most objects in the pack.
    pub max_objects: u32,
    /// Most bytes that the objects of the pack expand to: inflated bytes, and results of deltas.
    pub max_unpacked: MaxUnpacked,
    /// Processor time for storing and checking objects, of all threads together, plus a second for each MiB
    /// of the pack. Hooks do not count.
    pub cpu_time: Duration,
    /// Most bytes of packs and loose objects that the repository may hold afterwards; 0 for any number.
    pub max_repository_bytes: u64,
    /// Most refs that it may have afterwards; 0 for any number.
    pub max_repository_refs: usize,
}

impl Default for PushBudget {
    fn default() -> Self {
        PushBudget {
            max_objects: 50_000_000,
            max_unpacked: MaxUnpacked { bytes: 4 << 30, times_pack: 2000 },
            cpu_time: Duration::from_secs(60),
            max_repository_bytes: 0,
            max_repository_refs: 0,
        }
    }
}

/// Processor time of one push. Its threads serve only this push, and report theirs now and then.
#[derive(Debug)]
pub(super) struct CpuTime {
    most: Duration,
    /// Whether its threads yield their processor to others.
    gives_way: bool,
    pack_bytes: AtomicU64,
    used_nanoseconds: AtomicU64,
}

thread_local! {
    /// When this thread was last read, its processor time then, and its processor time when it last yielded.
    static LAST: Cell<(Option<Instant>, Duration, Duration)> =
        const { Cell::new((None, Duration::ZERO, Duration::ZERO)) };
}

impl CpuTime {
    pub(super) fn new(most: Duration, gives_way: bool) -> Self {
        CpuTime { most, gives_way, pack_bytes: AtomicU64::new(0), used_nanoseconds: AtomicU64::new(0) }
    }

    /// Counts bytes of the pack that have arrived.
    pub(super) fn has_come(&self, bytes: usize) {
        self.pack_bytes.fetch_add(bytes as u64, Relaxed);
    }

    fn most(&self) -> Duration {
        self.most.saturating_add(Duration::from_secs(self.pack_bytes.load(Relaxed) / BYTES_A_SECOND))
    }

    fn add(&self, used: Duration) {
        self.used_nanoseconds.fetch_add(u64::try_from(used.as_nanos()).unwrap_or(0), Relaxed);
    }

    /// Whether the push has used more than it may. Adds this thread's use, and yields the processor now and
    /// then.
    pub(super) fn is_exceeded(&self) -> bool {
        let (looked, had, offered) = LAST.get();
        let now = Instant::now();
        if looked.is_none_or(|looked| now.duration_since(looked) >= CPU_TIME_INTERVAL) {
            // If the clock cannot be read, other limits still hold.
            let has = thread_cpu_time();
            let is_due = self.gives_way && has.saturating_sub(offered) >= OFFER_INTERVAL;
            LAST.set((Some(now), has, if is_due { has } else { offered }));
            self.add(has.saturating_sub(had));
            if is_due {
                std::thread::yield_now();
            }
        }
        self.used() > self.most()
    }

    fn used(&self) -> Duration {
        Duration::from_nanos(self.used_nanoseconds.load(Relaxed))
    }

    /// The message for a push that has.
    pub(super) fn words(&self) -> String {
        format!("push exceeds maximum allowed CPU time ({} s)", self.most().as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_follows_the_pack_and_is_of_all_threads() {
        let time = CpuTime::new(Duration::from_secs(10), true);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| time.add(Duration::from_secs(5)));
            }
        });
        assert_eq!((time.used(), time.most()), (Duration::from_secs(10), Duration::from_secs(10)));
        assert!(!CpuTime::new(Duration::from_secs(1000), true).is_exceeded());
        time.add(Duration::from_secs(1));
        assert!(time.is_exceeded());
        assert_eq!(time.words(), "push exceeds maximum allowed CPU time (10 s)");
        time.has_come(5 << 20);
        assert!(!time.is_exceeded());
    }

    #[test]
    fn a_thread_that_works_is_noticed() {
        let time = CpuTime::new(Duration::ZERO, true);
        let mut turns = 0u64;
        while !time.is_exceeded() {
            turns = std::hint::black_box(turns + 1);
        }
        assert!(time.used() > Duration::ZERO);
    }
}
