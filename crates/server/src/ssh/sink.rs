//! An SSH session as the sink for a client.

use std::io;
use std::sync::Arc;

use packrace_ssh::SessionOutput;

use crate::limits::cpu::CpuScheduler;
use crate::send::outbox::{ClientSink, GatherBatch, owned_pieces};

/// Passes batches to a connection, which encrypts them.
pub(super) struct SshSink {
    output: SessionOutput,
    cpu: Option<Arc<CpuScheduler>>,
    is_background: bool,
}

impl SshSink {
    pub(super) fn new(output: SessionOutput, cpu: Option<Arc<CpuScheduler>>) -> Self {
        SshSink { output, cpu, is_background: false }
    }
}

impl ClientSink for SshSink {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        // Another thread encrypts the batch; the slot is held until it has.
        let slot = self.cpu.as_deref().filter(|_| self.is_background).map(CpuScheduler::take_slot);
        self.output.send(owned_pieces(batch), slot)
    }

    fn peer_gone(&mut self) -> bool {
        self.output.is_gone()
    }

    fn demote_to_background(&mut self) {
        self.is_background = true;
    }
}
