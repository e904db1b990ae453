use packrace_object::{Kind, ObjectId};

use super::contradiction::Contradiction;

/// What a caller can do about an [`IngestError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IngestErrorKind {
    /// The pack is damaged or an attack; the same bytes will fail again.
    BadPack,
    /// The pack exceeds a limit set by the caller.
    LimitExceeded,
    /// The store could not be read or written.
    Unavailable,
    /// The caller cancelled the work.
    Cancelled,
}

/// Why a pack was refused, in git's words where git has words.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct IngestError(#[from] IngestReason);

#[derive(Debug, thiserror::Error)]
pub(crate) enum IngestReason {
    #[error("early EOF")]
    CutOff,
    #[error("pack signature mismatch")]
    Signature,
    #[error("pack version {0} unsupported")]
    Version(u32),
    #[error("pack exceeds maximum allowed size ({0})")]
    TooLarge(String),
    #[error("pack has {announced} objects, more than the {max} that are allowed")]
    ManyObjects { announced: u32, max: u32 },
    #[error("objects of the pack exceed maximum allowed unpacked size ({0})")]
    Unpacked(String),
    #[error("pack has bad object at offset {offset}: {what}")]
    BadObject { offset: u64, what: String },
    #[error("pack is corrupted ({} mismatch)", .0.to_string().to_uppercase().replace("SHA-", "SHA"))]
    Checksum(packrace_object::HashKind),
    #[error("pack has junk at the end")]
    Junk,
    #[error("pack has {0} unresolved delta{plural}", plural = if *.0 == 1 { "" } else { "s" })]
    Unresolved(u64),
    #[error("REF_DELTA at offset {offset} already resolved (duplicate base {base}?)")]
    TwoBases { offset: u64, base: ObjectId },
    #[error("pack has more than 4294967295 objects")]
    TooManyObjects,
    #[error("SHA1 COLLISION FOUND WITH {0} !")]
    Collision(ObjectId),
    #[error("The same object {0} appears twice in the pack")]
    Twice(ObjectId),
    #[error("pack has bad object at offset {0}: SHA-1 appears to be part of a collision attack")]
    CollisionAttack(u64),
    #[error("SHA-1 of the pack appears to be part of a collision attack")]
    PackCollisionAttack,
    #[error("fsck error in {place}")]
    Fsck { lines: Vec<u8>, place: &'static str, place_of_unpacking: &'static str },
    #[error("invalid {kind}")]
    Unreadable { kind: Kind, lines: Vec<u8> },
    #[error("object {id}: expected type {expected}, found {found}")]
    WrongKind { id: ObjectId, expected: Kind, found: Kind },
    #[error("{}", .indexing.words)]
    Contradiction { indexing: Contradiction, unpacking: Contradiction },
    #[error("did not receive expected object {0}")]
    NotReceived(ObjectId),
    #[error("cannot read existing object {0}")]
    Existing(ObjectId),
    #[error("local object {0} is corrupt")]
    CorruptBase(ObjectId),
    #[error("cancelled: nobody is waiting for the pack")]
    Cancelled,
    #[error(transparent)]
    Store(#[from] packrace_store::Error),
}

impl IngestError {
    /// What the caller can do.
    pub fn kind(&self) -> IngestErrorKind {
        match &self.0 {
            IngestReason::TooLarge(_) | IngestReason::ManyObjects { .. } | IngestReason::Unpacked(_) => {
                IngestErrorKind::LimitExceeded
            }
            IngestReason::Store(_) | IngestReason::Existing(_) | IngestReason::CorruptBase(_) => {
                IngestErrorKind::Unavailable
            }
            IngestReason::Cancelled => IngestErrorKind::Cancelled,
            _ => IngestErrorKind::BadPack,
        }
    }
}

impl IngestError {
    /// Whether the checks of objects found it.
    pub fn is_of_fsck(&self) -> bool {
        matches!(self.0, IngestReason::Fsck { .. } | IngestReason::Contradiction { .. })
    }

    /// Lines about objects, to print on standard error before the error.
    pub fn lines(&self) -> &[u8] {
        match &self.0 {
            IngestReason::Fsck { lines, .. } | IngestReason::Unreadable { lines, .. } => lines,
            IngestReason::Contradiction { indexing, .. } => &indexing.lines,
            _ => &[],
        }
    }

    /// The same if `unpack-objects` is to be told of.
    pub fn lines_of_unpacking(&self) -> &[u8] {
        match &self.0 {
            IngestReason::Contradiction { unpacking, .. } => &unpacking.lines,
            _ => self.lines(),
        }
    }
}

/// Why a pack was not unpacked, in the words of git's `unpack-objects`, which differ from `index-pack`'s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unpacking {
    /// A broken object: git reports it and exits with 1, unless it recovers what it can.
    BadObject(String),
    /// Any other error: git exits with 128.
    Fatal(String),
}

impl IngestError {
    /// The error in the words of `unpack-objects`.
    pub fn of_unpacking(&self) -> Unpacking {
        let words = match &self.0 {
            IngestReason::Signature => "bad pack file".to_owned(),
            IngestReason::Version(version) => format!("unknown pack file version {version}"),
            IngestReason::TooLarge(_) => "pack exceeds maximum allowed size".to_owned(),
            IngestReason::Checksum(_) => "final sha1 did not match".to_owned(),
            IngestReason::Unresolved(_) => "unresolved deltas left after unpacking".to_owned(),
            IngestReason::WrongKind { .. } | IngestReason::NotReceived(_) => {
                "object of unexpected type".to_owned()
            }
            IngestReason::Contradiction { unpacking, .. } => unpacking.words.clone(),
            IngestReason::Fsck { place_of_unpacking, .. } => format!("fsck error in {place_of_unpacking}"),
            IngestReason::BadObject { what, .. } => match what.strip_prefix("unknown object type") {
                Some(kind) => return Unpacking::BadObject(format!("bad object type{kind}")),
                None if what.starts_with("inflate ") => return Unpacking::BadObject(what.clone()),
                None if what.starts_with("delta base offset") => {
                    "offset value out of bound for delta base object".to_owned()
                }
                None => what.clone(),
            },
            reason => reason.to_string(),
        };
        Unpacking::Fatal(words)
    }
}

impl From<packrace_store::Error> for IngestError {
    fn from(error: packrace_store::Error) -> Self {
        IngestReason::Store(error).into()
    }
}

impl IngestReason {
    pub(super) fn bad_object(offset: u64, what: impl Into<String>) -> Self {
        IngestReason::BadObject { offset, what: what.into() }
    }
}

impl From<IngestError> for IngestReason {
    fn from(error: IngestError) -> Self {
        error.0
    }
}
