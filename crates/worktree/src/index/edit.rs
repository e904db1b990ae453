//! Changes to an index.

use std::path::Path;

use packrace_format::index_file::new_untracked;
use packrace_object::ObjectId;
use packrace_store::{Config, parse_boolean};

use super::{CacheTree, EntryKey, Index, IndexEntry, Mode, StatData};
use crate::paths::directories_above;

/// The kernel's name (`uname -s`), which an untracked cache names.
const SYSTEM: &str = "Linux";

/// What an untracked cache is for: directories as a whole, and no empty ones.
const NORMAL_FLAGS: u32 = 6;

/// A path would be a file and a directory at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' appears as both a file and as a directory", String::from_utf8_lossy(.0))]
pub struct FileDirectoryConflict(pub Vec<u8>);

/// What `core.untrackedCache` says; `None` is to keep what is there, also for `keep` and, as in git, for wrong values.
pub fn untracked_cache_setting(config: &Config) -> Result<Option<bool>, packrace_store::Error> {
    config.need_values(&["core.untrackedCache"])?;
    match config.string("core.untrackedCache") {
        Some(value) => Ok(parse_boolean(&value)),
        None => Ok(config.boolean("feature.manyFiles")?.filter(|is_large| *is_large)),
    }
}

/// The flags of a new untracked cache: which files `git status` lists by default.
pub fn untracked_cache_flags(config: &Config) -> u32 {
    let lists_all = config.string("status.showUntrackedFiles").is_some_and(|value| value == b"all");
    if lists_all { 0 } else { NORMAL_FLAGS }
}

impl Index {
    /// Inserts an entry whose metadata was just read. Removes entries at its parent directories, and entries
    /// below its path; at stage 0, resolves the path's conflict.
    pub fn insert(&mut self, path: &[u8], stage: u8, entry: IndexEntry) {
        for key in self.in_the_way(path, stage) {
            self.remove_entry(&key);
        }
        self.put(path, stage, entry);
    }

    /// The same, but fails if an entry would have to be removed.
    pub fn try_insert(
        &mut self,
        path: &[u8],
        stage: u8,
        entry: IndexEntry,
    ) -> Result<(), FileDirectoryConflict> {
        match self.in_the_way(path, stage).is_empty() {
            true => {
                self.put(path, stage, entry);
                Ok(())
            }
            false => Err(FileDirectoryConflict(path.to_vec())),
        }
    }

    /// Removes a path at all stages, and returns whether it existed. A conflict counts as resolved.
    pub fn remove(&mut self, path: &[u8]) -> bool {
        let keys: Vec<EntryKey> = self.stages(path).map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| self.remove_entry(key));
        !keys.is_empty()
    }

    /// Updates the metadata of an entry with unchanged content.
    pub fn set_stat(&mut self, path: &[u8], stage: u8, stat: StatData) {
        let key = EntryKey::new(path, stage);
        if let Some(entry) = self.entries.get_mut(&key)
            && entry.stat != stat
        {
            entry.stat = stat;
            self.doubt(&key);
            self.fresh.insert(key);
            self.is_changed = true;
        }
    }

    /// Sets whether the file of a stage 0 entry is executable; false if it is not a file.
    pub fn set_executable(&mut self, path: &[u8], is_executable: bool) -> bool {
        let entry = self.entries.get_mut(&EntryKey::new(path, 0)).filter(|entry| entry.mode.is_file());
        let Some(entry) = entry else { return false };
        entry.mode = if is_executable { Mode::Executable } else { Mode::File };
        self.doubt(&EntryKey::new(path, 0));
        self.is_changed = true;
        self.invalidate(path);
        true
    }

    /// Changes flags of a stage 0 entry, and returns whether it exists.
    pub fn set_flags(&mut self, path: &[u8], change: impl FnOnce(&mut IndexEntry)) -> bool {
        let Some(entry) = self.entries.get_mut(&EntryKey::new(path, 0)) else { return false };
        let IndexEntry { mode, id, .. } = *entry;
        change(entry);
        assert!((mode, id) == (entry.mode, entry.id), "flags say nothing of the content");
        self.is_changed = true;
        self.invalidate(path);
        true
    }

    /// Clears assume-unchanged after the file changed.
    pub(super) fn believe_no_more(&mut self, key: &EntryKey) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.assume_valid = false;
            self.is_changed = true;
        }
    }

    /// Sets the version to write; the caller checked the number.
    pub fn set_version(&mut self, version: u32) {
        assert!((2..=4).contains(&version), "no version of an index");
        self.is_changed |= self.version != Some(version);
        self.version = Some(version);
    }

    /// Sets the cached trees.
    pub fn set_cache_tree(&mut self, cache_tree: CacheTree) {
        self.is_changed |= self.cache_tree.as_ref() != Some(&cache_tree);
        self.cache_tree = Some(cache_tree);
    }

    /// Writes the index split, beside a new shared index, or whole.
    pub fn set_split(&mut self, is_split: bool) {
        self.splitting = Some(is_split);
        self.is_changed = true;
    }

    /// Adds an untracked cache that knows nothing yet, unless there is one, or removes it. `flags` are those of the
    /// listing that it is for.
    pub fn set_untracked_cache(&mut self, new: Option<(&Path, u32)>) {
        match new {
            Some(_) if self.untracked.is_some() => return,
            Some((top, flags)) => {
                let top = top.as_os_str().as_encoded_bytes();
                self.untracked = Some(new_untracked(top, SYSTEM, flags, self.hash));
            }
            None => self.untracked = None,
        }
        self.stale_directories.clear();
        self.is_changed = true;
    }

    /// Adds or removes the untracked cache, as `core.untrackedCache` says, for the work tree at `top`.
    pub(super) fn follow_untracked_setting(
        &mut self,
        config: &Config,
        top: &Path,
    ) -> Result<(), packrace_store::Error> {
        match untracked_cache_setting(config)? {
            Some(true) => self.set_untracked_cache(Some((top, untracked_cache_flags(config)))),
            Some(false) if self.untracked.is_some() => self.set_untracked_cache(None),
            _ => {}
        }
        Ok(())
    }

    /// Forgets resolved conflicts.
    pub fn clear_resolve_undo(&mut self) {
        self.is_changed |= !self.resolve_undo.is_empty();
        self.resolve_undo.clear();
    }

    /// Removes and returns a resolved conflict, so that it can be restored.
    pub fn take_resolve_undo(&mut self, path: &[u8]) -> Option<[Option<(u32, ObjectId)>; 3]> {
        let taken = self.resolve_undo.remove(path);
        self.is_changed |= taken.is_some();
        taken
    }

    /// Marks the index as changed, so that it is written.
    pub fn mark_changed(&mut self) {
        self.is_changed = true;
    }

    /// The entries that conflict with this path as file and directory: only of the same stage, because sides
    /// of a conflict may differ.
    fn in_the_way(&self, path: &[u8], stage: u8) -> Vec<EntryKey> {
        let above = directories_above(path).map(|directory| EntryKey::new(directory, stage));
        let above = above.filter(|key| self.entries.contains_key(key));
        let below = self.below(path).map(|(key, _)| key).filter(|key| key.stage() == stage).cloned();
        above.chain(below).collect()
    }

    fn put(&mut self, path: &[u8], stage: u8, entry: IndexEntry) {
        let key = EntryKey::new(path, stage);
        let before = self.entries.insert(key.clone(), entry);
        self.doubt(&key);
        if before.is_none_or(|before| before != entry) {
            self.fresh.insert(key);
        }
        if before.is_none() {
            self.forget_untracked(path);
            // As in git: adding sides of a conflict beside an existing entry keeps them.
            for side in (1..4).filter(|_| stage == 0) {
                self.remove_entry(&EntryKey::new(path, side));
            }
        }
        self.invalidate(path);
        self.is_changed = true;
    }

    fn remove_entry(&mut self, key: &EntryKey) {
        let Some(entry) = self.entries.remove(key) else { return };
        self.fresh.remove(key);
        if let Some(shared) = &mut self.shared {
            shared.deleted.insert(key.clone());
        }
        let path = key.path();
        if let Some(side) = usize::from(key.stage()).checked_sub(1) {
            let undo = self.resolve_undo.entry(path.to_vec()).or_default();
            undo[side] = Some((entry.mode.bits(), entry.id));
        }
        self.forget_untracked(path);
        self.invalidate(path);
        self.is_changed = true;
    }

    /// What the untracked cache knows of directories above this path no longer holds.
    fn forget_untracked(&mut self, path: &[u8]) {
        if self.untracked.is_none() {
            return;
        }
        for directory in directories_above(path).chain([&b""[..]]) {
            self.stale_directories.insert(directory.to_vec());
        }
    }

    fn invalidate(&mut self, path: &[u8]) {
        if let Some(tree) = &mut self.cache_tree {
            tree.invalidate(path);
        }
    }
}
