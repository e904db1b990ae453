use std::collections::HashMap;
use std::sync::Arc;

use super::finding::Finding;
use super::message::MessageId as Id;
use super::report::{Report, Rules};
use super::special_name::SpecialFile;
use super::{gitmodules, header, tree_check};
use crate::{HashKind, Kind, ObjectId, oid};

/// Git reads no longer `.gitattributes` files.
const MAX_ATTRIBUTES_BYTES: usize = 100 << 20;

/// Git ignores lines of `.gitattributes` from this length on.
const MAX_ATTRIBUTES_LINE_BYTES: usize = 2048;

/// An object that a tree names as a special file, with content not checked yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pending {
    /// Which file.
    pub file: SpecialFile,
    /// The object.
    pub id: ObjectId,
}

/// The content of the object of a [`Pending`] file.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// A blob with this content.
    Blob(&'a [u8]),
    /// A blob too large to be held in memory (`core.bigFileThreshold`).
    TooLarge,
    /// An object of another kind.
    OtherKind,
    /// The object does not exist.
    Missing,
}

/// Checks objects one by one; each thread has one. [`Checker::merge`] combines what they know of special
/// files.
#[derive(Debug, Clone)]
pub struct Checker {
    rules: Arc<Rules>,
    hash: HashKind,
    /// Objects that trees name as special files, and which checks they had.
    files: HashMap<ObjectId, Uses>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    named: [bool; 2],
    checked: [bool; 2],
}

impl Checker {
    /// A checker without input.
    pub fn new(rules: Arc<Rules>, hash: HashKind) -> Self {
        Checker { rules, hash, files: HashMap::new() }
    }

    /// The findings about an object; a blob has none before a tree names it as a special file.
    pub fn check(&mut self, kind: Kind, id: &oid, content: &[u8]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut report = Report::new(&self.rules, id, &mut findings);
        match kind {
            // An error ends the checks of a header: the rest cannot be parsed reliably.
            Kind::Commit => drop(header::check_commit(content, self.hash, &mut report)),
            Kind::Tag => drop(header::check_tag(content, self.hash, &mut report)),
            Kind::Tree => {
                let files = &mut self.files;
                tree_check::check(content, self.hash, &mut report, |file, id| {
                    files.entry(id.to_owned()).or_default().named[file as usize] = true;
                });
            }
            Kind::Blob => self.check_named_blob(id, Content::Blob(content), &mut findings),
        }
        findings
    }

    /// The findings about a blob too large to be held in memory.
    pub fn check_large_blob(&mut self, id: &oid) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.check_named_blob(id, Content::TooLarge, &mut findings);
        findings
    }

    fn check_named_blob(&mut self, id: &oid, content: Content<'_>, findings: &mut Vec<Finding>) {
        if self.files.is_empty() {
            return;
        }
        let Some(uses) = self.files.get_mut(id) else { return };
        for file in [SpecialFile::Modules, SpecialFile::Attributes] {
            if uses.named[file as usize] && !std::mem::replace(&mut uses.checked[file as usize], true) {
                check_file(file, content, &mut Report::new(&self.rules, id, findings));
            }
        }
    }

    /// Adds another checker's knowledge of special files.
    pub fn merge(&mut self, other: Checker) {
        for (id, theirs) in other.files {
            let uses = self.files.entry(id).or_default();
            for file in 0..2 {
                uses.named[file] |= theirs.named[file];
                uses.checked[file] |= theirs.checked[file];
            }
        }
    }

    /// Objects named as special files whose content is still to be checked: by file, then by id.
    pub fn pending(&self) -> Vec<Pending> {
        let mut pending = Vec::new();
        for (id, uses) in &self.files {
            for file in [SpecialFile::Modules, SpecialFile::Attributes] {
                if uses.named[file as usize] && !uses.checked[file as usize] {
                    pending.push(Pending { file, id: *id });
                }
            }
        }
        pending.sort_unstable();
        pending
    }

    /// The findings about a special file. For a missing `.gitmodules`, `git index-pack` does not run this
    /// check: it prints the id on standard output and leaves the check to its caller.
    pub fn check_pending(&self, pending: Pending, content: Content<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        check_file(pending.file, content, &mut Report::new(&self.rules, &pending.id, &mut findings));
        findings
    }
}

fn check_file(file: SpecialFile, content: Content<'_>, report: &mut Report<'_>) {
    match (file, content) {
        (SpecialFile::Modules, Content::Blob(text)) => gitmodules::check(text, report),
        (SpecialFile::Modules, Content::TooLarge) => {
            report.note(Id::GitmodulesLarge, b".gitmodules too large to parse".as_slice());
        }
        (SpecialFile::Modules, Content::OtherKind) => {
            report.note(Id::GitmodulesBlob, b"non-blob found at .gitmodules".as_slice());
        }
        (SpecialFile::Modules, Content::Missing) => {
            report.note(Id::GitmodulesMissing, b"unable to read .gitmodules blob".as_slice());
        }
        (SpecialFile::Attributes, Content::Blob(text)) if text.len() <= MAX_ATTRIBUTES_BYTES => {
            check_attributes(text, report);
        }
        (SpecialFile::Attributes, Content::Blob(_) | Content::TooLarge) => {
            report.note(Id::GitattributesLarge, b".gitattributes too large to parse".as_slice());
        }
        (SpecialFile::Attributes, Content::OtherKind) => {
            report.note(Id::GitattributesBlob, b"non-blob found at .gitattributes".as_slice());
        }
        (SpecialFile::Attributes, Content::Missing) => {
            report.note(Id::GitattributesMissing, b"unable to read .gitattributes blob".as_slice());
        }
    }
}

/// Checks the text up to the first NUL, as git does.
fn check_attributes(text: &[u8], report: &mut Report<'_>) {
    let text = &text[..memchr::memchr(0, text).unwrap_or(text.len())];
    let mut line_start = 0;
    for line_end in memchr::memchr_iter(b'\n', text).chain([text.len()]) {
        if line_end - line_start >= MAX_ATTRIBUTES_LINE_BYTES {
            let words = b".gitattributes has too long lines to parse".as_slice();
            return report.note(Id::GitattributesLineLength, words);
        }
        line_start = line_end + 1;
    }
}
