//! Replacing the index of a work tree.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use packrace_format::index_file::{IndexParts, encode};
use packrace_os::count::Role;
use packrace_store::Repository;
use packrace_store::publish::{DurableObjects, FileKind, LockFile, WritePolicy};

use super::{Contents, EntryKey, Index, IndexEntry, IndexError, Mode, ResolveUndo, Time, time_of};

/// Most links from an index to where it really is.
const MAX_LINKS: usize = 5;

/// Whether the file of an entry looks as it says, and has other content.
type IsModified<'a> = dyn FnMut(&Index, &EntryKey, &IndexEntry) -> bool + 'a;

/// The right to replace the index (`index.lock`), and the index as it is since. Dropped, it leaves all as it was.
#[derive(Debug)]
pub struct IndexLock {
    lock: LockFile,
    index: Index,
    format: IndexFormat,
    /// When the lock was taken.
    taken: Time,
}

/// How a new index is written.
#[derive(Debug, Clone, Copy)]
struct IndexFormat {
    /// Of an index that is not there yet.
    version: u32,
    skip_hash: bool,
}

impl IndexLock {
    /// Takes the lock, and reads the index then. The lock is not waited for.
    pub fn take(repository: &Repository) -> Result<Self, IndexError> {
        let config = repository.config();
        let policy = WritePolicy::of(config)?;
        let format = IndexFormat::of(repository)?;
        let path = resolved(repository.index_file());
        let lock = LockFile::take(&path, FileKind::WorkTreeIndex, policy).map_err(IndexError::Lock)?;
        let index = Index::read(repository)?;
        Ok(IndexLock { lock, index, format, taken: time_of(SystemTime::now()) })
    }

    /// The index as it is going to be.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The same, to be changed.
    pub fn index_mut(&mut self) -> &mut Index {
        &mut self.index
    }

    /// Writes the index and puts it in place.
    ///
    /// Who reads it later takes a file for unchanged that was last changed before the index was written. So each entry for
    /// which that does not hold yet (racy-git) is asked for, unless its file was looked at since the lock was taken:
    /// `is_modified` says whether its file looks as the entry says but has other content. Then the entry says that the file
    /// is empty, which makes everybody look.
    ///
    /// What the index names is durable before it does: `_objects` is the proof.
    pub fn commit(
        self,
        _objects: &DurableObjects,
        is_modified: &mut dyn FnMut(&EntryKey, &IndexEntry) -> bool,
    ) -> Result<(), IndexError> {
        self.write(&mut |_, key, entry| is_modified(key, entry))
    }

    /// The same, and looks at the files itself; also at those that were looked at in the second in which they changed, which
    /// may have changed again.
    pub fn commit_beside(
        mut self,
        _objects: &DurableObjects,
        contents: &mut Contents,
    ) -> Result<(), IndexError> {
        let index = &self.index;
        let fresh = index.fresh.iter().filter_map(|key| Some((key, index.entries.get(key)?)));
        let is_young = |entry: &IndexEntry| {
            entry.mode != Mode::Gitlink && entry.stat.modified.seconds >= self.taken.seconds
        };
        let young = fresh.filter(|(_, entry)| is_young(entry));
        let changed = |(key, entry): &(&EntryKey, &IndexEntry)| {
            contents.look(key.path()).is_ok_and(|seen| seen.is_some_and(|seen| seen.stat != entry.stat))
        };
        let changed: Vec<EntryKey> = young.filter(changed).map(|(key, _)| key.clone()).collect();
        changed.iter().for_each(|key| self.say_empty(key));
        self.write(&mut |index, key, entry| contents.is_secretly_modified(index, key.path(), entry))
    }

    fn write(mut self, is_modified: &mut IsModified<'_>) -> Result<(), IndexError> {
        if let Some((key, _)) = self.index.entries.iter().find(|(_, entry)| entry.id.is_null()) {
            return Err(IndexError::NullId(key.path().to_vec()));
        }
        self.smudge(is_modified);
        let Index { entries, version, cache_tree, resolve_undo, untracked, hash, .. } = &self.index;
        let resolve_undo: Vec<ResolveUndo> = resolve_undo
            .iter()
            .map(|(path, stages)| ResolveUndo { path: path.clone(), stages: *stages })
            .collect();
        let parts = IndexParts {
            cache_tree: cache_tree.as_ref(),
            resolve_undo: &resolve_undo,
            untracked: untracked.as_deref(),
            skip_hash: self.format.skip_hash,
        };
        let (bytes, _) = encode(entries.iter(), version.unwrap_or(self.format.version), &parts, *hash);
        self.lock.write(&bytes).map_err(IndexError::Unwritten)?;
        self.lock.commit().map_err(IndexError::Unwritten)
    }

    fn smudge(&mut self, is_modified: &mut IsModified<'_>) {
        let racy: Vec<EntryKey> = self
            .index
            .entries
            .iter()
            .filter(|(_, entry)| {
                self.index.is_racy(entry) && entry.mode != Mode::Gitlink && entry.stat.size_bytes != 0
            })
            .filter(|(key, _)| !self.index.fresh.contains(*key))
            .filter(|(key, entry)| is_modified(&self.index, key, entry))
            .map(|(key, _)| key.clone())
            .collect();
        racy.iter().for_each(|key| self.say_empty(key));
    }

    fn say_empty(&mut self, key: &EntryKey) {
        if let Some(entry) = self.index.entries.get_mut(key) {
            entry.stat.size_bytes = 0;
        }
    }
}

impl IndexFormat {
    /// `index.version`, `index.skipHash` and `feature.manyFiles` (git-config), and `GIT_INDEX_VERSION`.
    fn of(repository: &Repository) -> Result<Self, IndexError> {
        let config = repository.config();
        let is_large = config.boolean("feature.manyFiles")?.unwrap_or(false);
        let configured = config.integer("index.version")?;
        let outside = repository.index_version().filter(|text| !text.is_empty());
        let asked = match outside {
            Some(text) => Some(("GIT_INDEX_VERSION", text.parse().unwrap_or(0))),
            None => configured.map(|number| ("index.version", number)),
        };
        let version = match asked {
            Some((_, version @ 2..=4)) => version as u32,
            Some((name, _)) => {
                tracing::warn!("{name} set, but the value is invalid.\nUsing version 3");
                3
            }
            None => 2 + 2 * u32::from(is_large),
        };
        Ok(IndexFormat { version, skip_hash: config.boolean("index.skipHash")?.unwrap_or(is_large) })
    }
}

/// Where the index really is: it may be a link, which stays.
fn resolved(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match packrace_os::read_link(&path, Role::WorkTree) {
            Ok(Some(target)) => path = path.parent().map_or(target.clone(), |dir| dir.join(&target)),
            _ => break,
        }
    }
    path
}
