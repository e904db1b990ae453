//! Monotonic time as an argument.

use std::time::{Duration, Instant, SystemTime};

/// A monotonic clock. Simulated twin: [`crate::simulated::SimulatedClock`].
pub trait Clock: Send + Sync {
    /// Time since some fixed point.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock, counted from when this value was made.
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

/// The time of day, by which files are stamped too.
pub fn time_of_day() -> SystemTime {
    SystemTime::now()
}

/// Lets this thread wait.
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}
