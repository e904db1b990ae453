//! Updates paths again: `--again` and `--unresolve`.

use packrace_object::tree::{self, EntryKind};
use packrace_object::{Kind as ObjectKind, ObjectId};
use packrace_store::{ObjectReader, cache_bytes};
use packrace_worktree::index::{IndexEntry, Mode};
use packrace_worktree::path_attributes::attach_attributes;
use packrace_worktree::paths::{Pathspecs, SpecDefaults};

use super::Update;
use crate::call::fatal::Fatal;
use crate::options::Step;
use crate::revisions::Revisions;
use crate::work_tree::WorkTree;

impl Update<'_> {
    /// Restores the conflict of a path, if it was recorded.
    pub fn unresolve(&mut self, step: &Step) -> Result<(), Fatal> {
        // All following arguments are paths; an option is a path that does not exist.
        let Step::Path(path) = step else { return Ok(()) };
        let path = self.work_tree()?.path(path.as_encoded_bytes())?;
        let index = self.index();
        let Some(stages) = index.take_resolve_undo(&path) else { return Ok(()) };
        index.remove(&path);
        for (stage, side) in (1..).zip(stages) {
            if let Some((mode, id)) = side {
                let mode = Mode::of_bits(mode).ok_or_else(|| Fatal::new(format!("bad mode {mode:o}")))?;
                index.insert(&path, stage, IndexEntry::new(id, mode));
            }
        }
        Ok(())
    }

    /// Updates entries that differ from `HEAD` and match pathspecs, or are below the current directory.
    pub fn again(&mut self, steps: &[&Step]) -> Result<(), Fatal> {
        let WorkTree { prefix, top, place, .. } = self.work_tree()?;
        let top = top.as_os_str().as_encoded_bytes();
        let paths = steps.iter().filter_map(|step| match step {
            Step::Path(path) => Some(path.as_encoded_bytes().to_vec()),
            _ => None,
        });
        let mut typed: Vec<Vec<u8>> = paths.collect();
        match (steps.is_empty(), typed.is_empty()) {
            (true, _) => typed.push(b".".to_vec()),
            // An option is a pathspec that matches nothing.
            (false, true) => return Ok(()),
            (false, false) => self.call.environment.booleans.check_pathspecs()?,
        }
        // Without paths, the variables of pathspecs do not matter.
        let defaults =
            if steps.is_empty() { SpecDefaults::default() } else { self.call.environment.pathspecs };
        let parse = |typed: &[Vec<u8>]| Pathspecs::parse(typed, prefix, top, defaults);
        let mut specs = parse(&typed)?;
        if specs.iter().count() > typed.len() {
            // All exclude something: here they begin at the current directory, not at the top.
            typed.push(b".".to_vec());
            specs = parse(&typed)?;
        }
        let (place, repository, snapshot) = (place.clone(), self.repository, self.snapshot()?);
        attach_attributes(&mut specs, repository, &snapshot, &place, self.index())?;
        let head = Revisions::new(self.call, self.repository, &snapshot).resolve(b"HEAD^{tree}")?;
        let mut reader = snapshot.reader(cache_bytes::FEW_OBJECTS);
        let entries: Vec<(Vec<u8>, Mode, ObjectId)> = self
            .index()
            .entries()
            .filter(|(key, _)| key.stage() == 0 && specs.is_meant(key.path(), false))
            .map(|(key, entry)| (key.path().to_vec(), entry.mode, entry.id))
            .collect();
        specs.check_attributes()?;
        for (path, mode, id) in entries {
            let before = head.and_then(|tree| in_tree(&mut reader, tree, &path));
            if before != Some((mode, id)) {
                self.path(&path)?;
            }
        }
        Ok(())
    }
}

/// The entry at a path in a tree; `None` if the tree cannot be read.
fn in_tree(reader: &mut ObjectReader, tree: ObjectId, path: &[u8]) -> Option<(Mode, ObjectId)> {
    let mut tree = tree;
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let object = reader.read(&tree).ok().filter(|object| object.kind == ObjectKind::Tree)?;
        let mut entries = tree::Entries::new(&object.data, tree.kind());
        let entry = entries.find_map(|entry| entry.ok().filter(|entry| entry.name == part))?;
        match (parts.peek().is_some(), entry.kind()) {
            (true, EntryKind::Tree) => tree = entry.id.to_owned(),
            (false, kind) if kind != EntryKind::Tree => {
                return Some((Mode::of_bits(entry.mode)?, entry.id.to_owned()));
            }
            _ => return None,
        }
    }
    None
}
