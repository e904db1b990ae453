//! Errors from reading or writing a bucket.

use packrace_format::head::HeadError;

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The repository does not exist.
    Absent,
    /// The name is taken.
    Taken,
    /// The store did not respond, or the disk of the cache is full: a retry may help.
    Unavailable,
    /// The store denies access, or the request is invalid.
    Refused,
    /// The data is damaged, or of a later version.
    Damaged,
}

/// An error from reading or writing a bucket.
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

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn damaged(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Damaged, message)
    }

    /// An error of a local file. A retry may help, even if the disk is full.
    pub(crate) fn disk(path: &std::path::Path, error: &std::io::Error) -> Self {
        Error::new(ErrorKind::Unavailable, format!("{}: {error}", path.display()))
    }
}

impl From<HeadError> for Error {
    fn from(error: HeadError) -> Self {
        Error::damaged(error.to_string())
    }
}
