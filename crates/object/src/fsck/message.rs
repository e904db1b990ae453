//! The ids of fsck's messages, and their default severities (git-fsck, "FSCK MESSAGES").

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Not reported.
    Ignore,
    /// Reported as a warning, even by strict checks.
    Info,
    /// Reported as a warning; an error in strict checks.
    Warn,
    /// The object is rejected.
    Error,
    /// An error that no setting can demote.
    Fatal,
}

impl Severity {
    /// Whether the object is rejected.
    pub fn is_error(self) -> bool {
        self >= Severity::Error
    }

    /// The first word of a finding's line.
    pub fn word(self) -> &'static str {
        if self.is_error() { "error" } else { "warning" }
    }
}

/// The possible problems. Messages about refs are included because settings may name them; no check of an
/// object reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are git's, and its documentation says what they mean")]
pub enum MessageId {
    BadDate,
    BadDateOverflow,
    BadEmail,
    BadFilemode,
    BadGpgsig,
    BadHeadTarget,
    BadHeaderContinuation,
    BadName,
    BadObjectSha1,
    BadPackedRefEntry,
    BadPackedRefHeader,
    BadParentSha1,
    BadRefContent,
    BadRefFiletype,
    BadRefName,
    BadRefOid,
    BadReferentName,
    BadReftableTableName,
    BadTagName,
    BadTimezone,
    BadTree,
    BadTreeSha1,
    BadType,
    DuplicateEntries,
    EmptyName,
    EmptyPackedRefsFile,
    ExtraHeaderEntry,
    FullPathname,
    GitattributesBlob,
    GitattributesLarge,
    GitattributesLineLength,
    GitattributesMissing,
    GitattributesSymlink,
    GitignoreSymlink,
    GitmodulesBlob,
    GitmodulesLarge,
    GitmodulesMissing,
    GitmodulesName,
    GitmodulesParse,
    GitmodulesPath,
    GitmodulesSymlink,
    GitmodulesUpdate,
    GitmodulesUrl,
    HasDot,
    HasDotdot,
    HasDotgit,
    LargePathname,
    MailmapSymlink,
    MissingAuthor,
    MissingCommitter,
    MissingEmail,
    MissingNameBeforeEmail,
    MissingObject,
    MissingSpaceBeforeDate,
    MissingSpaceBeforeEmail,
    MissingTag,
    MissingTagEntry,
    MissingTaggerEntry,
    MissingTree,
    MissingType,
    MissingTypeEntry,
    MultipleAuthors,
    NulInCommit,
    NulInHeader,
    NullSha1,
    PackedRefEntryNotTerminated,
    PackedRefUnsorted,
    RefMissingNewline,
    SymlinkRef,
    SymrefTargetIsNotARef,
    TrailingRefContent,
    TreeNotSorted,
    UnknownType,
    UnterminatedHeader,
    ZeroPaddedDate,
    ZeroPaddedFilemode,
}

use MessageId as Id;
use Severity::{Error, Fatal, Ignore, Info, Warn};

/// Each id with its name and severity, in the order of the ids.
const MESSAGES: [(MessageId, &str, Severity); 76] = [
    (Id::BadDate, "badDate", Error),
    (Id::BadDateOverflow, "badDateOverflow", Error),
    (Id::BadEmail, "badEmail", Error),
    (Id::BadFilemode, "badFilemode", Info),
    (Id::BadGpgsig, "badGpgsig", Error),
    (Id::BadHeadTarget, "badHeadTarget", Error),
    (Id::BadHeaderContinuation, "badHeaderContinuation", Error),
    (Id::BadName, "badName", Error),
    (Id::BadObjectSha1, "badObjectSha1", Error),
    (Id::BadPackedRefEntry, "badPackedRefEntry", Error),
    (Id::BadPackedRefHeader, "badPackedRefHeader", Error),
    (Id::BadParentSha1, "badParentSha1", Error),
    (Id::BadRefContent, "badRefContent", Error),
    (Id::BadRefFiletype, "badRefFiletype", Error),
    (Id::BadRefName, "badRefName", Error),
    (Id::BadRefOid, "badRefOid", Error),
    (Id::BadReferentName, "badReferentName", Error),
    (Id::BadReftableTableName, "badReftableTableName", Warn),
    (Id::BadTagName, "badTagName", Info),
    (Id::BadTimezone, "badTimezone", Error),
    (Id::BadTree, "badTree", Error),
    (Id::BadTreeSha1, "badTreeSha1", Error),
    (Id::BadType, "badType", Error),
    (Id::DuplicateEntries, "duplicateEntries", Error),
    (Id::EmptyName, "emptyName", Warn),
    (Id::EmptyPackedRefsFile, "emptyPackedRefsFile", Info),
    (Id::ExtraHeaderEntry, "extraHeaderEntry", Ignore),
    (Id::FullPathname, "fullPathname", Warn),
    (Id::GitattributesBlob, "gitattributesBlob", Error),
    (Id::GitattributesLarge, "gitattributesLarge", Error),
    (Id::GitattributesLineLength, "gitattributesLineLength", Error),
    (Id::GitattributesMissing, "gitattributesMissing", Error),
    (Id::GitattributesSymlink, "gitattributesSymlink", Info),
    (Id::GitignoreSymlink, "gitignoreSymlink", Info),
    (Id::GitmodulesBlob, "gitmodulesBlob", Error),
    (Id::GitmodulesLarge, "gitmodulesLarge", Error),
    (Id::GitmodulesMissing, "gitmodulesMissing", Error),
    (Id::GitmodulesName, "gitmodulesName", Error),
    (Id::GitmodulesParse, "gitmodulesParse", Info),
    (Id::GitmodulesPath, "gitmodulesPath", Error),
    (Id::GitmodulesSymlink, "gitmodulesSymlink", Error),
    (Id::GitmodulesUpdate, "gitmodulesUpdate", Error),
    (Id::GitmodulesUrl, "gitmodulesUrl", Error),
    (Id::HasDot, "hasDot", Warn),
    (Id::HasDotdot, "hasDotdot", Warn),
    (Id::HasDotgit, "hasDotgit", Warn),
    (Id::LargePathname, "largePathname", Warn),
    (Id::MailmapSymlink, "mailmapSymlink", Info),
    (Id::MissingAuthor, "missingAuthor", Error),
    (Id::MissingCommitter, "missingCommitter", Error),
    (Id::MissingEmail, "missingEmail", Error),
    (Id::MissingNameBeforeEmail, "missingNameBeforeEmail", Error),
    (Id::MissingObject, "missingObject", Error),
    (Id::MissingSpaceBeforeDate, "missingSpaceBeforeDate", Error),
    (Id::MissingSpaceBeforeEmail, "missingSpaceBeforeEmail", Error),
    (Id::MissingTag, "missingTag", Error),
    (Id::MissingTagEntry, "missingTagEntry", Error),
    (Id::MissingTaggerEntry, "missingTaggerEntry", Info),
    (Id::MissingTree, "missingTree", Error),
    (Id::MissingType, "missingType", Error),
    (Id::MissingTypeEntry, "missingTypeEntry", Error),
    (Id::MultipleAuthors, "multipleAuthors", Error),
    (Id::NulInCommit, "nulInCommit", Warn),
    (Id::NulInHeader, "nulInHeader", Fatal),
    (Id::NullSha1, "nullSha1", Warn),
    (Id::PackedRefEntryNotTerminated, "packedRefEntryNotTerminated", Error),
    (Id::PackedRefUnsorted, "packedRefUnsorted", Error),
    (Id::RefMissingNewline, "refMissingNewline", Info),
    (Id::SymlinkRef, "symlinkRef", Info),
    (Id::SymrefTargetIsNotARef, "symrefTargetIsNotARef", Info),
    (Id::TrailingRefContent, "trailingRefContent", Info),
    (Id::TreeNotSorted, "treeNotSorted", Error),
    (Id::UnknownType, "unknownType", Error),
    (Id::UnterminatedHeader, "unterminatedHeader", Fatal),
    (Id::ZeroPaddedDate, "zeroPaddedDate", Error),
    (Id::ZeroPaddedFilemode, "zeroPaddedFilemode", Warn),
];

impl MessageId {
    /// The number of messages.
    pub(super) const COUNT: usize = MESSAGES.len();

    /// The name used in messages and settings.
    pub fn name(self) -> &'static str {
        MESSAGES[self as usize].1
    }

    /// The id with this name, regardless of case.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        MESSAGES
            .iter()
            .find(|message| message.1.as_bytes().eq_ignore_ascii_case(name))
            .map(|message| message.0)
    }

    /// The severity if no setting changes it.
    pub fn default_severity(self) -> Severity {
        MESSAGES[self as usize].2
    }

    pub(super) fn all() -> impl Iterator<Item = MessageId> {
        MESSAGES.iter().map(|message| message.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_ids() {
        for (at, (id, name, severity)) in MESSAGES.iter().enumerate() {
            assert_eq!((*id as usize, id.name(), id.default_severity()), (at, *name, *severity));
            assert_eq!(MessageId::from_name(name.to_ascii_uppercase().as_bytes()), Some(*id));
        }
        assert_eq!(MessageId::from_name(b"missing-email"), None);
    }
}
