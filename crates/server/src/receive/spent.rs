//! What one push may cost, and what it has cost.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_os::clock::thread_cpu_time;
use packrace_pack::ingest::MaxUnpacked;

/// The processor time of a thread is asked for no more often.
const CPU_TIME_INTERVAL: Duration = Duration::from_micros(500);

/// After so much processor time, a thread offers its processor to others. Its low priority alone does not do that: a kernel may look only
/// once a tick, every 4 ms, whether somebody should go before it.
const OFFER_INTERVAL: Duration = Duration::from_micros(500);

/// For each so many bytes of its pack, a push has a second of processor time more.
const BYTES_A_SECOND: u64 = 1 << 20;

/// What a push may cost, beside what git's own settings say (`receive.maxInputSize`). Plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushBudget {
    /// Objects in the pack.
    pub max_objects: u32,
    /// What the objects of the pack may come to: inflated bytes, and results of deltas.
    pub max_unpacked: MaxUnpacked,
    /// Processor time for taking objects in and checking them, all threads together, and a second more for each MiB of the
    /// pack. Hooks are not counted.
    pub cpu_time: Duration,
    /// Bytes of packs and loose objects that the repository may hold afterwards; 0 for any number.
    pub max_repository_bytes: u64,
    /// Refs that it may have afterwards; 0 for any number.
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

/// Processor time of one push. Its threads are its own, and tell of themselves now and then.
#[derive(Debug)]
pub(super) struct CpuTime {
    most: Duration,
    /// Whether its threads offer their processor to others.
    gives_way: bool,
    pack_bytes: AtomicU64,
    used_nanoseconds: AtomicU64,
}

thread_local! {
    /// When this thread was last looked at, what it had used by then, and what when it last offered its processor.
    static LAST: Cell<(Option<Instant>, Duration, Duration)> =
        const { Cell::new((None, Duration::ZERO, Duration::ZERO)) };
}

impl CpuTime {
    pub(super) fn new(most: Duration, gives_way: bool) -> Self {
        CpuTime { most, gives_way, pack_bytes: AtomicU64::new(0), used_nanoseconds: AtomicU64::new(0) }
    }

    /// So many bytes of the pack have come.
    pub(super) fn has_come(&self, bytes: usize) {
        self.pack_bytes.fetch_add(bytes as u64, Relaxed);
    }

    fn most(&self) -> Duration {
        self.most.saturating_add(Duration::from_secs(self.pack_bytes.load(Relaxed) / BYTES_A_SECOND))
    }

    fn add(&self, used: Duration) {
        self.used_nanoseconds.fetch_add(u64::try_from(used.as_nanos()).unwrap_or(0), Relaxed);
    }

    /// Whether the push has used more than it may. Adds what this thread has used, and
    /// lets others go first now and then.
    pub(super) fn is_exceeded(&self) -> bool {
        let (looked, had, offered) = LAST.get();
        let now = Instant::now();
        if looked.is_none_or(|looked| now.duration_since(looked) >= CPU_TIME_INTERVAL) {
            // Where the clock cannot be read, other limits still hold.
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

    /// What is told of a push that has.
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
