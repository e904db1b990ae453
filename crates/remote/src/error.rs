//! Why something in a bucket could not be read or written.

use packrace_format::head::HeadError;

/// What a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such repository.
    Absent,
    /// There is one of this name already.
    Taken,
    /// The store did not answer, or the disk of the cache is full: trying again may help.
    Unavailable,
    /// The store does not let us, or what was asked for cannot be.
    Refused,
    /// What is there is damaged, or of a later version.
    Damaged,
}

/// Why something in a bucket could not be read or written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }

    /// The remedy.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn damaged(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Damaged, message)
    }

    /// A file of this machine: a full disk may have room later, and so may all else.
    pub(crate) fn disk(path: &std::path::Path, error: &std::io::Error) -> Self {
        Error::new(ErrorKind::Unavailable, format!("{}: {error}", path.display()))
    }
}

impl From<HeadError> for Error {
    fn from(error: HeadError) -> Self {
        Error::damaged(error.to_string())
    }
}
