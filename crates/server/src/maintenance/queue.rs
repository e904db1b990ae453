use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use packrace_store::Repository;

use super::schedule::{Health, HealthRow, LookEnd, Schedule};
use super::{MaintenanceMode, MaintenanceRules};

/// Repositories that wait to be maintained, and what is known of them. Where no caretaker runs, nothing is kept.
#[derive(Debug)]
pub struct MaintenanceQueue {
    began: Instant,
    is_on: AtomicBool,
    schedule: Mutex<Schedule>,
    changed: Condvar,
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
    /// The time as the queue counts it.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// A push to this repository has ended.
    pub(crate) fn pushed(&self, repository: &Repository, rules: &MaintenanceRules) {
        if !self.is_on.load(Relaxed) || rules.mode == MaintenanceMode::Off {
            return;
        }
        let path = repository.common_dir();
        let path = if path.ends_with(".git") { path.parent().unwrap_or(path) } else { path };
        self.lock().changed(path, self.now(), rules.delay);
        self.changed.notify_all();
    }

    /// What is known of all repositories.
    pub fn rows(&self) -> Vec<HealthRow> {
        self.lock().rows()
    }

    /// How many are worked on, and how many are due.
    pub fn counts(&self) -> (usize, usize) {
        self.lock().counts(self.now())
    }

    /// From now on somebody works it off, or nobody any more.
    pub(crate) fn set_on(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
    }

    /// A repository is there that nobody need have pushed to; it is looked at then.
    pub(crate) fn found(&self, path: &Path, due: Duration) {
        self.lock().found(path, due);
    }

    /// One that is due, if so many are not worked on yet.
    pub(crate) fn next(&self, max_jobs: usize) -> Option<PathBuf> {
        let now = self.now();
        self.lock().next(now, max_jobs)
    }

    /// Notes what is known of a repository.
    pub(crate) fn note(&self, path: &Path, change: impl FnOnce(&mut Health)) {
        self.lock().note(path, change);
    }

    /// A look at a repository has ended.
    pub(crate) fn ended(&self, path: &Path, end: LookEnd) {
        let now = self.now();
        self.lock().ended(path, now, end);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something to happen, or for the next to be due that finds a place, but no longer than this.
    pub(crate) fn wait(&self, most: Duration, max_jobs: usize) {
        let schedule = self.lock();
        // Where all places are taken, only an end changes anything.
        let due = if schedule.running() < max_jobs { schedule.next_due() } else { None };
        let time = due.map_or(most, |due| due.saturating_sub(self.now()).min(most));
        drop(self.changed.wait_timeout(schedule, time));
    }
}
