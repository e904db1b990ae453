use std::fmt;

use crate::refusal::Refusal;
use crate::wire::demultiplexer::BadBand;

/// Why a conversation with a server has failed; its text is git's where git has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// What the server says are no packets.
    Packets(Refusal),
    /// The server speaks an older version, or another protocol.
    NotVersion2,
    /// The server cannot do this.
    Lacks(&'static str),
    /// The server's objects are named by a hash that nobody here knows.
    UnknownFormat(Vec<u8>),
    /// A list ended without its flush.
    ExpectedFlush(&'static str),
    /// This is none of a ref.
    BadRefLine(Vec<u8>),
    /// The server refuses, in these words.
    Remote(Vec<u8>),
    /// This came instead of a pack, or nothing.
    NoPack(Option<Vec<u8>>),
    /// The server's own history is cut.
    IsShallow,
    /// The side-band is broken.
    Band(BadBand),
    /// The server gave up while it sent the pack; its last words are for the user.
    LastWords(Vec<u8>),
    /// The server ended in the middle of a pack.
    CutOff,
    /// The server ended without a word.
    SaidNothing,
    /// The server ended before it was asked for everything.
    HungUp,
    /// The server says something that nobody asked for.
    Unasked,
    /// The server tells more than is taken.
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are taken.
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
            Error::Unasked => f.write_str("protocol error: the server says what nobody asked for"),
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

/// Words of a server, which a terminal may show: without its control characters.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { '?' } else { c }).collect()
}
