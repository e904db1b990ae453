//! What the process uses, under the names that Prometheus' own clients give it.

use std::sync::atomic::AtomicU64;

use packrace_os::process::ProcessUsage;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Adds the values of now.
pub(super) fn register(registry: &mut Registry, usage: &ProcessUsage) {
    let time: Counter<f64, AtomicU64> = Counter::default();
    time.inc_by(usage.processor_time.as_secs_f64());
    let help = "User and system processor time of the server, without the programs that it runs";
    registry.register_with_unit("process_cpu", help, Unit::Seconds, time);
    let gauge = |value: u64| {
        let gauge: Gauge = Gauge::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        gauge
    };
    let help = "Resident memory, mapped packs included";
    registry.register_with_unit("process_resident_memory", help, Unit::Bytes, gauge(usage.resident_bytes));
    let help = "Virtual memory, mapped packs included";
    registry.register_with_unit("process_virtual_memory", help, Unit::Bytes, gauge(usage.virtual_bytes));
    registry.register("process_open_fds", "Open file descriptors", gauge(usage.open_files));
    if let Some(most) = usage.max_open_files {
        registry.register("process_max_fds", "Maximum number of open file descriptors", gauge(most));
    }
}
