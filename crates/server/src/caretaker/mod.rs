//! The caretaker: keeps the repositories that this server takes pushes for fast, by the tasks that
//! `packrace_maintenance` plans (docs/decisions/0045-caretaker.md).

mod bundling;
mod fold;
mod job;
mod watch;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use packrace_os::process::lower_thread_priority;
use packrace_remote::commit::Committer;

use crate::maintenance::{LookEnd, MaintenanceMode, MaintenanceQueue};
use crate::service::shared::Shared;
use job::Job;

/// How often the caretaker checks whether the server stops or settings have changed.
const TICK: Duration = Duration::from_secs(1);

/// Time between the checks of repositories without pushes.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Repositories checked in one round; the next round continues after them.
const MAX_FOUND: u32 = 2048;

/// How long a stopping server waits for jobs, which check regularly whether they are cancelled. A job that
/// does not end is cut off, as by `kill`, and cleaned up after.
const STOP_TIME: Duration = Duration::from_secs(5);
const STOP_TICK: Duration = Duration::from_millis(50);

/// Starts the caretaker of a server.
pub(crate) fn start(shared: Arc<Shared>) -> io::Result<()> {
    shared.host.maintenance.set_on(true);
    let work = move || {
        lower_thread_priority();
        care(&shared);
    };
    std::thread::Builder::new().name("maintenance".into()).spawn(work).map(drop)
}

/// Waits for the jobs of a stopping server.
pub(crate) fn stop(queue: &MaintenanceQueue) {
    let deadline = queue.now() + STOP_TIME;
    queue.set_on(false);
    while queue.counts().0 > 0 && queue.now() < deadline {
        queue.wait(STOP_TICK, 0);
    }
}

/// Runs until the server stops.
fn care(shared: &Arc<Shared>) {
    let queue = &shared.host.maintenance;
    let mut look_at = Duration::ZERO;
    let mut behind = None;
    while !shared.host.transfers.is_stopping() {
        let settings = shared.settings();
        let (rules, now) = (&settings.maintenance, queue.now());
        let is_wanted = rules.mode != MaintenanceMode::Off && !settings.rules.read_only;
        // A bucket is never listed.
        let is_searched = is_wanted && settings.bucket.is_none() && rules.mode == MaintenanceMode::On;
        if is_searched && now >= look_at {
            look_at = now + rules.look_interval.max(TICK);
            behind = find_all(shared, now, behind);
        }
        let max_jobs = if is_wanted { rules.max_jobs } else { 0 };
        match queue.next(max_jobs) {
            Some(path) => start_job(shared, path),
            None => queue.wait(TICK, max_jobs),
        }
    }
}

/// Schedules checks of all repositories, beginning after `behind`. Returns where to continue, if there may be
/// more.
fn find_all(shared: &Shared, now: Duration, behind: Option<PathBuf>) -> Option<PathBuf> {
    let queue = &shared.host.maintenance;
    let (mut found, mut last) = (0, None);
    let listed = shared.root.folder.list(behind.as_deref(), &mut |listed| {
        let path = shared.root.path().join(&listed.path);
        queue.found(&path, now + BETWEEN_LOOKS * found);
        found += 1;
        if found < MAX_FOUND {
            return ControlFlow::Continue(());
        }
        last = Some(listed.path);
        ControlFlow::Break(())
    });
    if let Err(error) = listed {
        tracing::warn!("maintenance: cannot list repositories: {error}");
    }
    last
}

fn look(shared: &Shared, path: &Path) -> LookEnd {
    let job = Job::new(shared, path);
    let of_bucket = |committer: &Arc<Committer>| Some((committer.clone(), committer.cache().name_of(path)?));
    match shared.host.bucket.as_ref().and_then(of_bucket) {
        Some((committer, name)) => fold::run(&job, &committer, &name),
        None => job.run(),
    }
}

/// Does everything that makes this repository faster or smaller, on a thread of its own, and waits for it.
pub(crate) fn run_now(shared: &Shared, path: &Path, memory_bytes: u64) -> io::Result<LookEnd> {
    std::thread::scope(|scope| {
        let job = || Job::asked_for(shared, path, memory_bytes).run();
        let running = std::thread::Builder::new().name("maintenance-job".into()).spawn_scoped(scope, job)?;
        Ok(running.join().unwrap_or_else(|_| panicked(shared, path)))
    })
}

/// Does what a repository needs after a push, on this thread.
pub(crate) fn run_after_push(shared: &Shared, path: &Path) {
    Job::after_push(shared, path).run();
}

fn panicked(shared: &Shared, path: &Path) -> LookEnd {
    shared.host.metrics.panics.inc();
    tracing::error!("maintenance of {} panicked", path.display());
    LookEnd::Failed
}

/// Starts a job on a thread of its own, whose priority is lowered and never raised again.
fn start_job(shared: &Arc<Shared>, path: PathBuf) {
    let (for_thread, at) = (shared.clone(), path.clone());
    let work = move || {
        let shared = for_thread;
        let job = std::panic::AssertUnwindSafe(|| look(&shared, &path));
        let end = std::panic::catch_unwind(job).unwrap_or_else(|_| panicked(&shared, &path));
        shared.host.maintenance.ended(&path, end);
    };
    if let Err(error) = std::thread::Builder::new().name("maintenance-job".into()).spawn(work) {
        tracing::warn!("maintenance: cannot start a thread: {error}");
        shared.host.maintenance.ended(&at, LookEnd::Postponed);
    }
}
