use std::time::{Duration, Instant};

use packrace_maintenance::stale_files;
use packrace_os::clock::time_of_day;
use packrace_os::process::lower_thread_priority_fully;
use packrace_pack::Settings;
use packrace_store::Repository;

use super::job::Job;
use super::watch::StepAside;
use crate::bundles::{BundleStep, BundleUpkeep};
use crate::error::{Error, ErrorKind};
use crate::maintenance::LookEnd;
use crate::metrics::{Closed as _, JobOutcome, MaintenanceTask};

/// No upkeep takes more steps: remove, make an increment, merge, remove.
const MAX_STEPS: usize = 4;

impl Job<'_> {
    /// Makes and removes bundles, after the tasks of maintenance. Returns how the whole job ended.
    pub(super) fn keep_bundles(&self, repository: &Repository, end: LookEnd) -> LookEnd {
        let before = match end {
            LookEnd::Done(took) => took,
            LookEnd::Nothing | LookEnd::NotYet => Duration::ZERO,
            other => return other,
        };
        let began = Instant::now();
        match self.bundles(repository) {
            Ok(LookEnd::Nothing) => end,
            Ok(LookEnd::NotYet) if end == LookEnd::Nothing => LookEnd::NotYet,
            Ok(LookEnd::NotYet) => end,
            Ok(LookEnd::Done(_)) => LookEnd::Done(before + began.elapsed()),
            Ok(other) => other,
            Err(error) => {
                let outcome = match error.kind() {
                    _ if self.shared.host.transfers.is_stopping() => JobOutcome::Cancelled,
                    ErrorKind::Conflict => JobOutcome::Postponed,
                    _ => JobOutcome::Failed,
                };
                self.note(MaintenanceTask::Bundles, outcome, began.elapsed());
                match outcome {
                    JobOutcome::Failed => self.failed("bundles", &error),
                    _ => LookEnd::Postponed,
                }
            }
        }
    }

    fn bundles(&self, repository: &Repository) -> Result<LookEnd, Error> {
        let settings = self.shared.settings();
        let progress = StepAside::new(&self.shared.host);
        let mut upkeep = BundleUpkeep {
            repository,
            rules: &settings.bundles,
            settings: self.packing(repository)?,
            now: time_of_day(),
            progress: &progress,
            withdrawn: None,
        };
        if let Some(end) = end_of(upkeep.look()?) {
            return Ok(end);
        }
        // No ref is locked here, so no push waits.
        lower_thread_priority_fully();
        let bytes = upkeep.memory_bytes()?;
        if bytes > self.memory_bytes {
            tracing::warn!(
                repository = %self.name(), task = "bundles", needs = bytes,
                "maintenance task skipped: needs more than maintenance.memory-bytes"
            );
            return Ok(LookEnd::Failed);
        }
        let locked = |why| Error::caused("maintenance lock", why);
        let Some((_memory, lock)) = self.claim(repository, bytes).map_err(locked)? else {
            return Ok(LookEnd::Postponed);
        };
        if let Some(killed) = lock.predecessor() {
            stale_files::find(repository, time_of_day(), Some(killed)).map_err(locked)?.remove();
        }
        for _ in 0..MAX_STEPS {
            let began = Instant::now();
            let (step, bytes) = upkeep.advance()?;
            match end_of(step) {
                Some(LookEnd::NotYet) => return Ok(LookEnd::NotYet),
                Some(_) => break,
                // There is something new, but no object.
                None if bytes.is_none() && matches!(step, BundleStep::Increment(_)) => {
                    return Ok(LookEnd::NotYet);
                }
                None => {}
            }
            let took = began.elapsed();
            self.note(MaintenanceTask::Bundles, JobOutcome::Done, took);
            tracing::info!(
                maintenance = MaintenanceTask::Bundles.name(),
                repository = %self.name(),
                outcome = JobOutcome::Done.name(),
                step = step.name(),
                bytes,
                ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            );
        }
        Ok(LookEnd::Done(Duration::ZERO))
    }

    /// How packs of bundles are made: within the job's memory, on one thread.
    fn packing(&self, repository: &Repository) -> Result<Settings, Error> {
        Ok(packrace_maintenance::within(Settings::of(repository.config(), 1)?, 1, self.memory_part()))
    }
}

/// How a look ends that finds no work.
fn end_of(step: BundleStep) -> Option<LookEnd> {
    match step {
        BundleStep::Nothing => Some(LookEnd::Nothing),
        BundleStep::Wait => Some(LookEnd::NotYet),
        _ => None,
    }
}
