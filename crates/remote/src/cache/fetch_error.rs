//! Why files of a repository cannot be fetched.

use crate::error::Error;

/// Why a file could not be fetched.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The bucket lacks what the head names: a later head may name something else.
    Missing(Error),
    /// The disk is full.
    NoRoom(Error),
    /// Anything else.
    Other(Error),
}

impl From<Error> for FetchError {
    fn from(error: Error) -> Self {
        FetchError::Other(error)
    }
}
