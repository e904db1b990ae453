//! Which repositories the caretaker (`caretaker`) maintains, and when (docs/decisions/0045-caretaker.md).
//!
//! ```text
//! a push ended ─┐
//! `mode = "on"`: ├─▶ Schedule: due, when ─▶ thread per job: measure, plan ─▶ memory ─▶ lock ─▶ tasks ─▶ Health
//! all, now and then                ▲                                                        │
//!                                  └── later, sooner, or much later after a failure ◀───────┘
//! ```

mod queue;
mod schedule;

use std::time::Duration;

pub use queue::MaintenanceQueue;
pub(crate) use queue::maintained_path;
pub(crate) use schedule::LookEnd;
pub use schedule::{Health, HealthRow, LastJob};

/// Which repositories a server maintains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaintenanceMode {
    /// Repositories that receive pushes through the server.
    #[default]
    Auto,
    /// All that it serves.
    On,
    /// None of them.
    Off,
}

/// How a server maintains repositories. Plain data; all may change while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceRules {
    /// Which repositories; none if the server is read-only.
    pub mode: MaintenanceMode,
    /// Repositories that are maintained at the same time. Default: 1.
    pub max_jobs: usize,
    /// Estimated memory that a job may take. Default: 1 GiB. A task that needs more is skipped. It is claimed
    /// from the memory for packs; while that is taken, jobs wait.
    pub memory_bytes: u64,
    /// How long after a push a repository is checked. Default: 10 s.
    pub delay: Duration,
    /// How often all repositories are checked, in [`MaintenanceMode::On`]. Default: 6 h.
    pub look_interval: Duration,
}

impl Default for MaintenanceRules {
    fn default() -> Self {
        MaintenanceRules {
            mode: MaintenanceMode::Auto,
            max_jobs: 1,
            memory_bytes: 1 << 30,
            delay: Duration::from_secs(10),
            look_interval: Duration::from_secs(6 * 60 * 60),
        }
    }
}
