//! Commits whose history and files are complete.

use std::collections::HashSet;

use packrace_object::tree::{Entries, EntryKind};
use packrace_object::{Kind, ObjectId, parse_commit};
use packrace_store::ObjectReader;

use crate::error::Error;

/// Commits that a reflog may name: those that refs reach, and those from which no object is missing.
pub(crate) struct SoundCommits {
    /// Commits that refs reach. They count even if objects are missing: not the reflog is at fault then.
    pub(crate) reachable: HashSet<ObjectId>,
    /// Commits whose parents may be missing.
    pub(crate) shallow: HashSet<ObjectId>,
    /// Objects from which no object is missing, as far as known.
    pub(crate) complete: HashSet<ObjectId>,
}

impl SoundCommits {
    /// Whether this commit is one of them. Reads every commit and tree that it reaches, each once in all calls.
    pub(crate) fn contains(&mut self, commit: ObjectId, reader: &mut ObjectReader) -> Result<bool, Error> {
        let (mut seen, mut waiting) = (HashSet::new(), vec![commit]);
        while let Some(id) = waiting.pop() {
            if self.reachable.contains(&id) || self.complete.contains(&id) || !seen.insert(id) {
                continue;
            }
            let Some((kind, _)) = reader.kind_and_size(&id)? else { return Ok(false) };
            match kind {
                Kind::Commit => {
                    let data = reader.read(&id)?.data;
                    let Ok(commit) = parse_commit(&data, id.kind()) else { return Ok(false) };
                    waiting.push(commit.tree);
                    if !self.shallow.contains(&id) {
                        waiting.extend(commit.parents.iter());
                    }
                }
                Kind::Tree => {
                    let data = reader.read(&id)?.data;
                    for entry in Entries::new(&data, id.kind()) {
                        let Ok(entry) = entry else { return Ok(false) };
                        if entry.kind() != EntryKind::Submodule {
                            waiting.push(entry.id.to_owned());
                        }
                    }
                }
                Kind::Blob | Kind::Tag => {}
            }
        }
        self.complete.extend(seen);
        Ok(true)
    }
}
