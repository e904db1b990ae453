use std::path::{Path, PathBuf};

use crate::filter;
use crate::index::{IndexError, TreeError};
use crate::paths::PathError;
use packrace_object::{CollisionAttack, MalformedObject, ObjectId};

/// Why the index or the work tree could not be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// The repository could not be read or written.
    #[error(transparent)]
    Store(#[from] packrace_store::Error),
    /// The index could not be read or written.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The index cannot be written as trees.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Content could not be converted.
    #[error(transparent)]
    Filter(#[from] filter::Error),
    /// Paths could not be determined.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file of the work tree could not be read or written.
    #[error("unable to access '{}': {error}", path.display())]
    Io {
        /// The path as it was used.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// An object is unusable for its purpose.
    #[error("object {id} {why}")]
    Damaged {
        /// The damaged object.
        id: ObjectId,
        /// The problem.
        why: String,
    },
    /// New content looks like an attack on the hash.
    #[error(transparent)]
    Attack(#[from] CollisionAttack),
    /// A library of git's algorithms failed.
    #[error("cannot {what}: {source}")]
    Library {
        /// The attempted operation.
        what: &'static str,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Files could not be read; these are lines for standard error.
    #[error("{}", .0.join("\n"))]
    Unreadable(Vec<String>),
    /// The request is impossible; the text is git's.
    #[error("{0}")]
    Refused(String),
}

impl WorkError {
    /// A failure at a file.
    pub(crate) fn io(path: impl AsRef<Path>, error: std::io::Error) -> Self {
        WorkError::Io { path: path.as_ref().to_owned(), error }
    }

    pub(crate) fn library(what: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> Self {
        WorkError::Library { what, source: Box::new(error) }
    }

    pub(crate) fn malformed(id: ObjectId, error: MalformedObject) -> Self {
        WorkError::Damaged { id, why: format!("is a {error}") }
    }
}
