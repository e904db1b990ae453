use std::sync::Arc;

use packrace_pack::{Phase, ProgressSink};

use crate::host::Host;
use crate::limits::cpu::CpuScheduler;

/// Pauses a job while interactive work is served, and cancels it when the server stops.
pub(super) struct StepAside<'a> {
    host: &'a Host,
    cpu: Option<Arc<CpuScheduler>>,
}

impl<'a> StepAside<'a> {
    pub(super) fn new(host: &'a Host) -> Self {
        StepAside { host, cpu: host.cpu.clone() }
    }
}

impl ProgressSink for StepAside<'_> {
    /// Called about every thousand objects.
    fn report(&self, _: Phase, _: u64, _: u64) {
        if let Some(cpu) = &self.cpu {
            drop(cpu.take_slot());
        }
    }

    fn cancelled(&self) -> bool {
        self.host.transfers.is_stopping()
    }
}
