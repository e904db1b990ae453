//! A session on any pair of streams, as over SSH.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use packrace_store::MessageSink;

use super::Git;
use crate::send::outbox::{ClientSink, GatherBatch};
use crate::shell::{SessionStreams, ShellCommand, ShellRequest, serve_session};
use crate::subject::ProtocolVersion;

/// Why a session failed, in words for the client's standard error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SessionError(String);

impl Git {
    /// Serves a command as sshd hands it over, `git-upload-pack '/a.git'` or `git-receive-pack …`, for a user whom the caller has
    /// authenticated. `protocol` is the value of `GIT_PROTOCOL`, or empty. Blocks until the session has ended; the exit code of the
    /// session is 0, or 128 after an error, whose words belong on standard error after `fatal: `.
    pub fn converse(
        &self,
        command: &[u8],
        user: &str,
        client: Option<SocketAddr>,
        protocol: &str,
        (input, output): (impl Read + Send + 'static, impl Write + Send + 'static),
        messages: impl Fn(&[u8]) + Send + Sync + 'static,
    ) -> Result<(), SessionError> {
        let shared = &self.running.shared;
        let command = ShellCommand::parse(command).map_err(|why| SessionError(why.to_string()))?;
        let version = ProtocolVersion::from_environment(protocol);
        let request = ShellRequest { command, user: user.to_owned(), version, client };
        let streams = SessionStreams {
            input: Box::new(input),
            output: Box::new(WriteSink { output, is_gone: false }),
            messages: MessageSink::new(messages),
        };
        let served = catch_unwind(AssertUnwindSafe(|| serve_session(&request, streams, None, shared)));
        served.map_or_else(
            |_| {
                shared.host.metrics.panics.inc();
                Err(SessionError("internal error".to_owned()))
            },
            |served| served.map_err(SessionError),
        )
    }
}

/// A writer as the sink for a client.
struct WriteSink<W> {
    output: W,
    is_gone: bool,
}

impl<W: Write + Send> ClientSink for WriteSink<W> {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        let sent = batch.pieces().try_for_each(|piece| self.output.write_all(piece));
        let sent = sent.and_then(|()| self.output.flush());
        self.is_gone |= sent.is_err();
        sent
    }

    fn peer_gone(&mut self) -> bool {
        self.is_gone
    }

    fn demote_to_background(&mut self) {}
}
