use std::path::PathBuf;

use super::ErrorKind;

/// Why refs could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefError {
    /// The file system failed.
    #[error("{path}: {}", packrace_os::reason(.source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// `packed-refs` cannot be read; in git's words.
    #[error("couldn't read {path}: {}", packrace_os::reason(.source))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file of refs was changed in place, or could not be read, while in use.
    #[error(transparent)]
    Faulted(#[from] packrace_os::faults::Damaged),
    /// A file of refs is damaged.
    #[error("{path}: {source}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: packrace_format::Error,
    },
    /// Files kept changing while they were read.
    #[error("{0}: refs keep changing while they are read")]
    Unstable(PathBuf),
    /// A line of a file of refs is damaged; in git's words.
    #[error("{what} in {path}: {line}")]
    Line {
        /// What is wrong.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The line.
        line: String,
    },
    /// The ref of this name has a name or a value that git refuses.
    #[error("bad object {0}")]
    Bad(String),
    /// A file or its lock failed; the text may be git's.
    #[error("{words}")]
    File {
        /// The message; includes the text of the source unless git omits it.
        words: String,
        /// The cause.
        source: Box<super::Error>,
    },
    /// Another process is changing the ref, or has changed it meanwhile; in git's words.
    #[error("{0}")]
    Conflict(String),
    /// The request cannot be carried out; in git's words if git has any.
    #[error("{0}")]
    Write(String),
}

impl RefError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            RefError::Io { .. }
            | RefError::Unreadable { .. }
            | RefError::Faulted(_)
            | RefError::Unstable(_) => ErrorKind::Unavailable,
            RefError::Damaged { .. } | RefError::Line { .. } | RefError::Bad(_) => ErrorKind::Corrupt,
            RefError::File { source, .. } => source.kind(),
            RefError::Conflict(_) => ErrorKind::Conflict,
            RefError::Write(_) => ErrorKind::Refused,
        }
    }

    /// Whether git ends on this, whatever it was about to do.
    pub fn ends_all(&self) -> bool {
        matches!(self, RefError::Line { .. } | RefError::Unreadable { .. })
    }
}

impl From<super::Error> for RefError {
    fn from(error: super::Error) -> Self {
        RefError::File { words: error.to_string(), source: Box::new(error) }
    }
}
