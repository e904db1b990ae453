use std::collections::HashMap;
use std::sync::Arc;

use super::finding::Finding;
use super::message::MessageId as Id;
use super::report::{Report, Rules};
use super::special_name::SpecialFile;
use super::{gitmodules, header, tree_check};
use crate::{HashKind, Kind, ObjectId, oid};

/// Git reads no longer `.gitattributes`.
const MAX_ATTRIBUTES_BYTES: usize = 100 << 20;

/// Git reads no lines of `.gitattributes` that are as long as this.
const MAX_ATTRIBUTES_LINE_BYTES: usize = 2048;

/// A tree names this object as a file that git reads, and its content was not seen since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pending {
    /// As which file.
    pub file: SpecialFile,
    /// The object.
    pub id: ObjectId,
}

/// What there is under the id of a [`Pending`] file.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// This blob.
    Blob(&'a [u8]),
    /// A blob that is too large to be held in memory (`core.bigFileThreshold`).
    TooLarge,
    /// An object of another kind.
    OtherKind,
    /// There is no such object.
    Missing,
}

/// Checks objects one by one. One a thread; what they know of files that git reads is put together with
/// [`Checker::merge`].
#[derive(Debug, Clone)]
pub struct Checker {
    rules: Arc<Rules>,
    hash: HashKind,
    /// Files that git reads, and as which they were named and checked. Only named ones are in here.
    files: HashMap<ObjectId, Uses>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    named: [bool; 2],
    checked: [bool; 2],
}

impl Checker {
    /// One that has seen nothing yet.
    pub fn new(rules: Arc<Rules>, hash: HashKind) -> Self {
        Checker { rules, hash, files: HashMap::new() }
    }

    /// What is wrong with an object. Of a blob nothing is known to be wrong before a tree names it as a file that git reads.
    pub fn check(&mut self, kind: Kind, id: &oid, content: &[u8]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut report = Report::new(&self.rules, id, &mut findings);
        match kind {
            // An error ends the checks of a header: what follows it cannot be told apart any more.
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

    /// What is wrong with a blob that is not held in memory.
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

    /// Takes over what another one knows of files that git reads.
    pub fn merge(&mut self, other: Checker) {
        for (id, theirs) in other.files {
            let uses = self.files.entry(id).or_default();
            for file in 0..2 {
                uses.named[file] |= theirs.named[file];
                uses.checked[file] |= theirs.checked[file];
            }
        }
    }

    /// What was named as a file that git reads, and still needs its content looked at: by file, then by id.
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

    /// What is wrong with a file that git reads. `git index-pack` does not ask this of a missing `.gitmodules`: it leaves
    /// that to whoever called it, and tells the id on standard output.
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

/// As git does, up to the first NUL.
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
