use std::time::Duration;

use packrace_pack::ingest;
use packrace_protocol::session::fetch_client;

/// Why nothing could be fetched; the text is git's where git has one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL makes no sense, or names what is not there.
    #[error("{0}")]
    Url(String),
    /// The server cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The server answers a request with this status or form.
    #[error("{0}")]
    Refused(String),
    /// What the server says breaks the protocol, or it refuses.
    #[error(transparent)]
    Protocol(#[from] fetch_client::Error),
    /// The server is silent for so long.
    #[error("the server said nothing for {} seconds", .0.as_secs())]
    Silent(Duration),
    /// The connection failed.
    #[error("read error: {0}")]
    Connection(#[source] std::io::Error),
    /// The pack is not accepted.
    #[error(transparent)]
    Pack(#[from] ingest::IngestError),
    /// Something follows the pack.
    #[error("pack has junk at the end")]
    Junk,
}
