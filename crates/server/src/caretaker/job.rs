use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, SystemTime};

use packrace_maintenance::policy::{self, Occasion, PlannedTask};
use packrace_maintenance::{
    Error, ErrorKind, Locking, MaintenanceLock, MaintenanceSettings, Means, Sizes, measure,
};
use packrace_os::clock::time_of_day;
use packrace_os::process::{lower_thread_priority, lower_thread_priority_fully};
use packrace_store::Repository;

use super::watch::StepAside;
use crate::limits::admission::{Admission, AdmissionPermit};
use crate::maintenance::{LastJob, LookEnd};
use crate::metrics::{JobOutcome, MaintenanceTask};
use crate::service::access_log::quoted;
use crate::service::shared::Shared;

/// The objects in a window, new deltas, and bases may each take one part in this many of a job's memory.
const MEMORY_PARTS: u64 = 8;

/// The check and maintenance of one repository.
pub(super) struct Job<'a> {
    pub(super) shared: &'a Shared,
    pub(super) path: &'a Path,
    pub(super) memory_bytes: u64,
    occasion: Occasion,
}

impl<'a> Job<'a> {
    pub(super) fn new(shared: &'a Shared, path: &'a Path) -> Self {
        let memory_bytes = shared.settings().maintenance.memory_bytes;
        Job { shared, path, memory_bytes, occasion: Occasion::Served }
    }

    /// A job after a push that has left more than git's limits allow.
    pub(super) fn after_push(shared: &'a Shared, path: &'a Path) -> Self {
        Job { occasion: Occasion::Automatic, ..Job::new(shared, path) }
    }

    /// A job that a program asks for: any improvement is wanted.
    pub(super) fn asked_for(shared: &'a Shared, path: &'a Path, memory_bytes: u64) -> Self {
        Job { shared, path, memory_bytes, occasion: Occasion::Asked }
    }

    pub(super) fn run(&self) -> LookEnd {
        lower_thread_priority();
        let repository = match self.shared.root.open_path(self.path) {
            Ok(repository) => repository,
            Err(error) => {
                tracing::debug!("maintenance of {} skipped: {error}", self.name());
                return LookEnd::Gone;
            }
        };
        match MaintenanceSettings::of(&repository).and_then(|settings| self.look(&repository, &settings)) {
            Ok(end) => self.keep_bundles(&repository, end),
            Err(error) => self.failed("measure", &error),
        }
    }

    /// The repository's name in the log.
    pub(super) fn name(&self) -> String {
        let below = self.path.strip_prefix(self.shared.root.path()).unwrap_or(self.path);
        quoted(below.as_os_str().as_encoded_bytes()).to_string()
    }

    /// Checks what a repository needs, and does it.
    pub(super) fn look(
        &self,
        repository: &Repository,
        settings: &MaintenanceSettings,
    ) -> Result<LookEnd, Error> {
        let is_automatic = settings.is_automatic && settings.follows_pushes;
        if self.occasion != Occasion::Asked && !is_automatic {
            return Ok(LookEnd::Gone);
        }
        let mut earlier = None;
        self.shared.host.maintenance.note(self.path, |health| {
            earlier = health.facts.as_ref().and_then(|facts| facts.deltas.clone());
        });
        let facts = measure(repository, settings, time_of_day(), earlier.as_ref())?;
        let planned = policy::plan(&facts, settings, self.occasion);
        let is_tidy = policy::plan(&facts, settings, Occasion::Asked).is_empty()
            && !policy::waits_for_quiet(&facts, settings);
        let next = planned.first().map(|planned| (planned.task, planned.reason.clone()));
        self.shared.host.maintenance.note(self.path, |health| {
            health.facts = Some(facts);
            health.next = next;
        });
        if planned.is_empty() {
            return Ok(if is_tidy { LookEnd::Nothing } else { LookEnd::NotYet });
        }
        let (planned, too_large): (Vec<_>, Vec<_>) =
            planned.into_iter().partition(|planned| planned.memory_bytes <= self.memory_bytes);
        for PlannedTask { task, memory_bytes, .. } in &too_large {
            tracing::warn!(
                repository = %self.name(), task = task.name(), needs = memory_bytes,
                "maintenance task skipped: needs more than maintenance.memory-bytes"
            );
        }
        let Some(bytes) = planned.iter().map(|planned| planned.memory_bytes).max() else {
            return Ok(LookEnd::Failed);
        };
        Ok(match self.claim(repository, bytes)? {
            Some((_memory, lock)) => self.run_all(repository, settings, planned, &lock),
            None => LookEnd::Postponed,
        })
    }

    /// Claims these bytes of memory, those of the windows and caches, and the right to change the repository.
    /// `None` if one of them cannot be had now.
    pub(super) fn claim(
        &self,
        repository: &Repository,
        bytes: u64,
    ) -> Result<Option<(AdmissionPermit, Box<MaintenanceLock>)>, Error> {
        let windows = 3 * self.memory_bytes / MEMORY_PARTS;
        // Clones go first: a waiting claim would be served before those of later clones.
        let Admission::Admitted(memory) = self.shared.host.admission.claim(bytes + windows) else {
            return Ok(None);
        };
        match MaintenanceLock::take(repository, time_of_day())? {
            Locking::Held(lock) => Ok(Some((memory, lock))),
            Locking::Busy(who) | Locking::BusyWithGc(who) => {
                tracing::debug!("maintenance of {} postponed: {who}", self.name());
                Ok(None)
            }
        }
    }

    /// The memory for each of: objects in the window, new deltas, delta bases.
    pub(super) fn memory_part(&self) -> usize {
        usize::try_from(self.memory_bytes / MEMORY_PARTS).unwrap_or(usize::MAX)
    }

    fn run_all(
        &self,
        repository: &Repository,
        settings: &MaintenanceSettings,
        mut planned: Vec<PlannedTask>,
        lock: &MaintenanceLock,
    ) -> LookEnd {
        if lock.predecessor().is_some() {
            policy::clean_up_first(&mut planned);
        }
        let began = std::time::Instant::now();
        let mut end = None;
        for planned in &planned {
            let failed = self.run_one(repository, settings, planned, lock);
            if failed == Some(LookEnd::Failed) || end.is_none() {
                end = failed.or(end);
            }
            if self.shared.host.transfers.is_stopping() {
                break;
            }
        }
        end.unwrap_or_else(|| LookEnd::Done(began.elapsed()))
    }

    /// Returns how the task ended, if it did not succeed.
    fn run_one(
        &self,
        repository: &Repository,
        settings: &MaintenanceSettings,
        planned: &PlannedTask,
        lock: &MaintenanceLock,
    ) -> Option<LookEnd> {
        let host = &self.shared.host;
        let progress = StepAside::new(host);
        let now: SystemTime = time_of_day();
        // The configured program is not run here: all objects that it might want to keep are kept.
        let recent = (!settings.has_recent_objects_hook).then(Vec::new);
        let means = Means {
            threads: 1,
            memory_bytes: Some(self.memory_part()),
            recent,
            now,
            progress: &progress,
            // A lock of a ref may make pushes wait for this thread, so until now its priority was lowered
            // only a little.
            past_refs: &lower_thread_priority_fully,
        };
        let before = Sizes::of(repository.object_dir()).unwrap_or_default();
        let began = std::time::Instant::now();
        let done = packrace_maintenance::run(repository, settings, planned, lock, &means);
        let took = began.elapsed();
        let after = Sizes::of(repository.object_dir()).unwrap_or_default();
        let outcome = match &done {
            Ok(()) => JobOutcome::Done,
            Err(error) if error.kind() == ErrorKind::Cancelled => JobOutcome::Cancelled,
            Err(error) if error.kind() == ErrorKind::Conflict => JobOutcome::Postponed,
            Err(_) => JobOutcome::Failed,
        };
        self.tell(planned, outcome, took, before, after, done.as_ref().err());
        match outcome {
            JobOutcome::Done => None,
            JobOutcome::Cancelled | JobOutcome::Postponed => Some(LookEnd::Postponed),
            JobOutcome::Failed => Some(LookEnd::Failed),
        }
    }

    /// Logs a line for a task, counts it, and records it for the page.
    fn tell(
        &self,
        planned: &PlannedTask,
        outcome: JobOutcome,
        took: Duration,
        before: Sizes,
        after: Sizes,
        error: Option<&Error>,
    ) {
        use crate::metrics::Closed as _;
        let host = &self.shared.host;
        host.metrics.maintenance_saved.inc_by(before.pack_bytes.saturating_sub(after.pack_bytes));
        let task = planned.task;
        self.note(MaintenanceTask::of(task), outcome, took);
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    maintenance = task.name(),
                    repository = %self.name(),
                    outcome = outcome.name(),
                    reason = planned.reason,
                    error = error.map(|error| tracing::field::display(error)),
                    packs_before = before.packs,
                    packs = after.packs,
                    loose_before = before.loose_objects,
                    loose = after.loose_objects,
                    bytes_before = before.pack_bytes,
                    bytes = after.pack_bytes,
                    ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                )
            };
        }
        match outcome {
            JobOutcome::Failed => line!(error),
            _ => line!(info),
        }
    }

    /// Counts a task, and records it for the page.
    pub(super) fn note(&self, task: MaintenanceTask, outcome: JobOutcome, took: Duration) {
        let host = &self.shared.host;
        host.metrics.maintained(task, outcome, took);
        let ended = host.maintenance.now();
        host.maintenance.note(self.path, |health| {
            health.last = Some(LastJob { task, outcome, took, ended });
            health.next = None;
        });
    }

    pub(super) fn failed(&self, what: &str, error: &dyn Display) -> LookEnd {
        tracing::error!(maintenance = what, repository = %self.name(), outcome = "failed", error = %error);
        LookEnd::Failed
    }
}
