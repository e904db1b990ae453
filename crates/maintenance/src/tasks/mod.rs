//! Runs tasks.

mod refs;
mod repack;

use std::time::{Duration, SystemTime};

use packrace_format::commit_graph::Merging;
use packrace_object::ObjectId;
use packrace_os::count::Role;
use packrace_os::durable::remove_file;
use packrace_pack::maintain::commit_graph::{FreshFilters, Split};
use packrace_pack::{ProgressSink, RequestObjects, Settings};
use packrace_store::{GraphExpiry, Repository};

use crate::commit_graphs::{self, FilterWriting, GraphWriting};
use crate::error::Error;
use crate::lock::MaintenanceLock;
use crate::packing::within;
use crate::policy::PlannedTask;
use crate::settings::MaintenanceSettings;
use crate::stale_files;
use crate::task::Task;
use repack::RepackTask;

/// How long a reader of an old commit-graph chain may still look for its files.
const GRAPH_GRACE: Duration = Duration::from_secs(60 * 60);

/// What git's last `gc` complained about, which keeps `gc --auto` from working. In two pieces, because it is no configuration
/// key, which a test takes such words for.
const LOG_FILE: &str = concat!("gc", ".log");

/// A file of a commit-graph chain absorbs the one below if that has at most this many times its commits.
const GRAPH_MULTIPLE: u64 = 2;

/// Resources and callbacks of a job.
pub struct Means<'a> {
    /// Threads for delta search and bitmaps.
    pub threads: usize,
    /// Memory for each of: objects in the window, new deltas, delta bases; `None`: as configured.
    pub memory_bytes: Option<usize>,
    /// Objects named by `gc.recentObjectsHook`; `None` if the hook was not run: nothing is dropped then if
    /// one is configured.
    pub recent: Option<Vec<ObjectId>>,
    /// The current time.
    pub now: SystemTime,
    /// Receives progress and can cancel.
    pub progress: &'a dyn ProgressSink,
    /// Called when a task takes no more locks of refs, on which pushes would wait. No later task takes one.
    pub past_refs: &'a dyn Fn(),
}

impl Means<'_> {
    /// Applies the limits to the packing settings.
    fn limited(&self, settings: Settings) -> Settings {
        self.memory_bytes.map_or(settings, |bytes| within(settings, self.threads, bytes))
    }
}

/// Runs a task. The caller holds the lock.
pub fn run(
    repository: &Repository,
    settings: &MaintenanceSettings,
    planned: &PlannedTask,
    lock: &MaintenanceLock,
    means: &Means<'_>,
) -> Result<(), Error> {
    match planned.task {
        Task::StaleFiles => {
            stale_files::find(repository, means.now, lock.predecessor())?.remove();
            Ok(())
        }
        Task::PackRefs => refs::pack(repository),
        Task::ReflogExpire => refs::expire_logs(repository),
        Task::LooseObjects | Task::GeometricRepack if settings.is_precious => Ok(()),
        Task::LooseObjects => RepackTask::new(repository, settings, means)?.loose_objects(),
        Task::GeometricRepack => RepackTask::new(repository, settings, means)?.geometric(),
        Task::Gc => {
            stale_files::find(repository, means.now, lock.predecessor())?.remove();
            // As in git, objects are packed also if refs cannot be.
            let packed = if settings.packs_refs { refs::pack(repository) } else { Ok(()) };
            refs::expire_logs(repository)?;
            if !settings.is_precious {
                RepackTask::new(repository, settings, means)?.everything(planned.is_thorough)?;
            }
            if settings.commit_graph {
                commit_graph(repository, means)?;
            }
            packed?;
            let log = repository.git_dir().join(LOG_FILE);
            remove_file(&log, Role::Config).map(drop).map_err(|error| Error::file(log, error))
        }
        Task::CommitGraph => commit_graph(repository, means),
    }
}

fn commit_graph(repository: &Repository, means: &Means<'_>) -> Result<(), Error> {
    if !commit_graphs::is_on(repository)? {
        return Ok(());
    }
    (means.past_refs)();
    let request_objects = RequestObjects::new(repository.snapshot()?);
    if !commit_graphs::is_possible(repository, &request_objects)? {
        return Ok(());
    }
    let tips = commit_graphs::ref_tips(repository, &request_objects, means.progress)?;
    let merging = Merging { size_multiple: GRAPH_MULTIPLE, max_commits: 0 };
    let before = means.now.checked_sub(GRAPH_GRACE).unwrap_or(means.now);
    let expiry = GraphExpiry { now: means.now, before };
    let threads = Settings::threads(repository.config(), means.threads)?.min(means.threads);
    let fresh = FreshFilters::default();
    let filters = FilterWriting { wanted: None, max_new: None, in_order_of_tips: false, threads, fresh };
    let writing = GraphWriting { split: Split::Merge(merging), append: false, expiry, filters };
    commit_graphs::write(repository, &request_objects, None, tips, writing, means.progress)
}
