use std::fmt;

use crate::refusal::Refusal;
use crate::wire::demultiplexer::BadBand;

/// Why a conversation with a server failed, in git's words if git has any.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The server's bytes are not packets.
    Packets(Refusal),
    /// The server uses an older version or another protocol.
    NotVersion2,
    /// The server lacks this capability.
    Lacks(&'static str),
    /// The server uses an unknown hash.
    UnknownFormat(Vec<u8>),
    /// A list ended without its flush.
    ExpectedFlush(&'static str),
    /// This is not a line about a ref.
    BadRefLine(Vec<u8>),
    /// The server refused, with this text.
    Remote(Vec<u8>),
    /// The server sent this instead of a pack, or nothing.
    NoPack(Option<Vec<u8>>),
    /// The server's own repository is shallow.
    IsShallow,
    /// The side-band is broken.
    Band(BadBand),
    /// The server gave up while sending the pack; its last message is for the user.
    LastWords(Vec<u8>),
    /// The connection ended in the middle of a pack.
    CutOff,
    /// The connection ended before the server sent anything.
    SaidNothing,
    /// The connection ended before all requests were sent.
    HungUp,
    /// The server sent something that was not requested.
    Unasked,
    /// The server sent more than the limit.
    TooMany {
        /// What exceeds the limit.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| printable(bytes);
        match self {
            Error::Packets(refusal) => f.write_str(refusal.message()),
            Error::NotVersion2 => f.write_str("the server does not speak protocol version 2"),
            Error::Lacks(what) => write!(f, "server doesn't support '{what}'"),
            Error::UnknownFormat(name) => {
                write!(f, "unknown object format '{}' specified by server", text(name))
            }
            Error::ExpectedFlush(what) => write!(f, "expected flush after {what}"),
            Error::BadRefLine(line) => write!(f, "invalid ls-refs response: {}", text(line)),
            Error::Remote(words) => write!(f, "remote error: {}", text(words)),
            Error::NoPack(Some(line)) => write!(f, "expected 'packfile', received '{}'", text(line)),
            Error::NoPack(None) => f.write_str("expected 'packfile'"),
            Error::IsShallow => f.write_str("source repository is shallow, reject to clone."),
            Error::Band(BadBand::Packet(refusal)) => f.write_str(refusal.message()),
            Error::Band(BadBand::Unknown(band)) => write!(f, "protocol error: bad band #{band}"),
            Error::Band(BadBand::Missing) => f.write_str("protocol error: missing sideband designator"),
            Error::Band(BadBand::NotData) => f.write_str("protocol error: unexpected packet in a side-band"),
            Error::LastWords(words) => write!(f, "remote error: {}", text(words).trim_end()),
            Error::CutOff => f.write_str("unexpected disconnect while reading sideband packet"),
            Error::SaidNothing => f.write_str("Could not read from remote repository."),
            Error::HungUp => f.write_str("the remote end hung up unexpectedly"),
            Error::Unasked => f.write_str("protocol error: unexpected data from the server"),
            Error::TooMany { what, limit } => write!(f, "the server tells more than {limit} {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Error::Packets(refusal)
    }
}

impl From<BadBand> for Error {
    fn from(bad: BadBand) -> Self {
        Error::Band(bad)
    }
}

/// A server's text without control characters, safe for a terminal.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { '?' } else { c }).collect()
}
