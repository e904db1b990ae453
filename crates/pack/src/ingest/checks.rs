//! Checks objects of a pack beyond readability: git's fsck, and whether linked objects exist.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use packrace_format::pack_index::Entry;
use packrace_object::fsck::{Checker, Content, Finding, Pending, Rules, SpecialFile, links, readable};
use packrace_object::{HashKind, Kind, ObjectId, oid};
use packrace_store::{ObjectReader, Snapshot, cache_bytes};

use super::contradiction::{Objects, Program};
use super::error::IngestReason;

/// Where git finds what it finds when all objects are there.
const AT_END: &str = "pack objects";

/// Which checks to run on objects.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    /// The rules of fsck.
    pub rules: Option<Arc<Rules>>,
    /// Whether linked objects must exist, in the pack or in the repository.
    pub links: bool,
    /// Whether to list what objects link to, see [`CheckResults::linked`].
    pub lists_links: bool,
    /// Commits whose parents need not exist: the shallow boundary, sorted.
    pub shallow: Vec<ObjectId>,
}

/// The findings in an accepted pack.
#[derive(Debug, Clone, Default)]
pub struct CheckResults {
    /// Warnings, as lines for standard error.
    pub warnings: Vec<u8>,
    /// Objects that trees name as `.gitmodules` and that are missing: the caller must check them.
    pub missing_modules: Vec<ObjectId>,
    /// Whether an object of the pack links to one outside.
    pub leaves_pack: bool,
    /// If asked for, the commits, trees and tags that objects of the pack link to, what tags link to, and the bases that
    /// completed the pack. They may be in the pack, and need not exist.
    pub linked: Vec<ObjectId>,
}

/// A link to an object of another kind.
struct WrongLink {
    to: ObjectId,
    expected: Kind,
    found: Kind,
}

/// Checks objects one by one; each thread has one.
pub(super) struct Inspector {
    hash: HashKind,
    checker: Option<Checker>,
    looks_at_links: bool,
    shallow: Vec<ObjectId>,
    /// Linked objects, with the kind that each must have.
    linked: HashMap<ObjectId, Kind>,
    /// A link to an object that another one links to as another kind.
    contradiction: Option<WrongLink>,
    /// The same objects for [`CheckResults::linked`], if asked for.
    listed: Option<HashSet<ObjectId>>,
    /// The inspected objects of the pack.
    kinds: HashMap<ObjectId, Kind>,
    lines: Vec<u8>,
}

impl Inspector {
    pub(super) fn new(checks: &Checks, hash: HashKind) -> Self {
        let checker = checks.rules.as_ref().map(|rules| Checker::new(rules.clone(), hash));
        Inspector {
            hash,
            checker,
            looks_at_links: checks.links,
            shallow: checks.shallow.clone(),
            linked: HashMap::new(),
            contradiction: None,
            listed: checks.lists_links.then(HashSet::new),
            kinds: HashMap::new(),
            lines: Vec::new(),
        }
    }

    /// Notes the kind of an object that needs no other check.
    pub(super) fn note_kind(&mut self, id: &oid, kind: Kind) {
        if self.looks_at_links {
            self.kinds.insert(id.to_owned(), kind);
        }
    }

    pub(super) fn inspect(&mut self, kind: Kind, id: &oid, content: &[u8]) -> Result<(), IngestReason> {
        if let Some(listed) = &mut self.listed {
            // As in git, blobs of trees do not count: looking up each of them takes too long.
            let _ = links(kind, content, self.hash, |id, to| {
                if kind == Kind::Tag || to != Kind::Blob {
                    listed.insert(id.to_owned());
                }
            });
        }
        if self.checker.is_none() && !self.looks_at_links {
            return Ok(());
        }
        if let Err(unreadable) = readable(kind, id, content, self.hash) {
            let mut lines = std::mem::take(&mut self.lines);
            if let Some(why) = unreadable.why {
                lines.extend_from_slice(&[b"error: ", &why[..], b"\n"].concat());
            }
            return Err(IngestReason::Unreadable { kind, lines });
        }
        if let Some(checker) = &mut self.checker {
            let findings = checker.check(kind, id, content);
            self.report(&findings, "packed object", kind == Kind::Blob)?;
        }
        match kind {
            _ if self.looks_at_links => {}
            // Of links of trees nothing is known but that they must lead somewhere.
            Kind::Tree => {
                self.kinds.insert(id.to_owned(), kind);
                return Ok(());
            }
            Kind::Blob => return Ok(()),
            Kind::Commit | Kind::Tag => {}
        }
        self.kinds.insert(id.to_owned(), kind);
        let (linked, contradiction) = (&mut self.linked, &mut self.contradiction);
        let is_cut = kind == Kind::Commit && self.shallow.binary_search_by(|cut| (**cut).cmp(id)).is_ok();
        // An unreadable object has no links; fsck reports it.
        let _ = links(kind, content, self.hash, |id, kind| match linked.get(id) {
            _ if is_cut && kind == Kind::Commit => {}
            Some(known) if *known == kind => {}
            Some(known) => {
                *contradiction = Some(WrongLink { to: id.to_owned(), expected: kind, found: *known });
            }
            None => drop(linked.insert(id.to_owned(), kind)),
        });
        Ok(())
    }

    fn report(
        &mut self,
        findings: &[Finding],
        place: &'static str,
        is_of_blob: bool,
    ) -> Result<(), IngestReason> {
        findings.iter().for_each(|finding| finding.write_line(&mut self.lines));
        if findings.iter().any(|finding| finding.severity.is_error()) {
            // `unpack-objects` checks the contents of blobs last.
            let place_of_unpacking = if is_of_blob { AT_END } else { place };
            let lines = std::mem::take(&mut self.lines);
            return Err(IngestReason::Fsck { lines, place, place_of_unpacking });
        }
        Ok(())
    }

    /// Merges the findings of another inspector.
    pub(super) fn merge(&mut self, mut other: Inspector) {
        if let (Some(own), Some(theirs)) = (&mut self.checker, other.checker.take()) {
            own.merge(theirs);
        }
        self.lines.append(&mut other.lines);
        self.kinds.extend(other.kinds);
        self.contradiction = self.contradiction.take().or(other.contradiction);
        if let Some(listed) = &mut self.listed {
            listed.extend(other.listed.into_iter().flatten());
        }
        for (id, kind) in other.linked {
            let found = *self.linked.entry(id).or_insert(kind);
            if found != kind {
                self.contradiction = Some(WrongLink { to: id, expected: kind, found });
            }
        }
    }

    /// Runs the checks that need all objects; `entries` are the pack's entries, sorted by id.
    pub(super) fn finish(
        mut self,
        entries: &[Entry],
        pack: &mut dyn FnMut() -> Result<Arc<Snapshot>, IngestReason>,
        existing: Option<&Arc<Snapshot>>,
    ) -> Result<CheckResults, IngestReason> {
        let in_pack = |id: &oid| entries.binary_search_by(|entry| (*entry.id).cmp(id)).is_ok();
        let mut existing = existing.map(|snapshot| snapshot.reader(cache_bytes::FEW_OBJECTS));
        let pending = self.checker.as_ref().map(Checker::pending).unwrap_or_default();
        let mut missing_modules = Vec::new();
        let mut ours = None;
        for pending in pending {
            let findings = if in_pack(&pending.id) {
                if ours.is_none() {
                    ours = Some(pack()?.reader(cache_bytes::FEW_OBJECTS));
                }
                self.look_at(pending, ours.as_mut())?
            } else {
                self.look_at(pending, existing.as_mut())?
            };
            match findings {
                Some(findings) => self.report(&findings, AT_END, true)?,
                None => missing_modules.push(pending.id),
            }
        }
        if let Some(wrong) = &self.contradiction {
            return Err(self.contradiction_in(entries, pack, wrong)?);
        }
        let mut leaves_pack = false;
        for (id, expected) in &self.linked {
            if let Some(found) = self.kind_in_pack(id, &in_pack, &mut ours, pack)? {
                if found != *expected {
                    let wrong = WrongLink { to: *id, expected: *expected, found };
                    return Err(self.contradiction_in(entries, pack, &wrong)?);
                }
                continue;
            }
            if !self.looks_at_links {
                continue;
            }
            leaves_pack = true;
            let found = existing.as_mut().map_or(Ok(None), |reader| reader.kind(id))?;
            match found {
                Some(found) if found == *expected => {}
                Some(found) => return Err(IngestReason::WrongKind { id: *id, expected: *expected, found }),
                None => return Err(IngestReason::NotReceived(*id)),
            }
        }
        let linked = self.listed.into_iter().flatten().collect();
        Ok(CheckResults { warnings: self.lines, missing_modules, leaves_pack, linked })
    }

    /// What git says of a wrong link.
    fn contradiction_in(
        &self,
        entries: &[Entry],
        pack: &mut dyn FnMut() -> Result<Arc<Snapshot>, IngestReason>,
        wrong: &WrongLink,
    ) -> Result<IngestReason, IngestReason> {
        let mut entries: Vec<&Entry> = entries.iter().collect();
        entries.sort_unstable_by_key(|entry| entry.offset);
        let in_order: Vec<&oid> = entries.iter().map(|entry| &*entry.id).collect();
        let mut objects = Objects {
            hash: self.hash,
            in_order: &in_order,
            reader: &mut pack()?.reader(cache_bytes::MANY_OBJECTS),
            shallow: &self.shallow,
            follows_trees: self.looks_at_links,
        };
        let indexing = objects.contradiction(Program::IndexPack)?;
        let unpacking = objects.contradiction(Program::UnpackObjects)?;
        Ok(match indexing.zip(unpacking) {
            Some((indexing, unpacking)) => IngestReason::Contradiction { indexing, unpacking },
            // What completed the pack is no part of it for git.
            None => IngestReason::WrongKind { id: wrong.to, expected: wrong.expected, found: wrong.found },
        })
    }

    /// The kind of an object of the pack, which `ours` reads; `None` if the pack lacks it.
    fn kind_in_pack(
        &self,
        id: &oid,
        in_pack: &dyn Fn(&oid) -> bool,
        ours: &mut Option<ObjectReader>,
        pack: &mut dyn FnMut() -> Result<Arc<Snapshot>, IngestReason>,
    ) -> Result<Option<Kind>, IngestReason> {
        if let Some(kind) = self.kinds.get(id) {
            return Ok(Some(*kind));
        }
        if !in_pack(id) {
            return Ok(None);
        }
        // The objects that completed the pack were not inspected.
        let reader = match ours {
            Some(reader) => reader,
            None => ours.insert(pack()?.reader(cache_bytes::FEW_OBJECTS)),
        };
        Ok(reader.kind(id)?)
    }

    /// Checks a file that git reads; `None` if a `.gitmodules` is missing.
    fn look_at(
        &self,
        pending: Pending,
        reader: Option<&mut ObjectReader>,
    ) -> Result<Option<Vec<Finding>>, IngestReason> {
        /// Git reads no longer files of this kind.
        const MAX_BYTES: u64 = 512 << 20;
        let Some(checker) = &self.checker else { return Ok(None) };
        let Some(reader) = reader else { return Ok(None) };
        let found = reader.kind_and_size(&pending.id)?;
        Ok(match found {
            None if pending.file == SpecialFile::Modules => None,
            None => Some(checker.check_pending(pending, Content::Missing)),
            Some((Kind::Blob, size)) if size > MAX_BYTES => {
                Some(checker.check_pending(pending, Content::TooLarge))
            }
            Some((Kind::Blob, _)) => {
                let blob = reader.read(&pending.id)?;
                Some(checker.check_pending(pending, Content::Blob(&blob.data)))
            }
            Some(_) => Some(checker.check_pending(pending, Content::OtherKind)),
        })
    }
}
