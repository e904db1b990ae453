//! Who goes first: clones take places and wait in line for them; packs that are made claim memory.
//!
//! ```text
//! fetches with haves, ls-refs ───────────────────────────────▶ never wait
//! clones ─▶ places (`max_clones`) ─▶ one of identical ones ─▶ memory (`pack_memory_bytes`) ─▶ plan, generate
//!             │ none left                others are sent what it makes
//!             ▼
//!           line of `max_queued`, first come first served; told in band 2, kept alive
//!             │ full
//!             ▼
//!           HTTP 503 + Retry-After, or ERR
//! ```
//!
//! A clone is a request without haves, however little of the history it wants: nothing is known of what it costs but
//! that it starts from nothing. Sending costs little, so that places are many; what is dear is making packs, which is
//! what memory is claimed for.

mod line;

use std::path::Path;
use std::time::Duration;

use line::{Ask, Limits, Line};
pub use line::{Held, Waiting};

/// How clones are let in. Plain data; all may change while a server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// Clones that are made or sent at the same time, of all repositories.
    pub max_clones: usize,
    /// Clones of one repository that are made or sent at the same time.
    pub max_clones_per_repository: usize,
    /// Clones that wait for a place; beyond, they are refused.
    pub max_queued: usize,
    /// How long a clone may wait for a place before it is refused.
    pub max_queue_time: Duration,
    /// Memory, in bytes by estimate, for packs that are made at the same time; others wait. One pack is always made,
    /// whatever its size, and fetches do not wait.
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

/// What a clone finds when it comes.
#[derive(Debug)]
pub enum Entry {
    /// A place, free again when it is dropped.
    Place(Held),
    /// A line. Who drops this leaves it.
    Waiting(Waiting),
    /// No room even in the line.
    Full,
}

/// The places and the memory of one server. The default has no limits.
#[derive(Debug, Default)]
pub struct Admission {
    places: Line,
    memory: Line,
    max_queue_time: std::sync::Mutex<Option<Duration>>,
}

impl Admission {
    /// Nobody inside yet.
    pub fn new(settings: &AdmissionSettings) -> Self {
        let admission = Admission::default();
        admission.set(settings);
        admission
    }

    /// Other limits from now on. Who is inside or in line stays.
    pub fn set(&self, settings: &AdmissionSettings) {
        self.places.set_limits(Limits {
            max_held: settings.max_clones,
            max_held_per_repository: settings.max_clones_per_repository,
            max_units: u64::MAX,
            max_waiting: settings.max_queued,
        });
        self.memory.set_limits(Limits { max_units: settings.pack_memory_bytes, ..Limits::default() });
        *self.max_queue_time.lock().expect("no panic while held") = Some(settings.max_queue_time);
    }

    /// A clone of a repository wants to begin.
    pub fn enter(&self, repository: &Path) -> Entry {
        self.places.enter(Ask { repository: repository.to_owned(), units: 0 })
    }

    /// A pack is to be made, which takes `bytes` of memory by estimate. There is always room in the line.
    pub fn claim(&self, bytes: u64) -> Entry {
        self.memory.enter(Ask { repository: Default::default(), units: bytes })
    }

    /// Memory for a pack that must not wait: it counts for those that come later.
    pub fn take(&self, bytes: u64) -> Held {
        self.memory.take(Ask { repository: Default::default(), units: bytes })
    }

    /// How long a clone may wait; `None` for ever.
    pub fn max_queue_time(&self) -> Option<Duration> {
        *self.max_queue_time.lock().expect("no panic while held")
    }

    /// Clones that have a place, and clones that wait for one.
    pub fn clones(&self) -> (usize, usize) {
        self.places.counts()
    }
}

#[cfg(test)]
mod tests;
