//! Replaces the index of a work tree.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use packrace_format::index_file::{IndexParts, encode, invalidate_untracked};
use packrace_os::count::Role;
use packrace_os::trace::{self, TraceRegion};
use packrace_store::publish::{FileKind, LockFile, ObjectBatch, ObjectsStored, WritePolicy};
use packrace_store::{Config, Repository};

use super::fold::{FoldRules, FoldedEntries};
use super::split::SplitRules;
use super::{
    Contents, EntryKey, Index, IndexEntry, IndexError, Mode, ResolveUndo, Time, is_nameless, look, time_of,
};
use crate::paths::{LeadingDirs, path_of};

/// Longest chain of links from an index to its real file.
const MAX_LINKS: usize = 5;

/// Whether the content of a file differs although its metadata matches the entry.
type IsModified<'a> = dyn FnMut(&Index, &EntryKey, &IndexEntry) -> Result<bool, IndexError> + 'a;

/// The right to replace the index (`index.lock`), with the index as read under the lock. Dropping it changes
/// nothing.
#[derive(Debug)]
pub struct IndexLock {
    /// None if the index has no name.
    lock: Option<LockFile>,
    /// The file that the lock is of.
    path: PathBuf,
    index: Index,
    format: IndexFormat,
    split: SplitRules,
    /// If the index is to be sparse.
    fold: Option<FoldRules>,
    /// The time when the lock was taken.
    taken: Time,
}

/// How to write a new index.
#[derive(Debug, Clone, Copy)]
struct IndexFormat {
    /// The version for a new index.
    version: u32,
    /// The setting that names no version.
    wrong: Option<&'static str>,
    skip_hash: bool,
}

impl IndexLock {
    /// Takes the lock, then reads the index. Does not wait for the lock.
    pub fn take(repository: &Repository) -> Result<Self, IndexError> {
        let taken = IndexLock::take_even_nameless(repository)?;
        if taken.is_nameless() { Err(IndexError::Nameless) } else { Ok(taken) }
    }

    /// The same, but with an empty `GIT_INDEX_FILE` only the writing fails: what needs none is done.
    pub fn take_even_nameless(repository: &Repository) -> Result<Self, IndexError> {
        let config = repository.config();
        let policy = WritePolicy::of(config)?;
        let format = IndexFormat::of(repository)?;
        let split = SplitRules::of(repository, policy)?;
        let path = resolved(repository.index_file());
        let lock = match is_nameless(&path) {
            true => None,
            false => {
                let lock = LockFile::take(&path, FileKind::WorkTreeIndex, policy);
                Some(lock.map_err(IndexError::Lock)?)
            }
        };
        let mut index = Index::read(repository)?;
        split.check(&index, repository)?;
        let fold = FoldRules::of(repository)?;
        index.fold_as_read(fold.as_ref());
        Ok(IndexLock { lock, path, index, format, split, fold, taken: time_of(SystemTime::now()) })
    }

    /// The same for commands in a work tree, with or without an untracked cache, as configured.
    pub fn take_in(repository: &Repository, top: &Path) -> Result<Self, IndexError> {
        IndexLock::take(repository)?.in_work_tree(repository, top)
    }

    /// As from [`IndexLock::take_in`].
    pub fn in_work_tree(mut self, repository: &Repository, top: &Path) -> Result<Self, IndexError> {
        self.index.follow_untracked_setting(repository.config(), top)?;
        self.index.follow_monitor_setting(repository.config());
        // As in git, it is written for that alone.
        self.index.is_changed |= self.split.is_other(&self.index);
        self.unskip_present(repository.config(), top)?;
        Ok(self)
    }

    /// Whether the index has no name, and so cannot be written.
    pub fn is_nameless(&self) -> bool {
        self.lock.is_none()
    }

    /// For a command that needs nothing of the work tree at `top`: asks its monitor all the same, as in git, and keeps an untracked
    /// cache and what the monitor says if the index is written for something else.
    pub fn follow_in_passing(
        &mut self,
        repository: &Repository,
        top: &Path,
        start_daemon: &dyn Fn() -> bool,
    ) -> Result<(), IndexError> {
        let is_changed = self.index.is_changed;
        self.index.follow_untracked_setting(repository.config(), top)?;
        self.index.follow_monitor_setting(repository.config());
        self.index.ask_monitor(repository, top, start_daemon)?;
        self.index.is_changed = is_changed;
        Ok(())
    }

    /// Clears skip-worktree for paths that exist in the work tree at `top` (git-config,
    /// "sparse.expectFilesOutsideOfPatterns").
    fn unskip_present(&mut self, config: &Config, top: &Path) -> Result<(), IndexError> {
        let is_sparse = config.boolean("core.sparseCheckout")?.unwrap_or(false);
        if !is_sparse || config.boolean("sparse.expectFilesOutsideOfPatterns")?.unwrap_or(false) {
            return Ok(());
        }
        let skipped = self.index.entries().filter(|(key, entry)| entry.skip_worktree && key.stage() == 0);
        let skipped: Vec<Vec<u8>> = skipped.map(|(key, _)| key.path().to_vec()).collect();
        let mut leading = LeadingDirs::new(top);
        for path in skipped {
            let is_there = || look(&top.join(path_of(&path))).is_ok_and(|found| found.is_some());
            if leading.are_real(&path) && is_there() {
                self.index.set_flags(&path, |entry| entry.skip_worktree = false);
            }
        }
        Ok(())
    }

    /// The index to be written.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The index to be written, to change it.
    pub fn index_mut(&mut self) -> &mut Index {
        &mut self.index
    }

    /// Whether [`IndexLock::fold`] may have trees to store.
    pub fn is_to_be_sparse(&self) -> bool {
        self.fold.is_some() && !self.split.is_to_be_split(&self.index)
    }

    /// If the index is to be sparse (git-config, `index.sparse`), stores the trees that it needs. Without this it is sparse only if
    /// it has them already. The batch is to be published before the index is written.
    pub fn fold(&mut self, batch: &ObjectBatch) -> Result<(), IndexError> {
        match &self.fold {
            Some(rules) if self.is_to_be_sparse() => self.index.fold(rules, batch),
            _ => Ok(()),
        }
    }

    /// Writes the index and puts it in place.
    ///
    /// Readers take a file as unchanged if it was last changed before the index was written. So `is_modified`
    /// is called for each entry for which that does not hold yet (racy-git), unless its file was examined
    /// since the lock was taken: it returns whether the file's content differs although its metadata matches.
    /// The entry then gets a file size of 0, which makes every reader check the content.
    ///
    /// The objects of the index are durable before it: `_objects` is the proof.
    pub fn commit(
        self,
        _objects: &ObjectsStored,
        is_modified: &mut dyn FnMut(&EntryKey, &IndexEntry) -> bool,
    ) -> Result<(), IndexError> {
        self.write(&mut |_, key, entry| Ok(is_modified(key, entry)))
    }

    /// The same, but examines the files itself; also files that were examined in the second in which they
    /// changed, because they may have changed again.
    pub fn commit_beside(
        mut self,
        _objects: &ObjectsStored,
        contents: &mut Contents,
    ) -> Result<(), IndexError> {
        let index = &self.index;
        let fresh = index.fresh.iter().filter_map(|key| Some((key, index.entries.get(key)?)));
        let is_young = |entry: &IndexEntry| {
            entry.mode != Mode::Gitlink && entry.stat.modified.seconds >= self.taken.seconds
        };
        let mut changed: Vec<EntryKey> = Vec::new();
        for (key, entry) in fresh.filter(|(_, entry)| is_young(entry)) {
            let seen = contents.look(key.path()).ok().flatten();
            // The time of a change of metadata alone may differ, as after a renaming.
            if seen.is_some_and(|seen| seen.stat != entry.stat)
                && contents.is_secretly_modified(index, key.path(), entry)?
            {
                changed.push(key.clone());
            }
        }
        changed.iter().for_each(|key| self.say_empty(key));
        self.write(&mut |index, key, entry| contents.is_secretly_modified(index, key.path(), entry))
    }

    /// An error if an entry has the null id: such an index is not written.
    pub fn check_ids(&self) -> Result<(), IndexError> {
        let mut entries = self.index.entries.iter();
        let null = entries.find(|(_, entry)| entry.id.is_null());
        null.map_or(Ok(()), |(key, _)| Err(IndexError::NullId(key.path().to_vec())))
    }

    fn write(mut self, is_modified: &mut IsModified<'_>) -> Result<(), IndexError> {
        self.check_ids()?;
        let mut lock = self.lock.take().ok_or(IndexError::Nameless)?;
        self.smudge(is_modified)?;
        self.forget_stale_directories();
        let version = self.index.version.unwrap_or_else(|| self.format.version_of_new());
        let expire = self.split.apply(&mut self.index, version)?;
        let folded = self.folded();
        let Index { entries, cache_tree, resolve_undo, untracked, shared, hash, .. } = &self.index;
        let monitored = self.index.monitor.as_ref().map(|monitor| match &folded {
            None => monitor.stored(entries.iter()),
            Some(folded) => monitor.stored(folded.entries.iter().map(|(key, entry)| (key, entry))),
        });
        let split = shared.as_ref().map(|shared| shared.split(entries.iter()));
        let resolve_undo: Vec<ResolveUndo> = resolve_undo
            .iter()
            .map(|(path, stages)| ResolveUndo { path: path.clone(), stages: *stages })
            .collect();
        let parts = IndexParts {
            cache_tree: folded.as_ref().map(|folded| &folded.cache_tree).or(cache_tree.as_ref()),
            resolve_undo: &resolve_undo,
            untracked: untracked.as_deref(),
            monitored: monitored.as_ref(),
            is_sparse: folded.is_some(),
            link: split.as_ref().map(|split| &split.link),
            skip_hash: self.format.skip_hash,
        };
        let region = self.trace_region();
        let of_tree = parts.cache_tree.and_then(|_| trace::region("cache_tree", "write"));
        let (bytes, _) = match (&split, &folded) {
            (Some(split), _) => {
                encode(split.entries.iter().map(|(key, entry)| (key, *entry)), version, &parts, *hash)
            }
            (None, Some(folded)) => {
                encode(folded.entries.iter().map(|(key, entry)| (key, entry)), version, &parts, *hash)
            }
            (None, None) => encode(entries.iter(), version, &parts, *hash),
        };
        drop(of_tree);
        lock.write(&bytes).map_err(IndexError::Unwritten)?;
        trace::data("index", "write/version", version);
        let written = match (&split, &folded) {
            (Some(split), _) => split.entries.len(),
            (None, Some(folded)) => folded.entries.len(),
            (None, None) => entries.len(),
        };
        trace::data("index", "write/cache_nr", written);
        drop(region);
        lock.commit().map_err(IndexError::Unwritten)?;
        if let (Some(shared), Some(expire)) = (shared, expire) {
            self.split.remove_expired(&shared.checksum, expire);
        }
        Ok(())
    }

    /// What is written if the index is to be sparse, and has all trees that this takes.
    fn folded(&self) -> Option<FoldedEntries> {
        let rules = self.fold.as_ref().filter(|_| self.index.shared.is_none())?;
        let as_read = self.index.folded.as_ref().and_then(|dirs| self.index.folded_entries(dirs));
        as_read.or_else(|| self.index.folded_entries(&rules.dirs(&self.index)?))
    }

    fn trace_region(&self) -> Option<TraceRegion> {
        if !trace::is_on() {
            return None;
        }
        let mut path = self.path.clone().into_os_string();
        path.push(".lock");
        trace::region_with("index", "do_write_index", Path::new(&path))
    }

    fn forget_stale_directories(&mut self) {
        let stale = std::mem::take(&mut self.index.stale_directories);
        if let Some(cache) = self.index.untracked.take_if(|_| !stale.is_empty()) {
            // A damaged cache is of no use to anybody.
            let is_stale = &mut |path: &[u8]| stale.contains(path);
            self.index.untracked = invalidate_untracked(&cache, self.index.hash, is_stale);
        }
    }

    fn smudge(&mut self, is_modified: &mut IsModified<'_>) -> Result<(), IndexError> {
        let is_racy = |entry: &IndexEntry| {
            self.index.is_racy(entry) && entry.mode != Mode::Gitlink && entry.stat.size_bytes != 0
        };
        let mut racy: Vec<EntryKey> = Vec::new();
        for (key, entry) in self.index.entries.iter().filter(|(_, entry)| is_racy(entry)) {
            if !self.index.fresh.contains(key) && is_modified(&self.index, key, entry)? {
                racy.push(key.clone());
            }
        }
        racy.iter().for_each(|key| self.say_empty(key));
        Ok(())
    }

    fn say_empty(&mut self, key: &EntryKey) {
        if let Some(entry) = self.index.entries.get_mut(key) {
            entry.stat.size_bytes = 0;
            self.index.doubt(key);
        }
    }
}

impl IndexFormat {
    /// `index.version`, `index.skipHash` and `feature.manyFiles` (git-config), and `GIT_INDEX_VERSION`.
    fn of(repository: &Repository) -> Result<Self, IndexError> {
        let config = repository.config();
        let is_large = config.boolean("feature.manyFiles")?.unwrap_or(false);
        let configured = config.integer("index.version")?;
        let asked = match repository.index_version() {
            Some(text) => Some(("GIT_INDEX_VERSION", text.parse().unwrap_or(0))),
            None => configured.map(|number| ("index.version", number)),
        };
        let (version, wrong) = match asked {
            Some((_, version @ 2..=4)) => (version as u32, None),
            Some((name, _)) => (3, Some(name)),
            None => (2 + 2 * u32::from(is_large), None),
        };
        Ok(IndexFormat { version, wrong, skip_hash: config.boolean("index.skipHash")?.unwrap_or(is_large) })
    }

    /// Says only now that a setting is wrong: it does not matter where an index keeps its version.
    fn version_of_new(self) -> u32 {
        if let Some(name) = self.wrong {
            tracing::warn!("{name} set, but the value is invalid.\nUsing version {}", self.version);
        }
        self.version
    }
}

/// The real file of the index: it may be a link, which stays.
fn resolved(path: &Path) -> PathBuf {
    let followed = packrace_os::follow_links(path, MAX_LINKS, Role::WorkTree);
    followed.map_or_else(|_| path.to_owned(), |followed| followed.path)
}
