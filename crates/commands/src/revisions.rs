//! Object names as `pack-objects --revs` reads them (gitrevisions).
//!
//! Supported: full and abbreviated object names, refs by git's rules for short names, `@`, `^<rev>`,
//! `<rev>..<rev>`, the suffixes `~<n>`, `^<n>`, `^{<type>}` and `^{}`, and `<rev>:<path>`. Everything else is
//! an error, even if git accepts it: reflogs, index paths, searches, symmetric differences.

use std::sync::Arc;

use packrace_object::tree::{Entries, EntryKind};
use packrace_object::{Kind, ObjectId, parse_commit, parse_tag};
use packrace_store::refs::SHORT_NAME_RULES;
use packrace_store::refs::{RefSnapshot, is_ref_name};
use packrace_store::{ObjectReader, Repository, Snapshot};

use crate::call::fatal::Fatal;

/// Longest `~<n>`; no history has more commits in one line.
const MAX_STEPS: u32 = 1 << 24;

/// The revisions that a command asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Pack these and everything they reach.
    pub wants: Vec<ObjectId>,
    /// Exclude these and everything they reach.
    pub haves: Vec<ObjectId>,
    /// The receiver's shallow commits.
    pub shallow: Vec<ObjectId>,
}

/// Resolves revisions in one repository.
pub struct Revisions<'a> {
    repository: &'a Repository,
    snapshot: Arc<Snapshot>,
    reader: ObjectReader,
    refs: Option<RefSnapshot>,
}

impl<'a> Revisions<'a> {
    pub fn new(repository: &'a Repository, snapshot: &Arc<Snapshot>) -> Self {
        Revisions { repository, snapshot: snapshot.clone(), reader: snapshot.reader(1 << 20), refs: None }
    }

    /// Reads lines of standard input up to an empty one.
    pub fn read(&mut self, input: &[u8], selection: &mut Selection) -> Result<(), Fatal> {
        let mut is_not = false;
        for line in input.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty()) {
            let text = String::from_utf8_lossy(line);
            if line == b"--not" {
                is_not = !is_not;
            } else if let Some(name) = line.strip_prefix(b"--shallow ") {
                let id = self.full_name(name).ok_or_else(|| {
                    Fatal::new(format!("not an object name '{}'", String::from_utf8_lossy(name)))
                })?;
                selection.shallow.push(id);
            } else if line.starts_with(b"-") {
                return Err(Fatal::new(format!("not a rev '{text}'")));
            } else {
                self.add(line, is_not, selection)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, line: &[u8], is_not: bool, selection: &mut Selection) -> Result<(), Fatal> {
        let bad = || Fatal::new(format!("bad revision '{}'", String::from_utf8_lossy(line)));
        let path_at = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        if let Some(at) = line[..path_at].windows(2).position(|pair| pair == b"..") {
            let named = |name: &'_ [u8]| if name.is_empty() { b"HEAD".to_vec() } else { name.to_vec() };
            let from = self.resolve(&named(&line[..at]))?.ok_or_else(bad)?;
            let to = self.resolve(&named(&line[at + 2..]))?.ok_or_else(bad)?;
            let (wants, haves) = (&mut selection.wants, &mut selection.haves);
            let (wants, haves) = if is_not { (haves, wants) } else { (wants, haves) };
            wants.push(to);
            haves.push(from);
            return Ok(());
        }
        let (name, is_excluded) = match line.strip_prefix(b"^") {
            Some(name) => (name, !is_not),
            None => (line, is_not),
        };
        let id = self.resolve(name)?.ok_or_else(bad)?;
        if self.reader.kind_and_size(&id)?.is_none() {
            return Err(Fatal::new(format!("bad object {}", String::from_utf8_lossy(name))));
        }
        if is_excluded {
            selection.haves.push(id)
        } else {
            selection.wants.push(id)
        }
        Ok(())
    }

    /// The object that a revision names, or `None`. A full object name is not looked up.
    pub fn resolve(&mut self, revision: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        let Some(colon) = revision.iter().position(|byte| *byte == b':') else {
            return self.commitish(revision);
        };
        match self.commitish(&revision[..colon])? {
            Some(id) => self.at_path(id, &revision[colon + 1..]),
            None => Ok(None),
        }
    }

    /// The object at a path in a commit or tree. A trailing slash after a directory is allowed, a leading one
    /// is not.
    fn at_path(&mut self, id: ObjectId, mut path: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        let Some(mut id) = self.peel(id, b"tree")? else { return Ok(None) };
        while !path.is_empty() {
            let name_end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
            let name = &path[..name_end];
            let tree = self.reader.read(&id)?.data;
            let mut entries = Entries::new(&tree, self.repository.hash_kind());
            let found = entries.find_map(|entry| match entry {
                Ok(entry) => (entry.name == name).then_some(Ok((entry.id.to_owned(), entry.kind()))),
                Err(error) => Some(Err(error)),
            });
            let Some(found) = found else { return Ok(None) };
            let (next, kind) = found.map_err(Fatal::new)?;
            if name_end < path.len() && kind != EntryKind::Tree {
                return Ok(None);
            }
            id = next;
            path = path.get(name_end + 1..).unwrap_or_default();
        }
        Ok(Some(id))
    }

    fn commitish(&mut self, revision: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        let base_end = revision.iter().position(|byte| matches!(byte, b'~' | b'^')).unwrap_or(revision.len());
        let Some(mut id) = self.base(&revision[..base_end])? else { return Ok(None) };
        let mut rest = &revision[base_end..];
        while let Some((&sign, after)) = rest.split_first() {
            let next = if sign == b'^' && after.starts_with(b"{") {
                let Some(end) = after.iter().position(|byte| *byte == b'}') else { return Ok(None) };
                rest = &after[end + 1..];
                self.peel(id, &after[1..end])?
            } else {
                let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
                rest = &after[digits..];
                let number = match std::str::from_utf8(&after[..digits]) {
                    Ok("") => Some(1),
                    text => text.ok().and_then(|text| text.parse::<u32>().ok()),
                };
                match (sign, number) {
                    (b'~', Some(steps)) => self.ancestor(id, steps)?,
                    (b'^', Some(0)) => self.peel(id, b"commit")?,
                    (b'^', Some(number)) => self.parent(id, number)?,
                    _ => None,
                }
            };
            match next {
                Some(next) => id = next,
                None => return Ok(None),
            }
        }
        Ok(Some(id))
    }

    /// A full object name, or a ref by the rules of gitrevisions, `<refname>`.
    fn base(&mut self, name: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        if let Some(id) = self.full_name(name) {
            return Ok(Some(id));
        }
        if name.is_empty() {
            return Ok(None);
        }
        let name = if name == b"@" { b"HEAD" } else { name };
        if self.refs.is_none() {
            self.refs = Some(self.repository.refs().snapshot(&[]).map_err(Fatal::new)?);
        }
        let refs = self.refs.as_ref().expect("just set");
        for (before, after) in SHORT_NAME_RULES {
            let full = [before, name, after].concat();
            // The list of refs has none beside `HEAD` of those outside `refs/`.
            let is_listed = full.starts_with(b"refs/") || full == b"HEAD" || !is_ref_name(&full);
            let found = match is_listed {
                true => refs.resolve(&full),
                false => self.repository.refs().resolve(&full),
            };
            if let Some(found) = found.map_err(Fatal::new)? {
                return Ok(Some(found.id));
            }
        }
        // An ambiguous abbreviation names no object.
        match *self.snapshot.abbreviated(name)? {
            [id] => Ok(Some(id)),
            _ => Ok(None),
        }
    }

    fn full_name(&self, name: &[u8]) -> Option<ObjectId> {
        ObjectId::from_hex(name).ok().filter(|id| id.kind() == self.repository.hash_kind())
    }

    /// Peels tags, and a commit to its tree, to the wanted kind; if `wanted` is empty, to the first object
    /// that is no tag.
    fn peel(&mut self, mut id: ObjectId, wanted: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        let hash = self.repository.hash_kind();
        let kind = match wanted {
            b"" | b"object" => None,
            name => match Kind::from_name(name) {
                Some(kind) => Some(kind),
                None => return Ok(None),
            },
        };
        loop {
            let Some((found, _)) = self.reader.kind_and_size(&id)? else { return Ok(None) };
            if kind == Some(found) || wanted == b"object" || (kind.is_none() && found != Kind::Tag) {
                return Ok(Some(id));
            }
            id = match found {
                Kind::Tag => parse_tag(&self.reader.read(&id)?.data, hash).map_err(Fatal::new)?.target,
                Kind::Commit if kind == Some(Kind::Tree) => {
                    parse_commit(&self.reader.read(&id)?.data, hash).map_err(Fatal::new)?.tree
                }
                _ => return Ok(None),
            };
        }
    }

    fn parent(&mut self, id: ObjectId, number: u32) -> Result<Option<ObjectId>, Fatal> {
        let Some(id) = self.peel(id, b"commit")? else { return Ok(None) };
        let data = self.reader.read(&id)?.data;
        let commit = parse_commit(&data, self.repository.hash_kind()).map_err(Fatal::new)?;
        Ok(commit.parents.get(number as usize - 1).copied())
    }

    fn ancestor(&mut self, id: ObjectId, steps: u32) -> Result<Option<ObjectId>, Fatal> {
        let Some(mut id) = self.peel(id, b"commit")? else { return Ok(None) };
        for _ in 0..steps.min(MAX_STEPS) {
            match self.parent(id, 1)? {
                Some(parent) => id = parent,
                None => return Ok(None),
            }
        }
        Ok(Some(id))
    }
}
