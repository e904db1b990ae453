//! What git says of a pack whose objects contradict each other on the kind of one. That depends on the order in which git meets
//! them, so this goes through the pack once more.

use std::collections::HashMap;

use packrace_object::fsck::links;
use packrace_object::{HashKind, Kind, ObjectId, oid};
use packrace_store::{Error, ObjectReader};

/// The first contradiction, in git's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contradiction {
    /// Lines for standard error.
    pub(super) lines: Vec<u8>,
    /// The error itself.
    pub(super) words: String,
}

/// Which program meets the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// Looks at the links of each object at once.
    IndexPack,
    /// Looks at links of trees at the end.
    UnpackObjects,
}

/// The objects of a pack.
pub(super) struct Objects<'a> {
    pub(super) hash: HashKind,
    /// Their names, as they are in the pack.
    pub(super) in_order: &'a [&'a oid],
    pub(super) reader: &'a mut ObjectReader,
    /// Commits whose parents do not count.
    pub(super) shallow: &'a [ObjectId],
    /// Whether links of trees count.
    pub(super) follows_trees: bool,
}

impl Objects<'_> {
    /// `None` if no object of the pack contradicts another one.
    pub(super) fn contradiction(&mut self, program: Program) -> Result<Option<Contradiction>, Error> {
        let mut met = Met::default();
        let at_once = self.follows_trees && program == Program::IndexPack;
        for id in self.in_order {
            let Some(kind) = self.reader.kind(id)? else { continue };
            if let Err(line) = met.meet(id, kind) {
                let words = match (kind, program) {
                    (Kind::Blob, Program::IndexPack) => format!("invalid blob object {id}"),
                    (Kind::Blob, Program::UnpackObjects) => "invalid blob object".to_owned(),
                    _ => format!("invalid {kind}"),
                };
                return Ok(Some(Contradiction { lines: line.into_bytes(), words }));
            }
            let found = match kind {
                Kind::Blob => None,
                Kind::Tree if at_once => self.wrong_link(id, kind, &mut met)?,
                Kind::Tree => None,
                Kind::Commit | Kind::Tag => self.wrong_link(id, kind, &mut met)?,
            };
            if let Some((line, to, as_kind)) = found {
                let (more, words) = match (kind, as_kind) {
                    (Kind::Commit, Kind::Tree) => {
                        (format!("bad tree pointer {to} in commit {id}"), "invalid commit")
                    }
                    (Kind::Commit, _) => (format!("bad parent {to} in commit {id}"), "invalid commit"),
                    (Kind::Tag, _) => (format!("bad tag pointer to {to} in {id}"), "invalid tag"),
                    _ => {
                        let words = format!("Not all child objects of {id} are reachable");
                        return Ok(Some(Contradiction { lines: line.into_bytes(), words }));
                    }
                };
                let lines = format!("{line}error: {more}\n").into_bytes();
                return Ok(Some(Contradiction { lines, words: words.to_owned() }));
            }
        }
        if self.follows_trees && !at_once { self.contradiction_of_trees(&mut met) } else { Ok(None) }
    }

    fn contradiction_of_trees(&mut self, met: &mut Met) -> Result<Option<Contradiction>, Error> {
        for id in self.in_order {
            if self.reader.kind(id)? == Some(Kind::Tree)
                && let Some((line, ..)) = self.wrong_link(id, Kind::Tree, met)?
            {
                let words = format!("Error on reachable objects of {id}");
                return Ok(Some(Contradiction { lines: line.into_bytes(), words }));
            }
        }
        Ok(None)
    }

    /// The first link of an object to one that was met as another kind: a line for standard error, where it leads, and as what.
    fn wrong_link(
        &mut self,
        id: &oid,
        kind: Kind,
        met: &mut Met,
    ) -> Result<Option<(String, ObjectId, Kind)>, Error> {
        let is_cut = kind == Kind::Commit && self.shallow.binary_search_by(|cut| (**cut).cmp(id)).is_ok();
        let content = self.reader.read(id)?.data;
        let mut wrong = None;
        // An unreadable object has no links.
        let _ = links(kind, &content, self.hash, |to, as_kind| {
            if wrong.is_none()
                && !(is_cut && as_kind == Kind::Commit)
                && let Err(line) = met.meet(to, as_kind)
            {
                wrong = Some((line, to.to_owned(), as_kind));
            }
        });
        Ok(wrong)
    }
}

/// The kinds of objects that were met, or named.
#[derive(Default)]
struct Met(HashMap<ObjectId, Kind>);

impl Met {
    /// Fails with a line for standard error if it was met as another kind.
    fn meet(&mut self, id: &oid, kind: Kind) -> Result<(), String> {
        let known = *self.0.entry(id.to_owned()).or_insert(kind);
        if known == kind { Ok(()) } else { Err(format!("error: object {id} is a {known}, not a {kind}\n")) }
    }
}
