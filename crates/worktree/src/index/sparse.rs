//! Sparse directory entries, which stand for their contents (gitformat-index, "Sparse Directory Entries"), when an index is read.

use std::path::Path;

use packrace_format::index_file::{CacheTree, EntryKey, IndexEntry, IndexFile, IndexFileError, Mode};
use packrace_object::tree::{self, EntryKind};
use packrace_object::{Kind as ObjectKind, ObjectId};
use packrace_store::{Config, ObjectReader, Repository, cache_bytes};

use super::{Index, IndexError};
use crate::paths::{path_of, uses_cone};

/// Deepest tree that is expanded (git-config, `core.maxTreeDepth`).
const MAX_DEPTH: usize = 2048;

/// Maximum number of entries after expansion.
const MAX_ENTRIES: usize = 1 << 22;

impl Index {
    /// Whether git would have a sparse index now, with or without directories that stand for their contents.
    pub fn is_sparse(&self) -> bool {
        self.folded.is_some()
    }

    /// Whether the index has directories that git would not have expanded yet. Git tells users when it does,
    /// because that is slow.
    pub fn is_folded(&self) -> bool {
        self.folded.as_ref().is_some_and(|dirs| !dirs.is_empty())
    }

    /// Whether git would now expand the directories, all of them, to find this path.
    pub fn unfold_for(&mut self, path: &[u8]) -> bool {
        let is_above = |dir: &Vec<u8>| path.strip_prefix(&dir[..]).is_some_and(|rest| rest.starts_with(b"/"));
        let is_needed = self.folded.iter().flatten().any(is_above);
        if is_needed {
            self.unfold();
        }
        is_needed
    }

    /// The same for the work tree at `top`, in which one of them exists, or which is not to have such an index any more.
    pub fn unfold_in(&mut self, config: &Config, top: &Path) -> Result<bool, packrace_store::Error> {
        if !self.is_folded() {
            return Ok(false);
        }
        let is_there = |dir: &Vec<u8>| top.join(path_of(dir)).is_dir();
        let stays = may_be_sparse(config)?;
        // As in git, it is written for that alone.
        self.is_changed |= !stays;
        let is_needed = !stays
            || !config.boolean("sparse.expectFilesOutsideOfPatterns")?.unwrap_or(false)
                && self.folded.iter().flatten().any(is_there);
        if is_needed {
            self.unfold();
        }
        Ok(is_needed)
    }

    /// As in git, what a monitor has said is forgotten with it.
    fn unfold(&mut self) {
        self.folded = None;
        self.monitor = None;
    }
}

/// Whether the settings allow sparse directory entries.
pub(super) fn may_be_sparse(config: &Config) -> Result<bool, packrace_store::Error> {
    Ok(uses_cone(config)? && config.boolean("index.sparse")?.unwrap_or(false))
}

/// Replaces each directory by its files, none of which is in the work tree. Returns the directories, except empty ones.
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
        let before = entries.len();
        let tree = expand_tree(dir, &entry.id, &mut reader, 0, &mut entries)?;
        if entries.len() > before {
            folded.push(dir.to_vec());
        }
        if let Some(all) = &mut file.cache_tree {
            let was_one = all.at(dir).is_some_and(|tree| tree.known == Some((1, entry.id)));
            if !was_one || !all.replace(dir, tree) {
                all.invalidate(dir);
            }
        }
    }
    // Tree order differs if a directory's name begins with the name of a file beside it.
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    file.entries = entries;
    Ok(folded)
}

fn expand_tree(
    dir: &[u8],
    tree: &ObjectId,
    reader: &mut ObjectReader,
    depth: usize,
    entries: &mut Vec<(EntryKey, IndexEntry)>,
) -> Result<CacheTree, IndexError> {
    let not_a_tree = || IndexError::NotATree(dir.to_vec());
    let found = reader.read(tree)?;
    if found.kind != ObjectKind::Tree || depth == MAX_DEPTH {
        return Err(not_a_tree());
    }
    let before = entries.len();
    let mut children: Vec<(Box<[u8]>, CacheTree)> = Vec::new();
    for entry in tree::Entries::new(&found.data, tree.kind()) {
        let entry = entry.map_err(|_| not_a_tree())?;
        let path = [dir, b"/", entry.name].concat();
        if entry.kind() == EntryKind::Tree {
            let below = expand_tree(&path, &entry.id.to_owned(), reader, depth + 1, entries)?;
            children.push((entry.name.into(), below));
            continue;
        }
        let mode =
            Mode::of_bits(entry.mode).filter(|_| entries.len() < MAX_ENTRIES).ok_or_else(not_a_tree)?;
        let entry = IndexEntry { skip_worktree: true, ..IndexEntry::new(entry.id.to_owned(), mode) };
        entries.push((EntryKey::new(&path, 0), entry));
    }
    children.sort_by(|(a, _), (b, _)| a.cmp(b));
    // A damaged tree may have two: then it is not known which one stays.
    children.dedup_by(|(a, _), (b, _)| a == b);
    Ok(CacheTree::new(Some(((entries.len() - before) as u32, *tree)), children))
}
