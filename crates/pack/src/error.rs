use packrace_object::{Kind, MalformedObject, ObjectId};

/// What a caller can do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An object that must be sent is missing or damaged.
    Corrupt,
    /// The progress sink asked to stop.
    Cancelled,
    /// The store could not be read; a retry may help.
    Unavailable,
    /// Another process holds a lock, or has changed the target in the meantime; a retry may help.
    Conflict,
    /// A limit was reached.
    LimitExceeded,
    /// The configuration asks for something impossible.
    Misconfigured,
    /// An object that the request names is missing or of the wrong kind; another request can succeed.
    BadRequest,
}

/// Why planning or streaming a pack failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Reason);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Reason {
    #[error("unable to read {0}")]
    Missing(ObjectId),
    #[error("bad object {0}")]
    MissingTarget(ObjectId),
    #[error("Failed to traverse parents of commit {child}: unable to read {parent}")]
    MissingParent { parent: ObjectId, child: ObjectId },
    /// A commit that a client would get as it deepens its history.
    #[error("unable to parse commit {0}")]
    MissingCommit(ObjectId),
    #[error("bad tree object {0}")]
    MissingTree(ObjectId),
    #[error("object {id}: {source}")]
    Malformed { id: ObjectId, source: MalformedObject },
    #[error("object {id} is a {is}, not a {expected}")]
    WrongKind { id: ObjectId, is: Kind, expected: Kind },
    #[error("object {0} is named as two kinds of object")]
    TwoKinds(ObjectId),
    #[error("pack {pack} at offset {offset}: {what}")]
    DamagedEntry { pack: String, offset: u64, what: String },
    #[error("object {id} cannot be read: {what}")]
    Unreadable { id: ObjectId, what: &'static str },
    #[error("unable to parse commit {0}")]
    UnparsableCommit(ObjectId),
    #[error("delta chain of object {0} is longer than 65535")]
    DeepChain(ObjectId),
    #[error("tag {0} is more than 1024 tags deep")]
    DeepTags(ObjectId),
    #[error("exceeded maximum allowed tree depth")]
    DeepTree,
    #[error("a commit is its own ancestor")]
    CommitLoop,
    #[error("more than 4294967295 objects")]
    TooManyObjects,
    #[error("invalid pack.allowPackReuse value: '{0}'")]
    PackReuseScope(String),
    #[error("invalid number of threads specified ({0})")]
    Threads(i32),
    #[error("unable to access sparse blob in '{0}'")]
    NoPatterns(String),
    #[error("unable to parse sparse filter data in {0}")]
    BadPatterns(ObjectId),
    #[error("more than {limit} {what}")]
    LargeFilter { what: &'static str, limit: u64 },
    #[error("cancelled: nobody is waiting for the pack")]
    Cancelled,
    #[error(transparent)]
    Store(#[from] packrace_store::Error),
}

impl Reason {
    /// In git's words, which differ by kind.
    pub(crate) fn missing(id: ObjectId, kind: Kind) -> Self {
        match kind {
            Kind::Tree => Reason::MissingTree(id),
            _ => Reason::Missing(id),
        }
    }
}

impl Error {
    /// Whether a file became unreadable, or was changed in place, while it was in use.
    pub fn is_fault(&self) -> bool {
        matches!(&self.0, Reason::Store(error) if error.is_fault())
    }

    /// What git says if it is more than one line: the lines of `error:`, and the last message.
    pub fn in_git_words(&self) -> Option<(String, String)> {
        match &self.0 {
            Reason::MissingParent { parent, child } => Some((
                format!("error: Could not read {parent}\n"),
                format!("Failed to traverse parents of commit {child}"),
            )),
            Reason::MissingCommit(id) => {
                Some((format!("error: Could not read {id}\n"), format!("unable to parse commit {id}")))
            }
            Reason::Store(error) => error.in_git_words(),
            _ => None,
        }
    }

    /// Whether what a tag points at is missing.
    pub(crate) fn is_missing_target(&self) -> bool {
        matches!(&self.0, Reason::MissingTarget(_))
    }

    /// Whether an object could be read if there is another copy of it or of its delta bases.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(&self.0, Reason::DamagedEntry { .. } | Reason::WrongKind { .. })
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Reason::Missing(_)
            | Reason::MissingTarget(_)
            | Reason::MissingParent { .. }
            | Reason::MissingCommit(_)
            | Reason::MissingTree(_)
            | Reason::Malformed { .. }
            | Reason::WrongKind { .. }
            | Reason::TwoKinds(_)
            | Reason::DamagedEntry { .. }
            | Reason::Unreadable { .. }
            | Reason::UnparsableCommit(_)
            | Reason::DeepChain(_)
            | Reason::DeepTags(_)
            | Reason::DeepTree
            | Reason::CommitLoop => ErrorKind::Corrupt,
            Reason::TooManyObjects | Reason::LargeFilter { .. } => ErrorKind::LimitExceeded,
            Reason::NoPatterns(_) | Reason::BadPatterns(_) => ErrorKind::BadRequest,
            Reason::PackReuseScope(_) | Reason::Threads(_) => ErrorKind::Misconfigured,
            Reason::Cancelled => ErrorKind::Cancelled,
            Reason::Store(error) => match error.kind() {
                packrace_store::ErrorKind::Corrupt => ErrorKind::Corrupt,
                packrace_store::ErrorKind::Refused => ErrorKind::Misconfigured,
                packrace_store::ErrorKind::Conflict => ErrorKind::Conflict,
                _ => ErrorKind::Unavailable,
            },
        }
    }
}

impl From<packrace_store::Error> for Error {
    fn from(error: packrace_store::Error) -> Self {
        Error(Reason::Store(error))
    }
}
