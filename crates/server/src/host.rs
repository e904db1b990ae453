//! The state that all calls of one process share.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use packrace_remote::commit::Committer;

use crate::limits::cpu::CpuScheduler;

use crate::events::Events;
use crate::limits::admission::AdmissionControl;
use crate::limits::budget::Budget;
use crate::maintenance::MaintenanceQueue;
use crate::metrics::Metrics;
use crate::program::ProgramHooks;
use crate::repository_cache::RefAdvertisementCache;
use crate::send::pack_cache::PackCache;
use crate::transfers::Transfers;

/// The state that all calls of one process share. A call on standard input and output has its own empty one,
/// without limits.
#[derive(Debug, Default)]
pub struct Host {
    /// Keeps processors free for interactive work. `None` if this process serves one client.
    pub cpu: Option<Arc<CpuScheduler>>,
    /// Decides which clones run, and which wait.
    pub admission: AdmissionControl,
    /// Memory for the commands of pushes.
    pub push_memory: Arc<Budget>,
    /// Counters of all calls.
    pub metrics: Arc<Metrics>,
    /// The running calls.
    pub transfers: Arc<Transfers>,
    /// Packs that are being made, and packs that are kept.
    pub packs: PackCache,
    /// Repositories that wait to be maintained.
    pub maintenance: Arc<MaintenanceQueue>,
    /// The journal of events. A server opens it when it begins to listen.
    pub events: OnceLock<Events>,
    /// Ref advertisements that were sent.
    pub ref_advertisements: RefAdvertisementCache,
    /// Functions of the program that embeds the server.
    pub program: ProgramHooks,
    /// Commits pushes to the bucket, if repositories of one are served.
    pub bucket: Option<Arc<Committer>>,
}

impl Host {
    /// The metrics, including the values that others count.
    pub fn metrics_now(&self) -> &Metrics {
        let (metrics, packs) = (&self.metrics, self.packs.status());
        for (counter, count) in [
            (&metrics.cache_hits_running, packs.hits_running),
            (&metrics.cache_hits_kept, packs.hits_kept),
            (&metrics.cache_misses, packs.misses),
            (&metrics.cache_evictions, packs.evictions),
            (&metrics.cache_reused_deltas, packs.reused_deltas),
        ] {
            counter.inner().store(count, Relaxed);
        }
        let (running, due) = self.maintenance.counts();
        metrics.maintenance_running.set(running as i64);
        metrics.maintenance_backlog.set(due as i64);
        metrics.push_memory.set(i64::try_from(self.push_memory.taken()).unwrap_or(i64::MAX));
        metrics.cache_delta_bytes.set(i64::try_from(packs.delta_bytes).unwrap_or(i64::MAX));
        metrics.cache_bytes.set(i64::try_from(packs.memory_bytes + packs.disk_bytes).unwrap_or(i64::MAX));
        metrics
    }
}
