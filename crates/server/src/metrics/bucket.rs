//! Metrics of a bucket and of its cache, read when they are shown.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use packrace_remote::bucket::{RequestKind, RequestOutcome};
use packrace_remote::cache::Cache;
use packrace_remote::commit::{CommitCounts, Committer};
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// Registers the metrics of a bucket.
pub(super) fn register(registry: &mut Registry, committer: &Arc<Committer>) {
    let cache = committer.cache();
    registry.register("bucket_requests", "Requests to the bucket", BucketRequests(cache.clone()));
    let help = "Requests whose repository was up to date in the bucket cache";
    registry.register(
        "bucket_cache_hits",
        help,
        CacheCounter(cache.clone(), |cache| cache.counts().hits.load(Relaxed)),
    );
    let help = "Requests that updated their repository in the bucket cache";
    registry.register(
        "bucket_cache_fills",
        help,
        CacheCounter(cache.clone(), |cache| cache.counts().fills.load(Relaxed)),
    );
    let help = "Repositories evicted from the bucket cache";
    let evictions = CacheCounter(cache.clone(), |cache| cache.counts().evictions.load(Relaxed));
    registry.register("bucket_cache_evictions", help, evictions);
    let help = "Size of the repositories in the bucket cache";
    registry.register_with_unit("bucket_cache", help, Unit::Bytes, CacheBytes(cache.clone()));
    let help = "Attempts to replace a head in the bucket, by outcome";
    registry.register("bucket_swaps", help, HeadSwaps(committer.clone()));
    let help = "Pushes committed to the bucket";
    let pushes = CommitCounter(committer.clone(), |counts| counts.pushes.load(Relaxed));
    registry.register("bucket_pushes", help, pushes);
    let folds = CommitCounter(committer.clone(), |counts| counts.folds.load(Relaxed));
    registry.register("bucket_folds", "Folds of packs in the bucket", folds);
}

#[derive(Debug)]
struct HeadSwaps(Arc<Committer>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BySwap {
    outcome: &'static str,
}

impl EncodeMetric for HeadSwaps {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let counts = self.0.counts();
        for (outcome, count) in [("won", &counts.won), ("lost", &counts.lost), ("unknown", &counts.unknown)] {
            ConstCounter::new(count.load(Relaxed)).encode(encoder.encode_family(&BySwap { outcome })?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

#[derive(Debug)]
struct CommitCounter(Arc<Committer>, fn(&CommitCounts) -> u64);

impl EncodeMetric for CommitCounter {
    fn encode(&self, encoder: MetricEncoder<'_>) -> std::fmt::Result {
        ConstCounter::new((self.1)(self.0.counts())).encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

#[derive(Debug)]
struct BucketRequests(Arc<Cache>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRequest {
    kind: &'static str,
    outcome: &'static str,
}

impl EncodeMetric for BucketRequests {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let counts = self.0.bucket().counts();
        for kind in RequestKind::ALL {
            for outcome in RequestOutcome::ALL {
                let labels = ByRequest { kind: kind.word(), outcome: outcome.word() };
                ConstCounter::new(counts.of(kind, outcome)).encode(encoder.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

#[derive(Debug)]
struct CacheCounter(Arc<Cache>, fn(&Cache) -> u64);

impl EncodeMetric for CacheCounter {
    fn encode(&self, encoder: MetricEncoder<'_>) -> std::fmt::Result {
        ConstCounter::new((self.1)(&self.0)).encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

#[derive(Debug)]
struct CacheBytes(Arc<Cache>);

impl EncodeMetric for CacheBytes {
    fn encode(&self, encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let bytes = i64::try_from(self.0.bytes()).unwrap_or(i64::MAX);
        ConstGauge::new(bytes).encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}
