use std::path::PathBuf;

use packrace_format::multi_pack_index::MidxWriteError;
use packrace_object::ObjectId;
use packrace_pack::maintain::commit_graph::GraphError;
use packrace_pack::maintain::pack_files::PackFilesError;
use packrace_store::refs::{PrepareError, RefError};

/// What the caller can do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another process is working on it, or has changed it: try again later.
    Conflict,
    /// The job was cancelled.
    Cancelled,
    /// Something in the repository is damaged and must be examined.
    Corrupt,
    /// The configuration requests something impossible.
    Misconfigured,
    /// The disk is full or fails: try again once that is fixed.
    Unavailable,
}

/// Why a repository could not be measured or maintained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The repository cannot be read or written.
    #[error(transparent)]
    Store(#[from] packrace_store::Error),
    /// Its objects cannot be read or written.
    #[error(transparent)]
    Objects(#[from] packrace_pack::Error),
    /// Its refs cannot be read.
    #[error(transparent)]
    Refs(#[from] RefError),
    /// Its refs cannot be changed.
    #[error(transparent)]
    RefChange(#[from] PrepareError),
    /// Packs cannot be written.
    #[error(transparent)]
    PackFiles(#[from] PackFilesError),
    /// A multi-pack-index cannot be written.
    #[error(transparent)]
    MultiPackIndex(#[from] MidxWriteError),
    /// The bitmap of a multi-pack-index cannot be written: this object is missing.
    #[error("could not write multi-pack bitmap")]
    NotClosed(ObjectId),
    /// The bitmap of a multi-pack-index cannot be written: the index is not the one just made.
    #[error("could not write multi-pack bitmap")]
    NoBitmap,
    /// A commit-graph cannot be written.
    #[error(transparent)]
    CommitGraph(#[from] GraphError),
    /// Invalid delta islands.
    #[error("{0}")]
    Islands(String),
    /// Invalid pseudo-merges (`bitmapPseudoMerge`).
    #[error("{0}")]
    PseudoMerges(String),
    /// An invalid timestamp in a setting.
    #[error("'{value}' for '{key}' is not a valid timestamp")]
    Moment {
        /// The setting.
        key: String,
        /// Its value.
        value: String,
    },
    /// A time that git reads before it does anything.
    #[error("failed to parse '{key}' value '{value}'")]
    Unparsed {
        /// The setting.
        key: String,
        /// Its value.
        value: String,
    },
    /// An object reachable from a reflog is damaged.
    #[error("{0}")]
    Malformed(packrace_object::MalformedObject),
    /// A file cannot be examined or removed.
    #[error("{path}: {}", packrace_os::reason(.source))]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Error::File { path: path.into(), source }
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        let of_store = |kind| match kind {
            packrace_store::ErrorKind::Conflict => ErrorKind::Conflict,
            packrace_store::ErrorKind::Corrupt => ErrorKind::Corrupt,
            packrace_store::ErrorKind::Refused => ErrorKind::Misconfigured,
            _ => ErrorKind::Unavailable,
        };
        let of_objects = |kind| match kind {
            packrace_pack::ErrorKind::Conflict => ErrorKind::Conflict,
            packrace_pack::ErrorKind::Cancelled => ErrorKind::Cancelled,
            packrace_pack::ErrorKind::Corrupt => ErrorKind::Corrupt,
            packrace_pack::ErrorKind::Misconfigured | packrace_pack::ErrorKind::BadRequest => {
                ErrorKind::Misconfigured
            }
            _ => ErrorKind::Unavailable,
        };
        match self {
            Error::Store(error) => of_store(error.kind()),
            Error::Refs(error) => of_store(error.kind()),
            Error::RefChange(error) => of_store(error.kind()),
            Error::Objects(error)
            | Error::PackFiles(PackFilesError::Objects(error))
            | Error::CommitGraph(GraphError::Objects(error)) => of_objects(error.kind()),
            Error::PackFiles(_)
            | Error::NotClosed(_)
            | Error::NoBitmap
            | Error::CommitGraph(_)
            | Error::MultiPackIndex(_)
            | Error::Malformed(_) => ErrorKind::Corrupt,
            Error::Islands(_) | Error::PseudoMerges(_) | Error::Moment { .. } | Error::Unparsed { .. } => {
                ErrorKind::Misconfigured
            }
            Error::File { .. } => ErrorKind::Unavailable,
        }
    }
}
