//! Decides when each repository is checked. Uses no clock and no thread.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use packrace_maintenance::{Facts, Task};

use crate::metrics::{JobOutcome, MaintenanceTask};

/// The most repositories that are known; beyond that, those with the latest check are dropped, first those
/// with none.
const MAX_KNOWN: usize = 4096;

/// A repository that needs something, but not enough yet, is checked again after this, and then after twice
/// as long.
const AGAIN: Duration = Duration::from_secs(300);

/// The delay if another process is at work there, or there is no memory.
const POSTPONED: Duration = Duration::from_secs(30);

/// A job that failed is tried again after this, and then after twice as long.
const FAILED: Duration = Duration::from_secs(60);

/// The longest delay.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Jobs take at most one part in this many of the time.
const PART_OF_TIME: u32 = 10;

/// What is known of a repository.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// Its state when it was last measured.
    pub facts: Option<Facts>,
    /// What it needs next, and why.
    pub next: Option<(Task, String)>,
    /// What was done last.
    pub last: Option<LastJob>,
}

/// What was done last.
#[derive(Debug, Clone)]
pub struct LastJob {
    /// The task.
    pub task: MaintenanceTask,
    /// How it ended.
    pub outcome: JobOutcome,
    /// How long it took.
    pub took: Duration,
    /// When it ended, on the server's clock.
    pub ended: Duration,
}

/// A repository, as the page shows it.
#[derive(Debug, Clone)]
pub struct HealthRow {
    /// Its directory on disk.
    pub path: PathBuf,
    /// Whether it is being maintained now.
    pub is_running: bool,
    /// When it is checked again.
    pub due: Option<Duration>,
    /// What is known of it.
    pub health: Health,
}

#[derive(Debug, Default)]
struct KnownRepository {
    /// When it is checked.
    due: Option<Duration>,
    is_running: bool,
    /// No check before this, whatever happens.
    rests_until: Duration,
    /// Consecutive checks without work, with work and no push in between, and jobs that failed.
    idle_looks: u32,
    busy_looks: u32,
    failures: u32,
    health: Health,
}

/// How a check of a repository ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookEnd {
    /// Work was done, in this time.
    Done(Duration),
    /// There was nothing to do, and there will be nothing until something happens.
    Nothing,
    /// It needs something, but not enough yet.
    NotYet,
    /// Another process is at work there, or there is no memory.
    Postponed,
    /// A task failed.
    Failed,
    /// It no longer exists, or is not to be maintained.
    Gone,
}

#[derive(Debug, Default)]
pub(super) struct Schedule {
    known: HashMap<PathBuf, KnownRepository>,
}

impl Schedule {
    /// Called when something has happened in a repository.
    pub(super) fn changed(&mut self, path: &Path, now: Duration, delay: Duration) {
        let Some(known) = self.known(path) else { return };
        (known.idle_looks, known.busy_looks) = (0, 0);
        let due = (now + delay).max(known.rests_until);
        // The first push counts: pushes may never pause. A wait for enough work is over.
        known.due = Some(known.due.map_or(due, |before| before.min(due)));
    }

    /// Adds a repository; it is checked at this time, unless a check is planned already.
    pub(super) fn found(&mut self, path: &Path, due: Duration) {
        let Some(known) = self.known(path) else { return };
        known.due = Some(known.due.unwrap_or(due.max(known.rests_until)));
    }

    /// A repository that is due, unless `max_jobs` are running. It counts as running from now on.
    pub(super) fn next(&mut self, now: Duration, max_jobs: usize) -> Option<PathBuf> {
        if self.running() >= max_jobs {
            return None;
        }
        let waiting =
            self.known.iter().filter_map(|(path, known)| Some((known.due?, path, known.is_running)));
        let due = waiting.filter(|(due, _, is_running)| *due <= now && !is_running).min();
        let path = due.map(|(_, path, _)| path.clone())?;
        let known = self.known.get_mut(&path)?;
        (known.is_running, known.due) = (true, None);
        Some(path)
    }

    /// Called when a check has ended.
    pub(super) fn ended(&mut self, path: &Path, now: Duration, end: LookEnd) {
        if end == LookEnd::Gone {
            // A push meanwhile may have made it again, or may follow a change of its settings.
            if let Some(due @ Some(_)) = self.known.remove(path).map(|known| known.due) {
                self.known.insert(path.to_owned(), KnownRepository { due, ..KnownRepository::default() });
            }
            return;
        }
        let Some(known) = self.known.get_mut(path) else { return };
        known.is_running = false;
        let doubled = |first: Duration, times: u32| first.saturating_mul(1 << times.min(20)).min(LONGEST);
        let (failures, idle_looks, busy_looks) = (known.failures, known.idle_looks, known.busy_looks);
        let rests = match end {
            LookEnd::Done(took) => took.saturating_mul(PART_OF_TIME - 1),
            LookEnd::Nothing | LookEnd::NotYet | LookEnd::Gone => Duration::ZERO,
            LookEnd::Postponed => POSTPONED,
            LookEnd::Failed => doubled(FAILED, failures),
        };
        known.failures = if end == LookEnd::Failed { failures + 1 } else { 0 };
        known.idle_looks = if end == LookEnd::NotYet { idle_looks + 1 } else { 0 };
        known.busy_looks = if matches!(end, LookEnd::Done(_)) { busy_looks + 1 } else { 0 };
        known.rests_until = now + rests;
        let again = match end {
            // A push meanwhile has set the time.
            LookEnd::Nothing | LookEnd::Gone => None,
            // Work that does not become less must not continue for ever.
            LookEnd::Done(_) if busy_looks > 0 => {
                Some(known.rests_until.max(now + doubled(AGAIN, busy_looks - 1)))
            }
            LookEnd::Done(_) | LookEnd::Postponed | LookEnd::Failed => Some(known.rests_until),
            LookEnd::NotYet => Some(now + doubled(AGAIN, idle_looks)),
        };
        let pushed = known.due.map(|due| due.max(known.rests_until));
        known.due = [pushed, again].into_iter().flatten().min();
    }

    /// Records what is known of a repository.
    pub(super) fn note(&mut self, path: &Path, change: impl FnOnce(&mut Health)) {
        if let Some(known) = self.known.get_mut(path) {
            change(&mut known.health);
        }
    }

    /// When the next one is due that is not running.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.known.values().filter(|known| !known.is_running).filter_map(|known| known.due).min()
    }

    /// How many are running.
    pub(super) fn running(&self) -> usize {
        self.known.values().filter(|known| known.is_running).count()
    }

    /// How many are running, and how many are due.
    pub(super) fn counts(&self, now: Duration) -> (usize, usize) {
        let due = self.known.values().filter(|known| known.due.is_some_and(|due| due <= now)).count();
        (self.running(), due)
    }

    /// All known repositories, by path.
    pub(super) fn rows(&self) -> Vec<HealthRow> {
        let row = |(path, known): (&PathBuf, &KnownRepository)| HealthRow {
            path: path.clone(),
            is_running: known.is_running,
            due: known.due,
            health: known.health.clone(),
        };
        let mut rows: Vec<HealthRow> = self.known.iter().map(row).collect();
        rows.sort_by(|a, b| a.path.cmp(&b.path));
        rows
    }

    /// What is known of a repository, which is added if necessary; `None` if there is no room.
    fn known(&mut self, path: &Path) -> Option<&mut KnownRepository> {
        if !self.known.contains_key(path) && self.known.len() >= MAX_KNOWN {
            let idle = self.known.iter().filter(|(_, known)| !known.is_running);
            let last = idle.max_by_key(|(_, known)| known.due.unwrap_or(Duration::MAX));
            let last = last.map(|(path, _)| path.clone())?;
            self.known.remove(&last);
        }
        Some(self.known.entry(path.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_secs(10);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// When it is due, after pushes and checks.
    fn due_after(steps: &[(u64, Option<LookEnd>)]) -> Option<u64> {
        let (mut schedule, path) = (Schedule::default(), Path::new("/a"));
        for (now, end) in steps {
            match end {
                None => schedule.changed(path, seconds(*now), DELAY),
                Some(end) => {
                    schedule.next(seconds(*now), 1).expect("it is due");
                    schedule.ended(path, seconds(*now), *end);
                }
            }
        }
        schedule.next_due().map(|due| due.as_secs())
    }

    #[test]
    fn when_it_is_looked_at() {
        let done = |took| Some(LookEnd::Done(seconds(took)));
        for (steps, expect) in [
            (&[(0, None)][..], Some(10)),
            // The first push counts, and not the last.
            (&[(0, None), (5, None)], Some(10)),
            (&[(0, None), (10, Some(LookEnd::Nothing))], None),
            (&[(0, None), (10, Some(LookEnd::Nothing)), (12, None)], Some(22)),
            (&[(0, None), (10, Some(LookEnd::NotYet))], Some(310)),
            (&[(0, None), (10, Some(LookEnd::NotYet)), (310, Some(LookEnd::NotYet))], Some(910)),
            (&[(0, None), (10, Some(LookEnd::NotYet)), (20, None)], Some(30)),
            // Work takes at most a tenth of the time.
            (&[(0, None), (10, done(20))], Some(190)),
            (&[(0, None), (10, done(20)), (11, None)], Some(190)),
            // The work seems to achieve nothing; after a push it may.
            (&[(0, None), (10, done(20)), (190, done(20))], Some(490)),
            (&[(0, None), (10, done(20)), (190, done(20)), (490, done(20))], Some(1090)),
            (&[(0, None), (10, done(20)), (190, done(20)), (191, None)], Some(370)),
            (&[(0, None), (10, Some(LookEnd::Postponed))], Some(40)),
            (&[(0, None), (10, Some(LookEnd::Failed))], Some(70)),
            // A push does not retry a failed job early.
            (&[(0, None), (10, Some(LookEnd::Failed)), (11, None)], Some(70)),
            (&[(0, None), (10, Some(LookEnd::Failed)), (70, Some(LookEnd::Failed))], Some(190)),
            (&[(0, None), (10, Some(LookEnd::Gone))], None),
        ] {
            assert_eq!(due_after(steps), expect, "{steps:?}");
        }
    }

    #[test]
    fn failures_back_off_for_a_day_at_most() {
        let (mut schedule, path) = (Schedule::default(), Path::new("/a"));
        schedule.changed(path, Duration::ZERO, DELAY);
        let mut waited = Vec::new();
        for _ in 0..15 {
            let now = schedule.next_due().unwrap();
            assert!(schedule.next(now, 1).is_some());
            schedule.ended(path, now, LookEnd::Failed);
            waited.push((schedule.next_due().unwrap() - now).as_secs());
        }
        assert_eq!(waited[..4], [60, 120, 240, 480]);
        assert_eq!(waited[14], 24 * 60 * 60);
    }

    #[test]
    fn no_more_than_that_at_once_and_each_once() {
        let mut schedule = Schedule::default();
        for path in ["/a", "/b", "/c"] {
            schedule.changed(Path::new(path), Duration::ZERO, DELAY);
        }
        assert_eq!(schedule.next(seconds(9), 2), None);
        let first = schedule.next(seconds(10), 2).unwrap();
        schedule.changed(&first, seconds(10), Duration::ZERO);
        let second = schedule.next(seconds(20), 2).unwrap();
        assert_ne!(first, second);
        assert_eq!(schedule.next(seconds(20), 2), None);
        assert_eq!(schedule.counts(seconds(20)), (2, 2));
        // A push while it is running is handled afterwards.
        schedule.ended(&first, seconds(30), LookEnd::Nothing);
        assert_eq!(schedule.next_due(), Some(seconds(10)));
    }

    #[test]
    fn a_push_is_not_forgotten_with_what_was_gone() {
        let (mut schedule, path) = (Schedule::default(), Path::new("/a"));
        schedule.changed(path, Duration::ZERO, DELAY);
        schedule.next(seconds(10), 1).unwrap();
        schedule.changed(path, seconds(11), DELAY);
        schedule.ended(path, seconds(12), LookEnd::Gone);
        assert_eq!(schedule.next(seconds(21), 1).as_deref(), Some(path));
        schedule.ended(path, seconds(22), LookEnd::Gone);
        assert_eq!(schedule.rows().len(), 0);
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let mut schedule = Schedule::default();
        for number in 0..MAX_KNOWN + 100 {
            schedule.found(Path::new(&format!("/{number}")), seconds(number as u64));
        }
        assert_eq!(schedule.rows().len(), MAX_KNOWN);
        // Those with the latest check are dropped.
        assert_eq!(schedule.next_due(), Some(Duration::ZERO));
    }
}
