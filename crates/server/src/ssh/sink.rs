//! An SSH session as the sink for a client.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use packrace_ssh::SessionOutput;

use crate::limits::cpu::CpuScheduler;
use crate::send::outbox::{ClientSink, GatherBatch};

/// Passes batches to a connection, which encrypts them.
pub(super) struct SshSink {
    output: SessionOutput,
    cpu: Option<Arc<CpuScheduler>>,
    is_background: bool,
}

/// One piece of a batch, which is kept until it was sent.
struct BatchPart(Arc<GatherBatch>, usize);

impl AsRef<[u8]> for BatchPart {
    fn as_ref(&self) -> &[u8] {
        self.0.piece(self.1).unwrap_or_default()
    }
}

impl SshSink {
    pub(super) fn new(output: SessionOutput, cpu: Option<Arc<CpuScheduler>>) -> Self {
        SshSink { output, cpu, is_background: false }
    }
}

impl ClientSink for SshSink {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        // Waits for a slot and releases it at once: another thread encrypts and writes the batch.
        drop(self.cpu.as_deref().filter(|_| self.is_background).map(CpuScheduler::take_slot));
        let count = batch.pieces().len();
        let batch = Arc::new(batch);
        self.output.send((0..count).map(|at| Bytes::from_owner(BatchPart(batch.clone(), at))))
    }

    fn peer_gone(&mut self) -> bool {
        self.output.is_gone()
    }

    fn demote_to_background(&mut self) {
        self.is_background = true;
    }
}
