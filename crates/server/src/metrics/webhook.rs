//! Numbers of webhooks: a series a hook, whose names are the operator's.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::labels::{AttemptOutcome, Closed, LossReason};

/// Numbers of one hook.
#[derive(Debug)]
pub(crate) struct WebhookCounts {
    name: String,
    /// The number of the event that comes next.
    next: AtomicU64,
    attempts: [AtomicU64; AttemptOutcome::ALL.len()],
    lost: [AtomicU64; LossReason::ALL.len()],
}

impl WebhookCounts {
    /// All zero.
    pub(crate) fn new(name: &str) -> Self {
        WebhookCounts {
            name: name.to_owned(),
            next: AtomicU64::new(0),
            attempts: Default::default(),
            lost: Default::default(),
        }
    }

    /// Sets the number of the next event.
    pub(crate) fn set_next(&self, next: u64) {
        self.next.store(next, Relaxed);
    }

    /// Counts an attempt to deliver an event.
    pub(crate) fn attempted(&self, outcome: AttemptOutcome) {
        add(AttemptOutcome::ALL, &self.attempts, outcome, 1);
    }

    /// Counts events that the receiver does not get.
    pub(crate) fn lost(&self, reason: LossReason, count: u64) {
        add(LossReason::ALL, &self.lost, reason, count);
    }

    #[cfg(test)]
    pub(crate) fn attempts_so_far(&self, outcome: AttemptOutcome) -> u64 {
        of(AttemptOutcome::ALL, &self.attempts, outcome)
    }

    #[cfg(test)]
    pub(crate) fn lost_so_far(&self, reason: LossReason) -> u64 {
        of(LossReason::ALL, &self.lost, reason)
    }
}

fn add<L: Closed + PartialEq>(labels: &[L], counts: &[AtomicU64], label: L, count: u64) {
    for (_, value) in labels.iter().zip(counts).filter(|(other, _)| **other == label) {
        value.fetch_add(count, Relaxed);
    }
}

#[cfg(test)]
fn of<L: Closed + PartialEq>(labels: &[L], counts: &[AtomicU64], label: L) -> u64 {
    let of_label = labels.iter().zip(counts).filter(|(other, _)| **other == label);
    of_label.map(|(_, value)| value.load(Relaxed)).sum()
}

/// Numbers of all hooks of a server.
#[derive(Debug, Clone)]
pub(crate) struct WebhookNumbers {
    /// They change while the server runs.
    hooks: Arc<RwLock<Vec<Arc<WebhookCounts>>>>,
    /// The number of the last event.
    last: watch::Receiver<u64>,
}

impl WebhookNumbers {
    /// Of no hooks yet; `last` is the number of the last event that they could send.
    pub(crate) fn new(last: watch::Receiver<u64>) -> Self {
        WebhookNumbers { hooks: Arc::default(), last }
    }

    /// Sets the hooks to report on.
    pub(crate) fn set(&self, hooks: Vec<Arc<WebhookCounts>>) {
        *self.hooks.write().unwrap_or_else(PoisonError::into_inner) = hooks;
    }

    fn hooks(&self) -> RwLockReadGuard<'_, Vec<Arc<WebhookCounts>>> {
        self.hooks.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds them.
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Attempts to deliver events to webhooks, by outcome";
        registry.register("webhook_attempts", help, WebhookAttempts(self.clone()));
        let help = "Events that will not be delivered to webhooks";
        registry.register("webhook_lost_events", help, WebhookLosses(self.clone()));
        registry.register("webhook_lag", "Events not yet delivered to webhooks", WebhookLag(self.clone()));
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByHook {
    hook: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByAttempt {
    hook: String,
    outcome: AttemptOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLoss {
    hook: String,
    reason: LossReason,
}

#[derive(Debug)]
struct WebhookAttempts(WebhookNumbers);

impl EncodeMetric for WebhookAttempts {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        for counts in self.0.hooks().iter() {
            for (outcome, count) in AttemptOutcome::ALL.iter().zip(&counts.attempts) {
                let labels = ByAttempt { hook: counts.name.clone(), outcome: *outcome };
                ConstCounter::new(count.load(Relaxed)).encode(encoder.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

#[derive(Debug)]
struct WebhookLosses(WebhookNumbers);

impl EncodeMetric for WebhookLosses {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        for counts in self.0.hooks().iter() {
            for (reason, count) in LossReason::ALL.iter().zip(&counts.lost) {
                let labels = ByLoss { hook: counts.name.clone(), reason: *reason };
                ConstCounter::new(count.load(Relaxed)).encode(encoder.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

#[derive(Debug)]
struct WebhookLag(WebhookNumbers);

impl EncodeMetric for WebhookLag {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let end = self.0.last.borrow().saturating_add(1);
        for counts in self.0.hooks().iter() {
            let behind = end.saturating_sub(counts.next.load(Relaxed).max(1));
            let labels = ByHook { hook: counts.name.clone() };
            let behind = i64::try_from(behind).unwrap_or(i64::MAX);
            ConstGauge::new(behind).encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}
