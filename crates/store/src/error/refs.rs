use std::path::PathBuf;

/// Why refs could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RefError {
    /// The file system failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// A file of refs was changed in place, or could not be read, while it was in use.
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
    /// Files changed again and again while they were read.
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
    /// What shall be written cannot be; in git's words where it has words.
    #[error("{0}")]
    Write(String),
}
