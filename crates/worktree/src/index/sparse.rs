//! Sparse directory entries, which stand for their contents (gitformat-index, "Sparse Directory Entries").

use std::path::Path;

use packrace_format::index_file::{EntryKey, IndexEntry, IndexFile, IndexFileError, Mode};
use packrace_object::tree::{self, EntryKind};
use packrace_object::{Kind as ObjectKind, ObjectId};
use packrace_store::{ObjectReader, Repository, cache_bytes};

use super::IndexError;

/// Deepest tree that is expanded (git-config, `core.maxTreeDepth`).
const MAX_DEPTH: usize = 2048;

/// Maximum number of entries after expansion.
const MAX_ENTRIES: usize = 1 << 22;

/// Replaces each directory by its files, none of which is in the work tree.
pub(super) fn expand(file: &mut IndexFile, path: &Path, repository: &Repository) -> Result<(), IndexError> {
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
    }
    // Tree order differs if a directory's name begins with the name of a file beside it.
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    file.entries = entries;
    file.cache_tree = None;
    // Its positions are those of the directories.
    file.monitored = None;
    Ok(())
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
