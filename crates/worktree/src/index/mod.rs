//! The index of a work tree: the content of the next commit.
//!
//! [`Index::read`] returns the current index, [`IndexLock::take`] the right to replace it. In memory an index
//! is always complete: a split index is joined with its shared index, and directories of a sparse one are
//! expanded. It is written in the version that it had, split if it was or `core.splitIndex` says so, sparse if
//! `index.sparse` says so, without the extensions that only speed up reading (`EOIE`, `IEOT`); git recreates them.

mod answer;
mod content;
mod daemon;
mod edit;
mod error;
mod fold;
mod lock;
mod monitor;
mod refresh;
mod sparse;
mod split;
mod stat;
mod write_tree;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub use packrace_format::index_file::{CacheTree, EntryKey, IndexEntry, Mode, ResolveUndo, StatData, Time};
use packrace_format::index_file::{IndexFile, IndexFileError};
use packrace_object::{HashKind, ObjectId};
use packrace_os::count::Role;
use packrace_os::{durable, trace};
use packrace_store::Repository;

pub use self::content::{Comparison, ContentError, Contents};
pub use self::edit::{FileDirectoryConflict, untracked_cache_flags, untracked_cache_setting};
pub use self::error::IndexError;
pub use self::lock::IndexLock;
use self::monitor::Monitor;
pub use self::monitor::is_monitored;
pub use self::refresh::{RefreshOptions, refresh};
pub use self::split::split_setting;
use self::split::{SHARED_PREFIX, Shared};
pub use self::stat::{Kind, Seen, StatRules, look};
pub use self::write_tree::{TreeError, TreeStore};

/// Largest index that is read.
const MAX_INDEX_BYTES: u64 = 4 << 30;

/// An index in memory.
#[derive(Debug, Clone)]
pub struct Index {
    hash: HashKind,
    /// The version read; `None` for a new index.
    version: Option<u32>,
    entries: BTreeMap<EntryKey, IndexEntry>,
    /// Always valid for `entries`.
    cache_tree: Option<CacheTree>,
    resolve_undo: BTreeMap<Vec<u8>, [Option<(u32, ObjectId)>; 3]>,
    untracked: Option<Vec<u8>>,
    /// What a file system monitor has said of the entries.
    monitor: Option<Monitor>,
    /// Whether the file has what one said, wanted or not.
    was_monitored: bool,
    /// Directories in which a path was added or removed since `untracked` was written, and those above.
    stale_directories: BTreeSet<Vec<u8>>,
    /// If it is split.
    shared: Option<Shared>,
    /// Whether to split it, if that was asked for.
    splitting: Option<bool>,
    /// When the file was last changed: later changes may be invisible in the metadata.
    timestamp: Time,
    /// The directories that stand for their contents in the file, in its order; `None` if git would have expanded all by now.
    folded: Option<Vec<Vec<u8>>>,
    /// Entries whose files were examined since, and are known to match.
    fresh: HashSet<EntryKey>,
    is_changed: bool,
}

impl Index {
    /// Reads the index of a repository; empty if it does not exist.
    pub fn read(repository: &Repository) -> Result<Self, IndexError> {
        Index::read_from(repository, repository.index_file())
    }

    /// Reads the index from another file.
    pub fn read_from(repository: &Repository, path: &Path) -> Result<Self, IndexError> {
        let hash = repository.hash_kind();
        let found = if is_nameless(path) { None } else { read_file(path, hash, "do_read_index")? };
        let Some((file, timestamp)) = found else { return Ok(Index::empty(hash)) };
        let (mut file, mut shared) = (file, None);
        if let Some(link) = &file.link {
            let path_of_shared = shared_path(repository, &link.shared);
            let missing = || IndexError::Unreadable {
                path: path_of_shared.clone(),
                source: std::io::Error::new(std::io::ErrorKind::NotFound, "No such file or directory"),
            };
            let (found, _) = read_file(&path_of_shared, hash, "shared/do_read_index")?.ok_or_else(missing)?;
            let damaged = |source| IndexError::Damaged { path: path_of_shared.clone(), source };
            let mut known = Shared::new(found.checksum, found.entries.clone());
            let deleted = link.deleted(found.entries.len() as u32).map_err(damaged);
            file.join(found).map_err(damaged)?;
            known.deleted.extend(deleted?.iter().map(|at| known.entries[*at as usize].0.clone()));
            shared = Some(known);
            // Its age counts from the last use. Whoever may only read need not change it.
            let _ = durable::touch(&path_of_shared, Role::WorkTree);
        }
        // As in git, it is forgotten if there is no monitor any more. Its positions are those of the file.
        let was_monitored = file.monitored.is_some();
        let monitored = file.monitored.take().filter(|_| is_monitored(repository.config()));
        let mut monitor = monitored.map(|monitored| Monitor::new(monitored, &file.entries));
        let mut folded = (file.is_sparse && shared.is_none()).then(Vec::new);
        if file.entries.iter().any(|(_, entry)| entry.mode == Mode::Dir) {
            folded = Some(sparse::expand(&mut file, path, repository)?);
            shared = None;
            monitor.iter_mut().for_each(|monitor| monitor.doubt_skipped(&file.entries));
        }
        let IndexFile { version, entries, cache_tree, resolve_undo, untracked, .. } = file;
        Ok(Index {
            hash,
            version: Some(version),
            monitor,
            was_monitored,
            entries: entries.into_iter().collect(),
            cache_tree,
            resolve_undo: resolve_undo.into_iter().map(|undo| (undo.path, undo.stages)).collect(),
            untracked,
            stale_directories: BTreeSet::new(),
            shared,
            splitting: None,
            timestamp,
            folded,
            fresh: HashSet::new(),
            is_changed: false,
        })
    }

    /// An index without entries.
    pub fn empty(hash: HashKind) -> Self {
        Index {
            hash,
            version: None,
            entries: BTreeMap::new(),
            cache_tree: None,
            resolve_undo: BTreeMap::new(),
            untracked: None,
            monitor: None,
            was_monitored: false,
            stale_directories: BTreeSet::new(),
            shared: None,
            splitting: None,
            timestamp: Time::default(),
            folded: None,
            fresh: HashSet::new(),
            is_changed: false,
        }
    }

    /// All entries, by path and stage.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&EntryKey, &IndexEntry)> + Clone {
        self.entries.iter()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry of a path at a stage; 0 is a path without conflict.
    pub fn get(&self, path: &[u8], stage: u8) -> Option<&IndexEntry> {
        self.entries.get(&EntryKey::new(path, stage))
    }

    /// The entries of a path at all stages.
    pub fn stages(&self, path: &[u8]) -> impl Iterator<Item = (&EntryKey, &IndexEntry)> {
        self.entries.range(EntryKey::new(path, 0)..=EntryKey::new(path, 3))
    }

    /// The entries below a directory, given without a trailing slash; "" for all.
    pub fn below(&self, dir: &[u8]) -> impl Iterator<Item = (&EntryKey, &IndexEntry)> {
        self.range_below(dir)
    }

    /// Whether any path is below this directory.
    pub fn contains_dir(&self, dir: &[u8]) -> bool {
        self.range_below(dir).next().is_some()
    }

    /// Whether any path is in conflict.
    pub fn is_unmerged(&self) -> bool {
        self.entries.keys().any(|key| key.stage() > 0)
    }

    /// The cached trees.
    pub fn cache_tree(&self) -> Option<&CacheTree> {
        self.cache_tree.as_ref()
    }

    /// The hash of the objects.
    pub fn hash_kind(&self) -> HashKind {
        self.hash
    }

    /// 2, 3 or 4; `None` for a new index without a set version.
    pub fn version(&self) -> Option<u32> {
        self.version
    }

    /// The file's modification time before it was read; zero if it does not exist.
    pub fn timestamp(&self) -> Time {
        self.timestamp
    }

    /// Whether the index differs from the file that was read.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Whether this entry's metadata cannot rule out a change: the file changed when the index was written,
    /// or later. Compares whole seconds, as git does, which must not trust our finer comparison.
    pub fn is_racy(&self, entry: &IndexEntry) -> bool {
        self.timestamp.seconds != 0 && self.timestamp.seconds <= entry.stat.modified.seconds
    }

    fn range_below(&self, dir: &[u8]) -> impl Iterator<Item = (&EntryKey, &IndexEntry)> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let (first, end) = ([dir, b"/"].concat(), [dir, b"0"].concat());
        let range: (std::ops::Bound<&[u8]>, std::ops::Bound<&[u8]>) = match dir.is_empty() {
            true => (Unbounded, Unbounded),
            // "0" is the byte after "/".
            false => (Included(&first), Excluded(&end)),
        };
        self.entries.range::<[u8], _>(range)
    }
}

/// Reads one file and its modification time, a region of a trace with this label. The content may be newer than that time, never
/// older.
fn read_file(path: &Path, hash: HashKind, label: &str) -> Result<Option<(IndexFile, Time)>, IndexError> {
    let _region = trace::region_with("index", label, path);
    let unreadable = |source| IndexError::Unreadable { path: path.to_owned(), source };
    let Some(identity) = packrace_os::identity(path, Role::WorkTree).map_err(unreadable)? else {
        return Ok(None);
    };
    let bytes = packrace_os::read_file(path, Role::WorkTree, MAX_INDEX_BYTES).map_err(unreadable)?;
    let file = IndexFile::decode(&bytes, hash)
        .map_err(|source: IndexFileError| IndexError::Damaged { path: path.to_owned(), source })?;
    trace::data("index", "read/version", file.version);
    trace::data("index", "read/cache_nr", file.entries.len());
    Ok(Some((file, identity.modified.map(time_of).unwrap_or_default())))
}

/// Whether this is the directory in which a file with an empty name would be (`GIT_INDEX_FILE`).
fn is_nameless(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

fn time_of(time: SystemTime) -> Time {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: since.as_secs() as u32, nanoseconds: since.subsec_nanos() }
}

/// A shared index is in the git directory of the work tree, wherever the index itself is.
fn shared_path(repository: &Repository, checksum: &ObjectId) -> PathBuf {
    repository.git_dir().join(format!("{SHARED_PREFIX}{checksum}"))
}

#[cfg(test)]
mod tests;
