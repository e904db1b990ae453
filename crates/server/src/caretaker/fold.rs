//! Maintenance of a repository in a bucket: repacks a copy of it, and replaces its packs in the bucket
//! (decision 51).

use std::sync::Arc;
use std::time::Instant;

use packrace_maintenance::{Error, MaintenanceSettings};
use packrace_os::process::{lower_thread_priority, lower_thread_priority_fully};
use packrace_remote::commit::Committer;
use packrace_remote::upkeep::{FoldOutcome, PreparedFold, prepare};
use packrace_remote::{BucketName, ErrorKind};

use super::job::Job;
use crate::maintenance::LookEnd;

/// Checks one repository and folds its packs if needed.
pub(super) fn run(job: &Job<'_>, committer: &Arc<Committer>, name: &BucketName) -> LookEnd {
    lower_thread_priority();
    let began = Instant::now();
    let mut end = LookEnd::Gone;
    let prepared = prepare(committer, name, |git_dir| {
        let work = || {
            // Pushes wait for the thread that swaps heads: the repack runs on another one, whose priority can
            // sink.
            lower_thread_priority_fully();
            let copy = job.shared.root.open_copy(git_dir)?;
            job.look(&copy, &MaintenanceSettings::of(&copy)?.for_packs_alone())
        };
        let looked = std::thread::scope(|scope| scope.spawn(work).join());
        end = looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok::<_, Error>(())
    });
    match prepared {
        Ok(Ok(Some(fold))) if matches!(end, LookEnd::Done(_)) => match commit(job, fold) {
            // A fold in vain also counts as work, which may take only a part of the time.
            LookEnd::Done(_) | LookEnd::Postponed => LookEnd::Done(began.elapsed()),
            other => other,
        },
        Ok(Ok(_)) => end,
        Ok(Err(error)) => job.failed("measure", &error),
        Err(error) => ended(job, &error),
    }
}

fn commit(job: &Job<'_>, fold: PreparedFold<'_>) -> LookEnd {
    let folded = fold.folded();
    match fold.commit() {
        Ok(FoldOutcome::Done(packs)) => {
            tracing::info!(maintenance = "fold", repository = %job.name(), outcome = "done", folded, packs);
            LookEnd::Done(std::time::Duration::ZERO)
        }
        Ok(FoldOutcome::Overtaken) => {
            tracing::info!(
                maintenance = "fold", repository = %job.name(), outcome = "postponed",
                reason = "another node changed the repository first"
            );
            LookEnd::Postponed
        }
        Ok(FoldOutcome::Unknown(error)) => {
            tracing::warn!(maintenance = "fold", repository = %job.name(), outcome = "unknown", error = %error);
            LookEnd::Postponed
        }
        Err(error) => ended(job, &error),
    }
}

fn ended(job: &Job<'_>, error: &packrace_remote::Error) -> LookEnd {
    match error.kind() {
        ErrorKind::Absent => LookEnd::Gone,
        ErrorKind::Unavailable => {
            tracing::warn!(maintenance = "fold", repository = %job.name(), outcome = "postponed", error = %error);
            LookEnd::Postponed
        }
        _ => job.failed("fold", error),
    }
}
