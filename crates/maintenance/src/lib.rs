//! Keeps repositories fast: measures one, decides what it needs, and does it (git-maintenance).
//!
//! ```text
//! measure(repository)      Facts: packs, loose objects, bitmap, refs, what was left behind
//!   │ policy::plan         PlannedTask…: what, why, how much it reads; no I/O
//!   ▼
//! MaintenanceLock::take    objects/maintenance.lock and gc.pid, as git has them
//!   │ tasks::run           one after another
//!   ▼
//! Sizes before and after
//! ```
//!
//! Replacements are complete, synced and named before the old files are removed: a task may be killed at any
//! moment, and the next run removes its leftovers (`stale_files`). `packrace maintenance` and the caretaker
//! of `packrace serve` both use this, with different thresholds ([`policy::Occasion`]).

#![forbid(unsafe_code)]

pub mod bitmaps;
pub mod commit_graphs;
mod directory;
mod error;
pub mod expiry;
mod facts;
mod lock;
mod measure;
pub mod policy;
pub mod reflogs;
pub mod repacking;
mod settings;
mod sound_commits;
pub mod stale_files;
mod task;
mod tasks;

pub use error::{Error, ErrorKind};
pub use facts::{BitmapFacts, DeltaFacts, Facts, IndexFacts, PackFacts, PackKind, RefFacts, StaleFacts};
pub use lock::{Locking, MaintenanceLock, Predecessor};
pub use measure::{Sizes, exceeds_gc_limits, measure};
pub use settings::MaintenanceSettings;
pub use task::Task;
pub use tasks::{Means, run};
