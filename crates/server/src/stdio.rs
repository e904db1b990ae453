//! Any file descriptor as the sink for a client: standard output, or a socket.

use std::io;

use packrace_os::sink::{FdSink, Sink, write_all};

use crate::send::outbox::{ClientSink, GatherBatch};

/// The requested pipe buffer: the size of one batch. Linux allows every user 1 MiB
/// (`/proc/sys/fs/pipe-max-size`).
pub(crate) const PIPE_BYTES: usize = 1 << 20;

/// Writes each batch to a sink with as few calls as it allows.
#[derive(Debug)]
pub struct StreamSink<S> {
    sink: S,
    sent_bytes: u64,
}

impl StreamSink<FdSink> {
    /// The process's standard output.
    pub fn stdout() -> io::Result<Self> {
        let sink = FdSink::stdout()?;
        sink.enlarge_pipe(PIPE_BYTES);
        Ok(StreamSink::new(sink))
    }
}

impl<S: Sink> StreamSink<S> {
    /// Writes to this sink.
    pub fn new(sink: S) -> Self {
        StreamSink { sink, sent_bytes: 0 }
    }

    /// Bytes of all batches that were accepted.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }
}

impl<S: Sink> ClientSink for StreamSink<S> {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        let pieces: Vec<&[u8]> = batch.pieces().collect();
        write_all(&mut self.sink, &pieces)?;
        self.sent_bytes += batch.len() as u64;
        Ok(())
    }

    fn peer_gone(&mut self) -> bool {
        self.sink.peer_gone()
    }

    fn demote_to_background(&mut self) {
        self.sink.demote_to_background();
    }
}
