use std::path::PathBuf;

use packrace_format::index_file::IndexFileError;

/// Why an index cannot be used. The text is git's where git has one; [`IndexError::cause`] is the line that
/// git prints before it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The bytes are not an index.
    #[error("{}", damaged(.path, .source))]
    Damaged {
        /// The index, or its shared index.
        path: PathBuf,
        /// The problem.
        source: IndexFileError,
    },
    /// The file could not be read.
    #[error("{}: index file open failed: {}", .path.display(), packrace_os::reason(.source))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The lock could not be taken.
    #[error(transparent)]
    Lock(packrace_store::Error),
    /// `splitIndex.sharedIndexExpire` is no date.
    #[error("unable to parse 'splitindex.sharedindexexpire'")]
    Expire(String),
    /// An error about objects or the configuration.
    #[error(transparent)]
    Store(#[from] packrace_store::Error),
    /// An entry with a null id, which is not written.
    #[error("Unable to write new index file")]
    NullId(Vec<u8>),
    /// The new index could not be written.
    #[error("Unable to write new index file")]
    Unwritten(#[source] packrace_store::Error),
    /// The file has no name.
    #[error("Unable to write new index file")]
    Nameless,
    /// A file that may have changed could not be converted.
    #[error(transparent)]
    Filter(crate::filter::Error),
    /// An index that git keeps sparse cannot be split, too.
    #[error("cannot use split index with a sparse index")]
    SplitSparse,
    /// A directory of a sparse index is not a tree.
    #[error("index entry '{}' is a directory, but not sparse", String::from_utf8_lossy(.0))]
    NotATree(Vec<u8>),
}

fn damaged(path: &std::path::Path, source: &IndexFileError) -> String {
    match source {
        IndexFileError::TooSmall => format!("{}: {source}", path.display()),
        IndexFileError::EntryFormat(_)
        | IndexFileError::Name(_)
        | IndexFileError::Unordered
        | IndexFileError::Twice(_)
        | IndexFileError::Shared { .. } => source.to_string(),
        _ => "index file corrupt".to_owned(),
    }
}

impl IndexError {
    /// The error to print before this one.
    pub fn cause(&self) -> Option<String> {
        match self {
            IndexError::Damaged { source, .. } => match source {
                IndexFileError::Signature(_)
                | IndexFileError::Version(_)
                | IndexFileError::Checksum
                | IndexFileError::EntryMode { .. }
                | IndexFileError::Extension(_)
                | IndexFileError::Link(_) => Some(source.to_string()),
                _ => None,
            },
            IndexError::Expire(text) => Some(format!("Invalid splitindex.sharedindexexpire: '{text}'")),
            IndexError::NullId(path) => {
                Some(format!("cache entry has null sha1: {}", String::from_utf8_lossy(path)))
            }
            IndexError::Unwritten(error) => Some(error.to_string()),
            _ => None,
        }
    }

    /// Whether another process holds the lock.
    pub fn is_locked(&self) -> bool {
        matches!(self, IndexError::Lock(error) if error.is_locked())
    }
}
