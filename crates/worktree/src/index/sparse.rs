//! Sparse directory entries, which stand for their contents (gitformat-index, "Sparse Directory Entries").

use std::path::Path;

use packrace_format::index_file::{EntryKey, IndexEntry, IndexFile, IndexFileError, Mode};
use packrace_object::tree::{self, EntryKind};
use packrace_object::{Kind as ObjectKind, ObjectId};
use packrace_store::{Config, ObjectReader, Repository, cache_bytes};

use super::{Index, IndexError};
use crate::paths::path_of;

/// Deepest tree that is expanded (git-config, `core.maxTreeDepth`).
const MAX_DEPTH: usize = 2048;

/// Maximum number of entries after expansion.
const MAX_ENTRIES: usize = 1 << 22;

impl Index {
    /// Whether the file of the index has directories that git would not have expanded yet. Git tells users when it does,
    /// because that is slow.
    pub fn is_folded(&self) -> bool {
        !self.folded.is_empty()
    }

    /// Whether git would now expand the directories, all of them, to find this path.
    pub fn unfold_for(&mut self, path: &[u8]) -> bool {
        let is_above = |dir: &Vec<u8>| path.strip_prefix(&dir[..]).is_some_and(|rest| rest.starts_with(b"/"));
        let is_needed = self.folded.iter().any(is_above);
        if is_needed {
            self.folded.clear();
        }
        is_needed
    }

    /// The same for the work tree at `top`, in which one of them exists, or which is not to have such an index any more.
    pub fn unfold_in(&mut self, config: &Config, top: &Path) -> Result<bool, packrace_store::Error> {
        if self.folded.is_empty() {
            return Ok(false);
        }
        let mut stays = true;
        for name in ["core.sparseCheckout", "core.sparseCheckoutCone", "index.sparse"] {
            stays &= config.boolean(name)?.unwrap_or(name == "core.sparseCheckoutCone");
        }
        let is_there = |dir: &Vec<u8>| top.join(path_of(dir)).is_dir();
        let is_needed = !stays
            || !config.boolean("sparse.expectFilesOutsideOfPatterns")?.unwrap_or(false)
                && self.folded.iter().any(is_there);
        if is_needed {
            self.folded.clear();
        }
        Ok(is_needed)
    }
}

/// Replaces each directory by its files, none of which is in the work tree. Returns the directories.
pub(super) fn expand(
    file: &mut IndexFile,
    path: &Path,
    repository: &Repository,
) -> Result<Vec<Vec<u8>>, IndexError> {
    let mut folded = Vec::new();
    let mut reader = repository.snapshot()?.reader(cache_bytes::MANY_OBJECTS);
    let mut entries = Vec::with_capacity(file.entries.len());
    for (key, entry) in std::mem::take(&mut file.entries) {
        if entry.mode != Mode::Dir {
            entries.push((key, entry));
            continue;
        }
        let damaged = |source| IndexError::Damaged { path: path.to_owned(), source };
        let dir = key.path().strip_suffix(b"/").filter(|_| entry.skip_worktree && file.is_sparse);
        let dir = dir.ok_or_else(|| damaged(IndexFileError::Name(key.path().to_vec())))?;
        expand_tree(dir, &entry.id, &mut reader, 0, &mut entries)?;
        folded.push(dir.to_vec());
    }
    // Tree order differs if a directory's name begins with the name of a file beside it.
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    file.entries = entries;
    file.cache_tree = None;
    // Its positions are those of the directories.
    file.monitored = None;
    Ok(folded)
}

fn expand_tree(
    dir: &[u8],
    tree: &ObjectId,
    reader: &mut ObjectReader,
    depth: usize,
    entries: &mut Vec<(EntryKey, IndexEntry)>,
) -> Result<(), IndexError> {
    let not_a_tree = || IndexError::NotATree(dir.to_vec());
    let found = reader.read(tree)?;
    if found.kind != ObjectKind::Tree || depth == MAX_DEPTH {
        return Err(not_a_tree());
    }
    for entry in tree::Entries::new(&found.data, tree.kind()) {
        let entry = entry.map_err(|_| not_a_tree())?;
        let path = [dir, b"/", entry.name].concat();
        if entry.kind() == EntryKind::Tree {
            expand_tree(&path, &entry.id.to_owned(), reader, depth + 1, entries)?;
            continue;
        }
        let mode =
            Mode::of_bits(entry.mode).filter(|_| entries.len() < MAX_ENTRIES).ok_or_else(not_a_tree)?;
        let entry = IndexEntry { skip_worktree: true, ..IndexEntry::new(entry.id.to_owned(), mode) };
        entries.push((EntryKey::new(&path, 0), entry));
    }
    Ok(())
}
