//! Byte limits and their users.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::metrics::gauge::Gauge;

/// A limit of bytes in use at a time.
#[derive(Debug)]
pub(super) struct ByteBudget {
    max: u64,
    used: AtomicU64,
    /// Shows the bytes in use, of this budget and others.
    gauge: Gauge,
}

impl ByteBudget {
    pub(super) fn new(max: u64, gauge: &Gauge) -> Arc<Self> {
        Arc::new(ByteBudget { max, used: AtomicU64::new(0), gauge: gauge.clone() })
    }

    pub(super) fn max(&self) -> u64 {
        self.max
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    fn try_take(&self, bytes: u64) -> bool {
        let take = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.max);
        let has_room = self.used.fetch_update(Relaxed, Relaxed, take).is_ok();
        self.gauge.inc_by(if has_room { bytes as i64 } else { 0 });
        has_room
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
        self.gauge.dec_by(bytes as i64);
    }
}

/// Bytes taken from a budget; given back when this is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<ByteBudget>,
    bytes: u64,
}

impl Charge {
    /// A charge of no bytes.
    pub(super) fn new(budget: &Arc<ByteBudget>) -> Self {
        Charge { budget: budget.clone(), bytes: 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes this many more bytes, if there is room.
    pub(super) fn grow(&mut self, bytes: u64) -> bool {
        let has_room = self.budget.try_take(bytes);
        self.bytes += if has_room { bytes } else { 0 };
        has_room
    }

    /// Releases this many bytes.
    pub(super) fn shrink(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.budget.give_back(bytes);
        self.bytes -= bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}
