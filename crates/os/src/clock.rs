//! Monotonic time as an argument.

use std::time::{Duration, Instant, SystemTime};

/// A monotonic clock. Simulated twin: [`crate::simulated::SimulatedClock`].
pub trait Clock: Send + Sync {
    /// Time since some fixed point.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock, counted from the creation of this value.
#[derive(Debug, Clone)]
pub struct RealClock(Instant);

impl Default for RealClock {
    fn default() -> Self {
        RealClock(Instant::now())
    }
}

impl Clock for RealClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The time of day, which file times also use.
pub fn time_of_day() -> SystemTime {
    SystemTime::now()
}

/// Processor time used by this thread.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Makes this thread sleep.
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}
