//! Updates paths again: `--again` and `--unresolve`.

use packrace_object::tree::{self, EntryKind};
use packrace_object::{Kind as ObjectKind, ObjectId};
use packrace_store::{ObjectReader, cache_bytes};
use packrace_worktree::index::{IndexEntry, Mode};

use super::Update;
use crate::call::fatal::Fatal;
use crate::options::Step;
use crate::revisions::Revisions;

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

    /// Updates entries that differ from `HEAD`, below the given paths or the current directory.
    pub fn again(&mut self, steps: &[&Step]) -> Result<(), Fatal> {
        let work_tree = self.work_tree()?;
        let mut limits: Vec<Vec<u8>> = Vec::new();
        for step in steps {
            let Step::Path(path) = step else { continue };
            let path = path.as_encoded_bytes();
            if path.starts_with(b":") || path.iter().any(|byte| b"*?[\\".contains(byte)) {
                return Err(Fatal::new("--again knows no patterns, only paths"));
            }
            limits.push(work_tree.path(path)?);
        }
        if steps.is_empty() {
            limits.push(work_tree.prefix.clone());
        }
        let is_meant = |path: &[u8]| {
            limits.iter().any(|limit| {
                let limit = limit.strip_suffix(b"/").unwrap_or(limit);
                limit.is_empty()
                    || path.strip_prefix(limit).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
            })
        };
        let snapshot = self.snapshot()?;
        let head = Revisions::new(self.call, self.repository, &snapshot).resolve(b"HEAD^{tree}")?;
        let mut reader = snapshot.reader(cache_bytes::FEW_OBJECTS);
        let entries: Vec<(Vec<u8>, Mode, ObjectId)> = self
            .index()
            .entries()
            .filter(|(key, _)| key.stage() == 0 && is_meant(key.path()))
            .map(|(key, entry)| (key.path().to_vec(), entry.mode, entry.id))
            .collect();
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
