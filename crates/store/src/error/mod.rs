//! The errors of this crate.

mod git_words;
pub(crate) mod refs;

use std::path::PathBuf;

use packrace_object::ObjectId;

/// What a caller can do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The path is not a repository or must not be opened, or the configuration or request is invalid.
    Refused,
    /// Bytes on disk are damaged.
    Corrupt,
    /// The file system failed; trying again may help.
    Unavailable,
    /// Another process holds the lock, or changed the target; trying again may help.
    Conflict,
    /// An object is larger than the caller allows.
    LimitExceeded,
}

/// Why a repository or an object could not be read, in git's words if git has any.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Reason);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Reason {
    #[error("'{0}' does not appear to be a git repository")]
    NotARepository(PathBuf),
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    OtherOwner(String),
    #[error("{0}")]
    UnknownFormat(String),
    #[error("{path}: {}", packrace_os::reason(.source))]
    OutOfReach { path: PathBuf, source: std::io::Error },
    #[error("{path}: {}", packrace_os::reason(.source))]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path}: {source}")]
    Index { path: PathBuf, source: packrace_format::index_file::IndexFileError },
    #[error("loose object {id} (stored in {path}) is corrupt: {what}")]
    DamagedLoose { id: ObjectId, path: PathBuf, what: &'static str, is_header: bool },
    #[error("packed entry at offset {offset} of {pack}: {what}")]
    DamagedEntry { pack: String, offset: u64, what: &'static str, delta_at: Option<u64> },
    #[error("packed object {id} (stored in {path}) is corrupt: {fault}")]
    DamagedPacked { id: ObjectId, path: PathBuf, fault: Box<Error>, base: Option<ObjectId> },
    #[error("bad packed object CRC for {0}")]
    BadCrc(ObjectId),
    #[error("object {0} is missing")]
    Missing(ObjectId),
    #[error("could not fetch {0} from promisor remote")]
    NotFetched(ObjectId),
    #[error(transparent)]
    Faulted(#[from] packrace_os::faults::Damaged),
    #[error(transparent)]
    Refs(#[from] refs::RefError),
    #[error("{0}")]
    Config(String),
    #[error("{why}")]
    Setting { why: String, place: String },
    #[error("{0}")]
    UnreadableConfig(String),
    #[error("{0}")]
    Damaged(String),
    #[error("{words}")]
    Caused { kind: ErrorKind, words: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("Unable to create '{path}': File exists.\n\n{holder}")]
    Locked { path: PathBuf, holder: String },
    #[error("Unable to create '{path}': {}", packrace_os::reason(.source))]
    Unlockable { path: PathBuf, source: std::io::Error },
    #[error("object of {size} bytes is larger than the limit of {limit}")]
    TooLarge { size: u64, limit: u64 },
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Reason::NotARepository(_)
            | Reason::Refused(_)
            | Reason::OtherOwner(_)
            | Reason::UnknownFormat(_)
            | Reason::OutOfReach { .. }
            | Reason::Config(_)
            | Reason::Setting { .. }
            | Reason::UnreadableConfig(_) => ErrorKind::Refused,
            Reason::Faulted(_) | Reason::Io { .. } | Reason::Unlockable { .. } => ErrorKind::Unavailable,
            Reason::Locked { .. } => ErrorKind::Conflict,
            Reason::Refs(error) => error.kind(),
            Reason::TooLarge { .. } => ErrorKind::LimitExceeded,
            Reason::Caused { kind, .. } => *kind,
            Reason::Index { .. }
            | Reason::DamagedLoose { .. }
            | Reason::DamagedEntry { .. }
            | Reason::DamagedPacked { .. }
            | Reason::BadCrc(_)
            | Reason::Damaged(_)
            | Reason::Missing(_)
            | Reason::NotFetched(_) => ErrorKind::Corrupt,
        }
    }

    pub(crate) fn io_kind(&self) -> std::io::ErrorKind {
        match &self.0 {
            Reason::Io { source, .. } => source.kind(),
            _ => std::io::ErrorKind::Other,
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        matches!(&self.0, Reason::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }

    /// Whether there is no repository where one was to be opened.
    pub fn is_no_repository(&self) -> bool {
        matches!(&self.0, Reason::NotARepository(_))
    }

    /// Whether the repository belongs to a user that this one does not trust.
    pub fn is_of_other_owner(&self) -> bool {
        matches!(&self.0, Reason::OtherOwner(_))
    }

    /// Whether a file could not be read, or was changed in place, while in use.
    pub fn is_fault(&self) -> bool {
        matches!(&self.0, Reason::Faulted(_) | Reason::Refs(refs::RefError::Faulted(_)))
    }

    /// Whether a configuration file outside of repositories exists but cannot be read.
    pub(crate) fn is_unreadable_config(&self) -> bool {
        matches!(&self.0, Reason::UnreadableConfig(_))
    }

    /// Whether it is about the format of a repository (`core.repositoryFormatVersion`, `extensions.*`), which is not known.
    pub fn is_of_unknown_format(&self) -> bool {
        matches!(&self.0, Reason::UnknownFormat(_))
    }

    /// The object that is missing in the promisor remotes, too, if that is the error.
    pub fn unfetched(&self) -> Option<ObjectId> {
        match &self.0 {
            Reason::NotFetched(id) => Some(*id),
            _ => None,
        }
    }

    /// Whether another process holds the lock of a file.
    pub fn is_locked(&self) -> bool {
        matches!(&self.0, Reason::Locked { .. })
    }

    /// Whether the system does not let the lock of a file be made.
    pub(crate) fn is_unlockable(&self) -> bool {
        matches!(&self.0, Reason::Unlockable { .. })
    }

    pub(crate) fn sync(failed: packrace_os::durable::SyncFailed) -> Self {
        Error::io(failed.path, failed.source)
    }

    /// `words` includes the text of `source`, unless git omits it.
    pub(crate) fn caused(
        kind: ErrorKind,
        words: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Reason::Caused { kind, words: words.into(), source: Box::new(source) }.into()
    }

    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        let path = path.into();
        if packrace_os::reach::is_refusal(&source) {
            return Reason::OutOfReach { path, source }.into();
        }
        Reason::Io { path, source }.into()
    }
}

impl From<packrace_os::faults::Damaged> for Error {
    fn from(damaged: packrace_os::faults::Damaged) -> Self {
        Reason::Faulted(damaged).into()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::refs::RefError;
    use super::*;

    fn check(error: impl Into<Error>, kind: ErrorKind) {
        let error = error.into();
        assert_eq!(error.kind(), kind, "{error}");
    }

    #[test]
    fn the_kind_of_a_ref_error_is_that_of_its_cause() {
        let locked =
            || Error::from(Reason::Locked { path: "refs/heads/main.lock".into(), holder: String::new() });
        let unlockable = |path: &str| {
            let source = io::Error::from(io::ErrorKind::PermissionDenied);
            Error::from(Reason::Unlockable { path: path.into(), source })
        };
        check(locked(), ErrorKind::Conflict);
        check(Reason::Refs(locked().into()), ErrorKind::Conflict);
        check(Reason::Refs(unlockable("packed-refs.lock").into()), ErrorKind::Unavailable);
        check(Reason::Refs(RefError::Conflict("is locked".to_owned())), ErrorKind::Conflict);
        let line =
            RefError::Line { what: "unexpected line", path: "packed-refs".into(), line: "x".to_owned() };
        check(Reason::Refs(line), ErrorKind::Corrupt);
    }

    #[test]
    fn the_cause_is_kept() {
        let error =
            Error::caused(ErrorKind::Refused, "unable to move", io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(error.to_string(), "unable to move");
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(cause.unwrap().kind(), io::ErrorKind::NotFound);
        let words = "cannot lock references".to_owned();
        let error = RefError::File { words, source: Box::new(error) };
        assert!(error.source().is_some_and(|source| source.to_string() == "unable to move"));
    }
}
