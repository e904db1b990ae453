use packrace_object::ObjectId;

use super::super::{Backend, RefError};
use crate::error::ErrorKind;

/// Why a transaction or one of its edits is impossible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// An edit cannot be made.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    /// The refs cannot be read or written.
    #[error(transparent)]
    Store(#[from] RefError),
    /// Objects of new values cannot be read.
    #[error(transparent)]
    Objects(crate::error::Error),
    /// A hook of a push that is not accepted yet runs this (git-receive-pack, "Quarantine Environment").
    #[error("ref updates forbidden inside quarantine environment")]
    Quarantined,
    /// The hook has vetoed in this state.
    #[error("in '{0}' phase, update aborted by the reference-transaction hook")]
    Vetoed(&'static str),
    /// The hook cannot be run.
    #[error(transparent)]
    Hook(crate::error::Error),
}

impl From<Refusal> for PrepareError {
    fn from(refusal: Refusal) -> Self {
        PrepareError::Refused(Box::new(refusal))
    }
}

impl PrepareError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            PrepareError::Refused(refusal) => refusal.cause.kind(),
            PrepareError::Store(error) => error.kind(),
            PrepareError::Objects(error) | PrepareError::Hook(error) => error.kind(),
            PrepareError::Quarantined | PrepareError::Vetoed(_) => ErrorKind::Refused,
        }
    }
}

/// Why a step cannot be made.
pub(super) struct FailedStep {
    pub(super) step: usize,
    pub(super) cause: Cause,
}

/// An edit that cannot be made. The text is git's, which differs between backends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the edit.
    pub edit: usize,
    /// Its ref.
    pub name: Vec<u8>,
    /// The ref that is the reason: the same, or one that it points to.
    pub target: Vec<u8>,
    /// Why it is refused.
    pub cause: Cause,
    /// The backend that refuses.
    pub backend: Backend,
}

/// Why an edit cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A ref of this name already exists.
    Exists,
    /// A symbolic ref of this name exists, and dangles.
    ExistsDangling,
    /// There is no ref of this name.
    Missing(Vec<u8>),
    /// It dangles, but should resolve to this object.
    Dangling(ObjectId),
    /// It points at another object.
    OtherId {
        /// The object that it points at.
        is: ObjectId,
        /// The expected one.
        expected: ObjectId,
    },
    /// It points to another ref.
    OtherTarget {
        /// Its target.
        is: Vec<u8>,
        /// The expected target.
        expected: Vec<u8>,
    },
    /// It is not symbolic, but should point to this ref.
    NotSymbolic(Vec<u8>),
    /// A ref exists above or below `name` in the directory of refs.
    Conflict {
        /// The ref that cannot be created.
        name: Vec<u8>,
        /// The existing one.
        existing: Vec<u8>,
        /// Whether it shows when the lock is taken: git tells that, and before what is wrong with later refs.
        is_at_lock: bool,
    },
    /// As above, if both are changed now.
    Together {
        /// The ref that cannot be created.
        name: Vec<u8>,
        /// The other one.
        other: Vec<u8>,
        /// As above.
        is_at_lock: bool,
    },
    /// The object does not exist.
    NoObject {
        /// The ref.
        name: Vec<u8>,
        /// The object.
        id: ObjectId,
    },
    /// A branch can only point at a commit.
    NotACommit {
        /// The branch.
        name: Vec<u8>,
        /// The object.
        id: ObjectId,
    },
    /// Its chain of symbolic refs is too long.
    Endless,
    /// Its file cannot be parsed.
    Broken(Vec<u8>),
    /// Another process is changing it; the text says what to do.
    Locked(String),
    /// A directory that is not empty is where the file of the ref would be; the text says so.
    Occupied(String),
    /// Its file is a link that leads to itself, or would be the repository; the text says which.
    Blocked(String),
    /// The ref is changed twice.
    Duplicate {
        /// The ref.
        name: Vec<u8>,
        /// The symbolic ref through which it is changed.
        via: Option<Vec<u8>>,
    },
    /// `HEAD` is changed, and so is this ref, its target.
    DuplicateHead(Vec<u8>),
}

impl Cause {
    /// The text for individually reported refusals (git-update-ref, `--batch-updates`).
    pub fn reason(&self) -> &'static str {
        match self {
            // Git calls a lock file that exists so, too.
            Cause::Exists | Cause::ExistsDangling | Cause::Locked(_) => "reference already exists",
            Cause::Missing(_) | Cause::Dangling(_) => "reference does not exist",
            Cause::OtherId { .. } | Cause::OtherTarget { .. } => "incorrect old value provided",
            Cause::NotSymbolic(_) => "expected symref but found regular ref",
            Cause::Conflict { .. }
            | Cause::Together { .. }
            | Cause::Occupied(_)
            | Cause::Duplicate { via: Some(_), .. }
            | Cause::DuplicateHead(_) => "refname conflict",
            Cause::NoObject { .. } | Cause::NotACommit { .. } => "invalid new value provided",
            Cause::Endless | Cause::Broken(_) | Cause::Blocked(_) | Cause::Duplicate { via: None, .. } => "",
        }
    }

    /// What the caller can do about it. An unexpected value is a conflict: another process changed the ref.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Cause::Exists
            | Cause::ExistsDangling
            | Cause::Missing(_)
            | Cause::Dangling(_)
            | Cause::OtherId { .. }
            | Cause::OtherTarget { .. }
            | Cause::NotSymbolic(_)
            | Cause::Conflict { .. }
            | Cause::Locked(_)
            | Cause::Occupied(_)
            | Cause::Blocked(_) => ErrorKind::Conflict,
            Cause::Endless | Cause::Broken(_) => ErrorKind::Corrupt,
            Cause::Together { .. }
            | Cause::NoObject { .. }
            | Cause::NotACommit { .. }
            | Cause::Duplicate { .. }
            | Cause::DuplicateHead(_) => ErrorKind::Refused,
        }
    }

    /// Whether the other edits of a batch can be made without it.
    pub(super) fn is_for_one(&self) -> bool {
        !self.reason().is_empty()
    }

    /// Whether git finds it only after all refs are locked.
    pub(super) fn is_late(&self) -> bool {
        matches!(self, Cause::Conflict { is_at_lock: false, .. } | Cause::Together { is_at_lock: false, .. })
    }

    /// Among several causes for one edit, the lowest rank is reported.
    pub(super) fn rank(&self) -> i8 {
        match self {
            Cause::NoObject { .. } | Cause::NotACommit { .. } => -1,
            Cause::Locked(_) | Cause::Duplicate { .. } | Cause::DuplicateHead(_) => 0,
            Cause::Missing(_) => 1,
            Cause::Conflict { .. } | Cause::Together { .. } => 2,
            _ => 3,
        }
    }
}

impl std::error::Error for Refusal {}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let asked = text(&self.name);
        let lock_with = |f: &mut std::fmt::Formatter<'_>, words: String, is_lock| match is_lock {
            true => write!(f, "cannot lock ref '{asked}': {words}"),
            false => f.write_str(&words),
        };
        let is_files = self.backend == Backend::Files;
        let lock = |f: &mut std::fmt::Formatter<'_>, words| lock_with(f, words, is_files);
        match &self.cause {
            Cause::Exists => write!(f, "cannot lock ref '{asked}': reference already exists"),
            Cause::ExistsDangling => {
                write!(f, "cannot lock ref '{asked}': dangling symref already exists")
            }
            Cause::Missing(name) => {
                write!(f, "cannot lock ref '{asked}': unable to resolve reference '{}'", text(name))
            }
            Cause::Dangling(expected) => {
                write!(f, "cannot lock ref '{asked}': reference is missing but expected {expected}")
            }
            Cause::OtherId { is, expected } => {
                write!(f, "cannot lock ref '{asked}': is at {is} but expected {expected}")
            }
            Cause::OtherTarget { is, expected } => write!(
                f,
                "verifying symref target: '{asked}': is at {} but expected {}",
                text(is),
                text(expected)
            ),
            Cause::NotSymbolic(expected) => write!(
                f,
                "cannot lock ref '{asked}': expected symref with target '{}': but is a regular ref",
                text(expected)
            ),
            Cause::Conflict { name, existing, is_at_lock } => {
                let words = format!("'{}' exists; cannot create '{}'", text(existing), text(name));
                lock_with(f, words, *is_at_lock)
            }
            Cause::Together { name, other, is_at_lock } => {
                let words = format!("cannot process '{}' and '{}' at the same time", text(name), text(other));
                lock_with(f, words, *is_at_lock)
            }
            Cause::NoObject { name, id } => {
                write!(f, "trying to write ref '{}' with nonexistent object {id}", text(name))
            }
            Cause::NotACommit { name, id } => {
                write!(f, "trying to write non-commit object {id} to branch '{}'", text(name))
            }
            Cause::Endless => write!(f, "cannot lock ref '{asked}': error reading reference"),
            Cause::Broken(name) => {
                lock(f, format!("unable to resolve reference '{}': reference broken", text(name)))
            }
            Cause::Locked(words) | Cause::Occupied(words) | Cause::Blocked(words) => lock(f, words.clone()),
            Cause::DuplicateHead(name) => write!(
                f,
                "multiple updates for 'HEAD' (including one via its referent '{}') are not allowed",
                text(name)
            ),
            Cause::Duplicate { name, via: None } => {
                write!(f, "multiple updates for ref '{}' not allowed", text(name))
            }
            Cause::Duplicate { name, via: Some(via) } => write!(
                f,
                "multiple updates for '{}' (including one via symref '{}') are not allowed",
                text(name),
                text(via)
            ),
        }
    }
}
