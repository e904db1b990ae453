//! Keeps repositories fast: measures one, decides what it needs, and does it (git-maintenance).
//!
//! For servers and cron jobs. It has no schedule: `packrace-server` has one.
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
//! ```
//! use std::path::Path;
//! use std::time::SystemTime;
//! use packrace_maintenance::policy::{Occasion, plan};
//! use packrace_maintenance::{MaintenanceSettings, measure};
//! use packrace_store::{OpenOptions, Repository};
//!
//! /// Why a repository needs maintenance, one reason per task.
//! fn reasons(repository: &Path) -> Result<Vec<String>, Box<dyn std::error::Error>> {
//!     let repository = Repository::open(repository, &OpenOptions::default())?;
//!     let settings = MaintenanceSettings::of(&repository)?;
//!     let facts = measure(&repository, &settings, SystemTime::now(), None)?;
//!     Ok(plan(&facts, &settings, Occasion::Served).into_iter().map(|task| task.reason).collect())
//! }
//! # let repo = packrace_testkit::RepoBuilder::new(packrace_testkit::Size::Tiny).build();
//! # reasons(repo.path()).unwrap();
//! ```
//!
//! **What survives a crash.** Replacements are complete, synced and named before the old files are removed: a
//! task may be killed at any moment, and the next run removes its leftovers (`stale_files`). `packrace
//! maintenance` and the caretaker of `packrace serve` both use this, with different thresholds
//! ([`policy::Occasion`]).
//!
//! **Errors.** [`Error::kind`] says what a caller can do. A task that fails loses nothing that the
//! repository held. Sizes are in bytes.

#![forbid(unsafe_code)]

pub mod bitmaps;
pub mod chain;
pub mod commit_graphs;
mod directory;
mod error;
mod facts;
mod lock;
mod measure;
mod needed_again;
mod packing;
pub mod policy;
mod pseudo_merges;
pub mod reflogs;
pub mod repacking;
mod settings;
mod sound_commits;
pub mod stale_files;
mod task;
mod tasks;

pub use error::{Error, ErrorKind};
pub use facts::{
    BitmapFacts, DeltaFacts, Facts, IndexFacts, PackFacts, PackKind, RefFacts, SearchGain, StaleFacts,
};
pub use lock::{Locking, MaintenanceLock, Predecessor};
pub use measure::{Sizes, exceeds_gc_limits, measure};
pub use packing::within;
pub use settings::MaintenanceSettings;
pub use task::Task;
pub use tasks::{Means, run};
