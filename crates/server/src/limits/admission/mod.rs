//! Admission of clones: a clone needs a permit, and queues for one; making a pack claims memory.
//!
//! ```text
//! fetches with haves, ls-refs ───────────────────────────────▶ never wait
//! clones ─▶ permits (`max_clones`) ─▶ one of identical ones ─▶ memory (`pack_memory_bytes`) ─▶ plan, generate
//!             │ none left                followers read it while it is made
//!             ▼
//!           queue of `max_queued`, first come first served; told in band 2, kept alive
//!             │ full
//!             ▼
//!           HTTP 503 + Retry-After, or ERR
//! ```
//!
//! A clone is a request without haves, however little of the history it wants: its cost is unknown, except
//! that it starts from nothing. Sending is cheap, so there are many permits; making packs is expensive, so it
//! claims memory.

mod wait_queue;

use std::path::Path;
use std::time::Duration;

pub use wait_queue::{AdmissionPermit, Waiting};
use wait_queue::{QueueLimits, QueueRequest, WaitQueue};

/// Limits for clones. Plain data; all may change while a server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// Clones that are made or sent at the same time, of all repositories.
    pub max_clones: usize,
    /// Clones of one repository that are made or sent at the same time.
    pub max_clones_per_repository: usize,
    /// Clones that wait for a permit; more are refused.
    pub max_queued: usize,
    /// How long a clone may wait for a permit before it is refused.
    pub max_queue_time: Duration,
    /// Estimated memory, in bytes, of packs that are made at the same time; others wait. One pack is always
    /// made, whatever its size, and fetches do not wait.
    pub pack_memory_bytes: u64,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        AdmissionSettings {
            max_clones: 512,
            max_clones_per_repository: 256,
            max_queued: 1024,
            max_queue_time: Duration::from_secs(600),
            pack_memory_bytes: 4 << 30,
        }
    }
}

/// What happens to a clone that arrives.
#[derive(Debug)]
pub enum Admission {
    /// It may begin. Dropping the permit releases it.
    Admitted(AdmissionPermit),
    /// It waits in the queue until this is dropped.
    Queued(Waiting),
    /// The queue is full, too.
    QueueFull,
}

/// Permits and memory of one server. The default has no limits.
#[derive(Debug, Default)]
pub struct AdmissionControl {
    clones: WaitQueue,
    memory: WaitQueue,
    max_queue_time: std::sync::Mutex<Option<Duration>>,
}

impl AdmissionControl {
    /// Control with these limits, and nothing admitted yet.
    pub fn new(settings: &AdmissionSettings) -> Self {
        let admission = AdmissionControl::default();
        admission.set(settings);
        admission
    }

    /// Changes the limits. Admitted and queued clones stay so.
    pub fn set(&self, settings: &AdmissionSettings) {
        self.clones.set_limits(QueueLimits {
            max_held: settings.max_clones,
            max_held_per_repository: settings.max_clones_per_repository,
            max_units: u64::MAX,
            max_waiting: settings.max_queued,
        });
        self.memory
            .set_limits(QueueLimits { max_units: settings.pack_memory_bytes, ..QueueLimits::default() });
        *self.max_queue_time.lock().expect("no panic while held") = Some(settings.max_queue_time);
    }

    /// Admits a clone of a repository, or queues it.
    pub fn enter(&self, repository: &Path) -> Admission {
        self.clones.enter(QueueRequest { repository: repository.to_owned(), units: 0 })
    }

    /// Claims memory for a pack, by estimate. This queue has no limit.
    pub fn claim(&self, bytes: u64) -> Admission {
        self.memory.enter(QueueRequest { repository: Default::default(), units: bytes })
    }

    /// Claims memory for a pack that must not wait. Later claims wait for it.
    pub fn take(&self, bytes: u64) -> AdmissionPermit {
        self.memory.take(QueueRequest { repository: Default::default(), units: bytes })
    }

    /// How long a clone may wait; `None` for no limit.
    pub fn max_queue_time(&self) -> Option<Duration> {
        *self.max_queue_time.lock().expect("no panic while held")
    }

    /// The numbers of running and of waiting clones.
    pub fn clones(&self) -> (usize, usize) {
        self.clones.counts()
    }
}

#[cfg(test)]
mod tests;
