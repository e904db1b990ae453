use std::time::Duration;

use packrace_pack::ingest;
use packrace_protocol::session::fetch_client;

/// Why a fetch failed; the text is git's where git has one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL is invalid, or names something that does not exist.
    #[error("{0}")]
    Url(String),
    /// The server cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The server refused a request, by its status or the form of its response.
    #[error("{0}")]
    Refused(String),
    /// The server broke the protocol, or refused the request.
    #[error(transparent)]
    Protocol(#[from] fetch_client::Error),
    /// The server was silent for this long.
    #[error("no data from the server for {} seconds", .0.as_secs())]
    Silent(Duration),
    /// The connection failed.
    #[error("read error: {0}")]
    Connection(#[source] std::io::Error),
    /// The pack is not accepted.
    #[error(transparent)]
    Pack(#[from] ingest::IngestError),
    /// There is data after the pack.
    #[error("pack has junk at the end")]
    Junk,
}
