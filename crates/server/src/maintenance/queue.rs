use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use packrace_store::Repository;

use super::schedule::{Health, HealthRow, LookEnd, Schedule};
use super::{MaintenanceMode, MaintenanceRules};

/// Repositories that wait for maintenance, and what is known of them. Without a caretaker, nothing is kept.
#[derive(Debug)]
pub struct MaintenanceQueue {
    began: Instant,
    is_on: AtomicBool,
    schedule: Mutex<Schedule>,
    changed: Condvar,
}

/// The path that a repository is known by: that of its work tree, if it has one.
pub(crate) fn maintained_path(common_dir: &Path) -> &Path {
    if common_dir.ends_with(".git") { common_dir.parent().unwrap_or(common_dir) } else { common_dir }
}

impl Default for MaintenanceQueue {
    fn default() -> Self {
        MaintenanceQueue {
            began: Instant::now(),
            is_on: AtomicBool::new(false),
            schedule: Mutex::default(),
            changed: Condvar::new(),
        }
    }
}

impl MaintenanceQueue {
    /// The time on the queue's clock.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Called when a push to this repository has ended.
    pub(crate) fn pushed(&self, repository: &Repository, rules: &MaintenanceRules) {
        if !self.is_on.load(Relaxed) || rules.mode == MaintenanceMode::Off {
            return;
        }
        self.lock().changed(maintained_path(repository.common_dir()), self.now(), rules.delay);
        self.changed.notify_all();
    }

    /// What is known of all repositories.
    pub fn rows(&self) -> Vec<HealthRow> {
        self.lock().rows()
    }

    /// How many are being maintained, and how many are due.
    pub fn counts(&self) -> (usize, usize) {
        self.lock().counts(self.now())
    }

    /// Turns the queue on while a caretaker runs.
    pub(crate) fn set_on(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
    }

    /// Adds a repository that need not have had a push; it is checked at that time.
    pub(crate) fn found(&self, path: &Path, due: Duration) {
        self.lock().found(path, due);
    }

    /// The next repository that is due, unless `max_jobs` are running.
    pub(crate) fn next(&self, max_jobs: usize) -> Option<PathBuf> {
        let now = self.now();
        self.lock().next(now, max_jobs)
    }

    /// Records what is known of a repository.
    pub(crate) fn note(&self, path: &Path, change: impl FnOnce(&mut Health)) {
        self.lock().note(path, change);
    }

    /// Called when a check of a repository has ended.
    pub(crate) fn ended(&self, path: &Path, end: LookEnd) {
        let now = self.now();
        self.lock().ended(path, now, end);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, or until a repository is due and a job is free, but no longer than this.
    pub(crate) fn wait(&self, most: Duration, max_jobs: usize) {
        let schedule = self.lock();
        // While all jobs are running, only the end of one changes anything.
        let due = if schedule.running() < max_jobs { schedule.next_due() } else { None };
        let time = due.map_or(most, |due| due.saturating_sub(self.now()).min(most));
        drop(self.changed.wait_timeout(schedule, time));
    }
}
