//! The metrics of one process: counters, gauges and histograms that `/-/metrics` shows in the text format of
//! Prometheus.
//!
//! Every value of a label is from a closed enum, or the name of a webhook: no label names a repository or a
//! client, so that the number of series does not grow with them. All series exist from the start, with zero.
//!
//! | histogram | buckets, upper ends in seconds |
//! |---|---|
//! | waiting in the queue, phases of a pack, tasks of maintenance | 0.001, 0.004, 0.016, 0.064, 0.25, 1, 4, 16, 64, 256, 1024 |

mod bucket;
mod labels;
mod process;
mod webhook;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use packrace_os::count;
use packrace_os::process::ProcessUsage;
use packrace_remote::commit::Committer;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

pub use labels::{
    AttemptOutcome, Closed, DoorName, HandshakeOutcome, JobOutcome, Kind, LoginOutcome, LossReason,
    MaintenanceTask, Reason, Stage, Step,
};
use labels::{ByDoor, ByHandshakeOutcome, ByKind, ByLoginOutcome, ByReason, ByStage, ByTask};
pub(crate) use webhook::{WebhookCounts, WebhookNumbers};

/// Upper ends of the buckets of all histograms, in seconds.
const BUCKETS: [f64; 11] = [0.001, 0.004, 0.016, 0.064, 0.25, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

/// The metrics of one process. Cheap to update: an atomic each, behind a read lock if there is a label.
///
/// `Metrics::default()` starts at zero and needs no server.
#[derive(Debug)]
pub struct Metrics {
    /// Transfers that began.
    started: Family<ByKind, Counter>,
    /// Transfers that succeeded.
    finished: Family<ByKind, Counter>,
    /// Transfers that failed: refused, broken off or given up.
    failed: Family<ByKind, Counter>,
    /// Bytes sent to clients.
    pub bytes_sent: Counter,
    /// Bytes received from clients.
    pub bytes_received: Counter,
    /// Open connections.
    connections: Family<ByDoor, Gauge>,
    /// Connections and requests that were refused.
    refusals: Family<ByReason, Counter>,
    /// Headers with a user that no trusted proxy sent.
    pub ignored_user_headers: Counter,
    /// TLS handshakes that have ended.
    handshakes: Family<ByHandshakeOutcome, Counter>,
    /// SSH logins that have ended, successful or not.
    logins: Family<ByLoginOutcome, Counter>,
    /// Running requests.
    pub requests_running: Gauge,
    /// Bytes that request bodies hold.
    pub body_memory: Gauge,
    /// Estimated bytes that the commands of pushes hold.
    pub push_memory: Gauge,
    /// Clones in the queue.
    pub queue_length: Gauge,
    queue_wait: Histogram,
    /// Running clones.
    pub running_clones: Gauge,
    /// Requests that joined a pack while it was made.
    pub cache_hits_running: Counter,
    /// Requests that got a kept pack.
    pub cache_hits_kept: Counter,
    /// Packs that were made.
    pub cache_misses: Counter,
    /// Kept packs that were evicted.
    pub cache_evictions: Counter,
    /// Entries of packs that were written from kept deltas.
    pub cache_reused_deltas: Counter,
    /// Bytes of kept deltas.
    pub cache_delta_bytes: Gauge,
    /// Bytes of the packs that are kept, or shared while they are made.
    pub cache_bytes: Gauge,
    /// Ref advertisements and listings that were sent from the cache.
    pub answer_hits: Counter,
    /// Ref advertisements and listings that had to be made.
    pub answer_misses: Counter,
    /// Repositories that the cache holds open.
    pub repository_cache_open: Gauge,
    /// Calls that found their repository open.
    pub repository_cache_hits: Counter,
    /// Calls that opened it.
    pub repository_cache_misses: Counter,
    phases: Family<ByStage, Histogram, fn() -> Histogram>,
    /// Batches passed to clients: of git:// and stdio, gathered writes; of HTTP, frames of bodies.
    pub batches: Counter,
    /// Empty packets that kept a silent connection alive.
    pub keepalives: Counter,
    /// Maintenance tasks that have ended.
    maintenance: Family<ByTask, Counter>,
    maintenance_time: Histogram,
    /// Bytes of packs and of the files beside them that tasks have freed.
    pub maintenance_saved: Counter,
    /// Repositories that are being maintained.
    pub maintenance_running: Gauge,
    /// Repositories that are due.
    pub maintenance_backlog: Gauge,
    /// Events that were recorded in the journal.
    pub events_recorded: Counter,
    /// Changes that could not be announced or recorded there.
    pub events_refused: Counter,
    /// Clients that follow events.
    pub event_followers: Gauge,
    /// Calls that panicked, which is a bug in packrace.
    pub panics: Counter,
    /// Has its own counts, if repositories of a bucket are served.
    pub bucket: OnceLock<Arc<Committer>>,
    /// The same, if events are posted.
    pub(crate) webhooks: OnceLock<WebhookNumbers>,
}

impl Metrics {
    /// Counts a transfer that begins.
    pub fn started(&self, kind: Kind, door: DoorName) {
        self.started.get_or_create(&ByKind { kind, door }).inc();
    }

    /// Counts a transfer that succeeded.
    pub fn finished(&self, kind: Kind, door: DoorName) {
        self.finished.get_or_create(&ByKind { kind, door }).inc();
    }

    /// Counts a transfer that failed.
    pub fn failed(&self, kind: Kind, door: DoorName) {
        self.failed.get_or_create(&ByKind { kind, door }).inc();
    }

    /// Transfers of a kind that began, over all transports.
    pub fn started_so_far(&self, kind: Kind) -> u64 {
        DoorName::ALL.iter().map(|door| self.started.get_or_create(&ByKind { kind, door: *door }).get()).sum()
    }

    /// Transfers of a kind that succeeded, and those that failed, over all transports.
    pub fn ended_so_far(&self, kind: Kind) -> (u64, u64) {
        let labels = || DoorName::ALL.iter().map(|door| ByKind { kind, door: *door });
        let finished = labels().map(|labels| self.finished.get_or_create(&labels).get()).sum();
        let failed = labels().map(|labels| self.failed.get_or_create(&labels).get()).sum();
        (finished, failed)
    }

    /// Counts a refusal.
    pub fn refused(&self, reason: Reason) {
        self.refusals.get_or_create(&ByReason { reason }).inc();
    }

    /// Refusals so far, for a reason.
    pub fn refused_so_far(&self, reason: Reason) -> u64 {
        self.refusals.get_or_create(&ByReason { reason }).get()
    }

    /// Counts a TLS handshake that has ended.
    pub fn handshake(&self, outcome: HandshakeOutcome) {
        self.handshakes.get_or_create(&ByHandshakeOutcome { outcome }).inc();
    }

    /// Counts an SSH login that has ended.
    pub fn login(&self, outcome: LoginOutcome) {
        self.logins.get_or_create(&ByLoginOutcome { outcome }).inc();
    }

    /// Counts a connection until the result is dropped.
    pub fn connection(&self, door: DoorName) -> Raised {
        Raised::new(&self.connections.get_or_create(&ByDoor { door }))
    }

    /// Connections that are open.
    pub fn connections_open(&self, door: DoorName) -> i64 {
        self.connections.get_or_create(&ByDoor { door }).get()
    }

    /// Records how long a clone was in the queue.
    pub fn waited(&self, time: Duration) {
        self.queue_wait.observe(time.as_secs_f64());
    }

    /// Records how long a phase of a pack has taken.
    pub fn phase(&self, stage: Stage, time: Duration) {
        self.phases.get_or_create(&ByStage { stage }).observe(time.as_secs_f64());
    }

    /// Records that a maintenance task has ended.
    pub fn maintained(&self, task: MaintenanceTask, outcome: JobOutcome, took: Duration) {
        self.maintenance.get_or_create(&ByTask { task, outcome }).inc();
        self.maintenance_time.observe(took.as_secs_f64());
    }

    /// Maintenance tasks with this outcome, all together.
    pub fn maintained_so_far(&self, outcome: JobOutcome) -> u64 {
        let of =
            |task: &MaintenanceTask| self.maintenance.get_or_create(&ByTask { task: *task, outcome }).get();
        MaintenanceTask::ALL.iter().map(of).sum()
    }

    /// All metrics, in the text format of Prometheus (OpenMetrics 1.0).
    pub fn text(&self) -> String {
        self.text_with(None)
    }

    /// The same, with what the process uses. A program with other metrics has those of its own.
    pub(crate) fn text_with(&self, usage: Option<&ProcessUsage>) -> String {
        self.fill();
        let mut registry = Registry::default();
        self.register(registry.sub_registry_with_prefix("packrace"));
        usage.into_iter().for_each(|usage| process::register(&mut registry, usage));
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }

    /// Adds all metrics, by name. Done on demand: most processes are never asked.
    fn register(&self, registry: &mut Registry) {
        let mut add = Adding(registry);
        add.one("transfers_started", "Transfers started", &self.started);
        add.one("transfers_finished", "Transfers finished successfully", &self.finished);
        add.one("transfers_failed", "Transfers that were refused, cut off or failed", &self.failed);
        add.bytes("sent", "Bytes sent to clients", &self.bytes_sent);
        add.bytes("received", "Bytes received from clients", &self.bytes_received);
        add.one("connections", "Open connections", &self.connections);
        add.one("refusals", "Connections and requests refused, by reason", &self.refusals);
        add.one(
            "ignored_user_headers",
            "Requests with a user header from an untrusted client, which was ignored",
            &self.ignored_user_headers,
        );
        add.one("tls_handshakes", "TLS handshakes, by outcome", &self.handshakes);
        add.one("ssh_logins", "SSH logins, by outcome", &self.logins);
        add.one("requests_running", "Running requests", &self.requests_running);
        add.bytes("body_memory", "Memory used by request bodies", &self.body_memory);
        add.bytes("push_memory", "Estimated memory used by the commands of pushes", &self.push_memory);
        add.one("queue_length", "Clones in the queue", &self.queue_length);
        add.seconds("queue_wait", "Time clones spent in the queue", &self.queue_wait);
        add.one("running_clones", "Running clones", &self.running_clones);
        self.register_caches(&mut add);
        add.seconds("phase", "Duration of the phases of a pack", &self.phases);
        add.one("batches", "Batches sent to clients", &self.batches);
        add.one("keepalives", "Empty packets sent to keep a connection alive", &self.keepalives);
        add.one("maintenance_tasks", "Maintenance tasks, by outcome", &self.maintenance);
        add.seconds("maintenance", "Duration of maintenance tasks", &self.maintenance_time);
        add.bytes("maintenance_saved", "Disk space freed by maintenance tasks", &self.maintenance_saved);
        add.one("maintenance_running", "Repositories being maintained", &self.maintenance_running);
        add.one("maintenance_backlog", "Repositories due for a maintenance check", &self.maintenance_backlog);
        add.one("events_recorded", "Events recorded in the journal", &self.events_recorded);
        add.one("events_refused", "Changes that could not be recorded in the journal", &self.events_refused);
        add.one("event_followers", "Clients that follow events", &self.event_followers);
        add.one("panics", "Requests that panicked", &self.panics);
        let help = "System calls, by the data they handle";
        registry.register("os_calls", help, OsCalls);
        let help = "Mapped files that were truncated, changed in place or unreadable while in use";
        registry.register("disk_faults", help, DamagedMaps);
        if let Some(committer) = self.bucket.get() {
            bucket::register(registry, committer);
        }
        if let Some(webhooks) = self.webhooks.get() {
            webhooks.register(registry);
        }
    }

    fn register_caches(&self, add: &mut Adding<'_>) {
        add.one(
            "cache_hits_running",
            "Requests that joined a pack while it was being generated",
            &self.cache_hits_running,
        );
        add.one("cache_hits_kept", "Requests answered with a cached pack", &self.cache_hits_kept);
        add.one("cache_misses", "Packs generated", &self.cache_misses);
        add.one("cache_evictions", "Cached packs evicted", &self.cache_evictions);
        add.one(
            "cache_reused_deltas",
            "Pack entries written from deltas that were kept from earlier packs",
            &self.cache_reused_deltas,
        );
        add.bytes("cache_delta", "Size of deltas that are kept for later packs", &self.cache_delta_bytes);
        add.bytes("cache", "Size of packs that are cached or shared", &self.cache_bytes);
        add.one("answer_hits", "Ref advertisements sent from the cache", &self.answer_hits);
        add.one("answer_misses", "Ref advertisements built", &self.answer_misses);
        add.one("repository_cache_open", "Open repositories in the cache", &self.repository_cache_open);
        add.one(
            "repository_cache_hits",
            "Requests that found their repository in the cache",
            &self.repository_cache_hits,
        );
        add.one(
            "repository_cache_misses",
            "Requests that had to open their repository",
            &self.repository_cache_misses,
        );
    }

    /// Creates all series, so that those exist that were never counted.
    fn fill(&self) {
        for door in DoorName::ALL.iter().copied() {
            drop(self.connections.get_or_create(&ByDoor { door }));
            for kind in Kind::ALL.iter().copied() {
                for family in [&self.started, &self.finished, &self.failed] {
                    drop(family.get_or_create(&ByKind { kind, door }));
                }
            }
        }
        for reason in Reason::ALL.iter().copied() {
            drop(self.refusals.get_or_create(&ByReason { reason }));
        }
        for outcome in HandshakeOutcome::ALL.iter().copied() {
            drop(self.handshakes.get_or_create(&ByHandshakeOutcome { outcome }));
        }
        for task in MaintenanceTask::ALL.iter().copied() {
            for outcome in JobOutcome::ALL.iter().copied() {
                drop(self.maintenance.get_or_create(&ByTask { task, outcome }));
            }
        }
        for outcome in LoginOutcome::ALL.iter().copied() {
            drop(self.logins.get_or_create(&ByLoginOutcome { outcome }));
        }
        for stage in Stage::ALL.iter().copied() {
            drop(self.phases.get_or_create(&ByStage { stage }));
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            started: Family::default(),
            finished: Family::default(),
            failed: Family::default(),
            bytes_sent: Counter::default(),
            bytes_received: Counter::default(),
            connections: Family::default(),
            refusals: Family::default(),
            ignored_user_headers: Counter::default(),
            handshakes: Family::default(),
            logins: Family::default(),
            requests_running: Gauge::default(),
            body_memory: Gauge::default(),
            push_memory: Gauge::default(),
            queue_length: Gauge::default(),
            queue_wait: histogram(),
            running_clones: Gauge::default(),
            cache_hits_running: Counter::default(),
            cache_hits_kept: Counter::default(),
            cache_misses: Counter::default(),
            cache_evictions: Counter::default(),
            cache_reused_deltas: Counter::default(),
            cache_delta_bytes: Gauge::default(),
            cache_bytes: Gauge::default(),
            answer_hits: Counter::default(),
            answer_misses: Counter::default(),
            repository_cache_open: Gauge::default(),
            repository_cache_hits: Counter::default(),
            repository_cache_misses: Counter::default(),
            phases: Family::new_with_constructor(histogram),
            batches: Counter::default(),
            keepalives: Counter::default(),
            maintenance: Family::default(),
            maintenance_time: histogram(),
            maintenance_saved: Counter::default(),
            maintenance_running: Gauge::default(),
            maintenance_backlog: Gauge::default(),
            events_recorded: Counter::default(),
            events_refused: Counter::default(),
            event_followers: Gauge::default(),
            panics: Counter::default(),
            bucket: OnceLock::new(),
            webhooks: OnceLock::new(),
        }
    }
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

/// One more in a gauge, until it is dropped.
#[derive(Debug)]
pub struct Raised(Gauge);

impl Raised {
    /// Adds one.
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Raised(gauge.clone())
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A registry that is being filled; it shares what is added.
struct Adding<'a>(&'a mut Registry);

impl Adding<'_> {
    fn one(&mut self, name: &str, help: &str, metric: &(impl Metric + Clone)) {
        self.0.register(name, help, metric.clone());
    }

    fn bytes(&mut self, name: &str, help: &str, metric: &(impl Metric + Clone)) {
        self.0.register_with_unit(name, help, Unit::Bytes, metric.clone());
    }

    fn seconds(&mut self, name: &str, help: &str, metric: &(impl Metric + Clone)) {
        self.0.register_with_unit(name, help, Unit::Seconds, metric.clone());
    }
}

/// The counts of [`packrace_os::count`], read when they are shown.
#[derive(Debug)]
struct OsCalls;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOsCall {
    role: &'static str,
    op: &'static str,
}

impl EncodeMetric for OsCalls {
    fn encode(&self, mut encoder: prometheus_client::encoding::MetricEncoder<'_>) -> std::fmt::Result {
        for (role, op, calls) in count::all_calls() {
            ConstCounter::new(calls).encode(encoder.encode_family(&ByOsCall { role, op })?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> prometheus_client::metrics::MetricType {
        prometheus_client::metrics::MetricType::Counter
    }
}

/// How many maps were found damaged ([`packrace_os::faults`]), read when it is shown.
#[derive(Debug)]
struct DamagedMaps;

impl EncodeMetric for DamagedMaps {
    fn encode(&self, encoder: prometheus_client::encoding::MetricEncoder<'_>) -> std::fmt::Result {
        ConstCounter::new(packrace_os::faults::damaged_maps()).encode(encoder)
    }

    fn metric_type(&self) -> prometheus_client::metrics::MetricType {
        prometheus_client::metrics::MetricType::Counter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(metrics: &Metrics, line: &str) {
        let text = metrics.text();
        assert!(text.lines().any(|other| other == line), "no line {line:?} in:\n{text}");
    }

    #[test]
    fn what_the_process_uses() {
        let usage = packrace_os::process::usage().unwrap();
        let text = Metrics::default().text_with(Some(&usage));
        for name in [
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_open_fds",
            "process_max_fds",
        ] {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            assert!(line.unwrap_or_else(|| panic!("no {name}")).parse::<f64>().unwrap() > 0.0, "{name}");
        }
        assert!(!Metrics::default().text().contains("process_cpu"));
    }

    #[test]
    fn everything_is_there_from_the_start() {
        let metrics = Metrics::default();
        check(&metrics, "packrace_transfers_started_total{kind=\"clone\",door=\"http\"} 0");
        check(&metrics, "packrace_transfers_failed_total{kind=\"push\",door=\"git\"} 0");
        check(&metrics, "packrace_refusals_total{reason=\"not-found\"} 0");
        check(&metrics, "packrace_sent_bytes_total 0");
        check(&metrics, "packrace_queue_length 0");
        check(&metrics, "packrace_phase_seconds_count{stage=\"plan\"} 0");
        check(&metrics, "# EOF");
    }

    #[test]
    fn what_happens_is_counted() {
        let metrics = Metrics::default();
        metrics.started(Kind::Clone, DoorName::Git);
        metrics.finished(Kind::Clone, DoorName::Git);
        metrics.failed(Kind::Fetch, DoorName::Http);
        metrics.refused(Reason::NotFound);
        metrics.phase(Stage::Plan, Duration::from_millis(20));
        metrics.waited(Duration::from_secs(2000));
        let held = metrics.connection(DoorName::Git);
        check(&metrics, "packrace_transfers_started_total{kind=\"clone\",door=\"git\"} 1");
        check(&metrics, "packrace_transfers_finished_total{kind=\"clone\",door=\"git\"} 1");
        check(&metrics, "packrace_transfers_failed_total{kind=\"fetch\",door=\"http\"} 1");
        check(&metrics, "packrace_refusals_total{reason=\"not-found\"} 1");
        check(&metrics, "packrace_phase_seconds_bucket{le=\"0.016\",stage=\"plan\"} 0");
        check(&metrics, "packrace_phase_seconds_bucket{le=\"0.064\",stage=\"plan\"} 1");
        check(&metrics, "packrace_queue_wait_seconds_bucket{le=\"1024.0\"} 0");
        check(&metrics, "packrace_queue_wait_seconds_bucket{le=\"+Inf\"} 1");
        check(&metrics, "packrace_connections{door=\"git\"} 1");
        drop(held);
        check(&metrics, "packrace_connections{door=\"git\"} 0");
        count::add(count::Role::Refs, count::Op::Look, 5);
        assert!(metrics.text().contains("packrace_os_calls_total{role=\"refs\",op=\"look\"} "));
        assert_eq!(metrics.started_so_far(Kind::Clone), 1);
        assert_eq!(metrics.ended_so_far(Kind::Fetch), (0, 1));
    }
}
