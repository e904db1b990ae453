//! Repositories of a bucket on a node's own disk, each an ordinary bare repository with reftables.
//!
//! ```text
//! repositories/<name>                  a served repository
//! repositories/<name>/packrace-cache   the head that it matches; without it, it is removed at the next start
//! trash/                               repositories being removed
//! scratch/                             copies of stacks of refs, for pushes
//! ```
//!
//! Every request checks in the bucket whether the head has changed; requests that arrive during such a check
//! share the next one. So the state served is never older than the request, and if the bucket does not
//! respond, requests fail: nothing stale is served.

mod apply;
mod checks;
mod fetch_error;
mod files;
mod parts;
mod state;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use packrace_format::head::Head;
use packrace_object::HashKind;
use packrace_os::count::Role;
use packrace_os::{EntryType, HeldDir, durable, list_dir};
use packrace_store::Repository;

#[cfg(test)]
pub(crate) use self::apply::files as files_of;
use self::apply::{Change, apply, remove_others};
use self::checks::HeadChecks;
use self::fetch_error::FetchError;
pub(crate) use self::files::FilesAtHand;
use self::files::make_dirs;
use self::state::CacheState;
use crate::bucket::Bucket;
use crate::error::{Error, ErrorKind};
use crate::layout::BucketName;
use crate::repository::{self, LocalRepository, ReadHead, read_head};

/// Most rereads of a head whose objects are missing.
const MAX_REREADS: u32 = 4;

/// Counters of a cache.
#[derive(Debug, Default)]
pub struct CacheCounts {
    /// Checks that found the repository up to date. Requests that share a check count as one.
    pub hits: AtomicU64,
    /// Checks that had to bring the repository up to its head.
    pub fills: AtomicU64,
    /// Repositories removed to make room.
    pub evictions: AtomicU64,
}

/// Repositories of a bucket on disk.
pub struct Cache {
    bucket: Bucket,
    dir: PathBuf,
    max_bytes: u64,
    /// Exclusive for the lifetime of this value.
    _held: HeldDir,
    boot: Option<Vec<u8>>,
    entries: Mutex<HashMap<BucketName, Arc<CacheSlot>>>,
    /// Held while space is reserved.
    room: Mutex<()>,
    /// Size of all repositories, including those that are being filled.
    bytes: AtomicU64,
    uses: AtomicU64,
    counts: CacheCounts,
    /// Called before a repository is removed, so that idle handles to it are closed.
    forget: Box<dyn Fn(&Path) + Send + Sync>,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache")
            .field("dir", &self.dir)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}

/// A repository in the cache.
#[derive(Debug, Default)]
pub(crate) struct CacheSlot {
    checks: HeadChecks,
    /// The head that the repository on disk matches, once the disk was inspected. Held while the repository
    /// changes, but not while the bucket is queried: a push that has just been swapped in would wait for
    /// every check.
    known: Mutex<Option<ReadHead>>,
    /// When it was last used, counted in uses of all repositories.
    used: AtomicU64,
    bytes: AtomicU64,
    /// The number of live [`Opening`]s.
    openers: AtomicUsize,
    /// Open repositories that may still read it.
    readers: Mutex<Vec<Weak<Repository>>>,
}

/// Protects a repository from eviction.
pub(crate) struct Opening(Arc<CacheSlot>);

impl Opening {
    fn of(entry: &Arc<CacheSlot>) -> Self {
        entry.openers.fetch_add(1, SeqCst);
        Opening(entry.clone())
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.openers.fetch_sub(1, SeqCst);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The directory of repositories, in the directory of a cache.
pub fn repositories_dir(dir: &Path) -> PathBuf {
    dir.join("repositories")
}

impl Cache {
    /// Opens the cache in a directory, which is created if it does not exist and belongs to this value alone.
    /// Calls `forget` before it removes a repository, with its path below [`repositories_dir`].
    pub fn open(
        bucket: Bucket,
        dir: &Path,
        max_bytes: u64,
        forget: Box<dyn Fn(&Path) + Send + Sync>,
    ) -> Result<Self, Error> {
        make_dirs(dir.parent().unwrap_or(dir), dir)?;
        let dir = packrace_os::real_path(dir).map_err(|error| Error::disk(dir, &error))?;
        let held = HeldDir::open(&dir).map_err(|error| Error::disk(&dir, &error))?;
        if !held.hold_alone().map_err(|error| Error::disk(&dir, &error))? {
            let words = format!("{}: another process uses this cache folder", dir.display());
            return Err(Error::new(ErrorKind::Refused, words));
        }
        for part in ["repositories", "trash", "scratch"] {
            make_dirs(&dir, &dir.join(part))?;
        }
        let cache = Cache {
            bucket,
            max_bytes,
            _held: held,
            boot: state::boot_id(),
            entries: Mutex::default(),
            room: Mutex::default(),
            bytes: AtomicU64::new(0),
            uses: AtomicU64::new(0),
            counts: CacheCounts::default(),
            forget,
            dir,
        };
        cache.find_what_is_there()?;
        Ok(cache)
    }

    /// The bucket.
    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// Its counters.
    pub fn counts(&self) -> &CacheCounts {
        &self.counts
    }

    /// The size of all repositories on disk.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Opens a repository at its current head or a later one. `open` gets its path below
    /// [`repositories_dir`]. The repository stays on disk while the returned value lives.
    pub fn open_repository<E: From<Error>>(
        &self,
        name: &BucketName,
        open: impl FnOnce(&Path) -> Result<Arc<Repository>, E>,
    ) -> Result<Arc<Repository>, E> {
        let opening = self.hold(name);
        let entry = opening.0.clone();
        entry.used.store(self.uses.fetch_add(1, Relaxed) + 1, Relaxed);
        let result = self.bring_up(name, &entry);
        let opened = result.map_err(E::from).and_then(|()| open(Path::new(name.as_str())));
        if let Ok(repository) = &opened {
            let mut readers = lock(&entry.readers);
            readers
                .retain(|reader| reader.strong_count() > 0 && !std::ptr::eq(reader.as_ptr(), &**repository));
            readers.push(Arc::downgrade(repository));
        }
        drop(opening);
        if opened.is_err() {
            self.forget_absent(name, &entry);
        }
        opened
    }

    /// Protects a repository from eviction, whether or not it is on disk yet.
    pub(crate) fn hold(&self, name: &BucketName) -> Opening {
        Opening::of(lock(&self.entries).entry(name.clone()).or_default())
    }

    /// Calls `look` with the head that the repository on disk matches. `look` must be fast: requests with
    /// another head wait for it. Checks the bucket first if no head is known, or if `is_asked`.
    pub(crate) fn with_head<T>(
        &self,
        held: &Opening,
        name: &BucketName,
        is_asked: bool,
        look: impl FnOnce(&ReadHead, &Path) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if is_asked || lock(&held.0.known).is_none() {
            self.bring_up(name, &held.0)?;
        }
        let known = lock(&held.0.known);
        // A concurrent change of the repository has just failed.
        let gone = || Error::new(ErrorKind::Unavailable, format!("'{}': fetching it again", name.as_str()));
        look(known.as_ref().ok_or_else(gone)?, &self.repository(name))
    }

    /// Makes a second repository from hard links to the files of the newest one. They must not be written to.
    pub(crate) fn link_newest(&self, held: &Opening, name: &BucketName, dir: &Path) -> Result<Head, Error> {
        self.with_head(held, name, true, |read, repository| {
            apply::link(&self.scratch_dir(), repository, dir, &read.head)?;
            Ok(read.head.clone())
        })
    }

    /// Brings the repository on disk up to a head that was just swapped in, unless it is as new or newer.
    pub(crate) fn install(
        &self,
        held: &Opening,
        name: &BucketName,
        read: ReadHead,
        at_hand: &FilesAtHand,
    ) -> Result<(), Error> {
        let mut known = lock(&held.0.known);
        let is_newer = |known: &ReadHead| known.head.generation >= read.head.generation;
        match known.as_ref().is_some_and(is_newer) {
            true => Ok(()),
            false => self.fill(name, &held.0, &mut known, read, at_hand),
        }
    }

    /// Creates a repository in the bucket from the one that `make` makes in a temporary directory, with the
    /// hash that it returns. Its settings are not kept.
    pub fn create<E>(
        &self,
        name: &BucketName,
        make: impl FnOnce(&Path) -> Result<HashKind, E>,
    ) -> Result<Result<(), E>, Error> {
        let parent = self.scratch_dir();
        let dir = durable::make_temporary_dir(&parent, "new-", Role::Config)
            .map_err(|error| Error::disk(&parent, &error))?;
        let git_dir = dir.join("new.git");
        let put = |hash| {
            let local = LocalRepository { git_dir: &git_dir, hash, config: Vec::new() };
            repository::create(&self.bucket, name, &local).map(drop)
        };
        let made = make(&git_dir).map(put);
        if let Err(error) = durable::remove_tree(&dir, Role::Config) {
            tracing::warn!("cannot remove {}: {error}", dir.display());
        }
        match made {
            Ok(put) => put.map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    /// A directory for copies; it is emptied at the next start.
    pub(crate) fn scratch_dir(&self) -> PathBuf {
        self.dir.join("scratch")
    }

    /// The repository that is cached in this directory.
    pub fn name_of(&self, git_dir: &Path) -> Option<BucketName> {
        let path = git_dir.strip_prefix(repositories_dir(&self.dir)).ok()?;
        BucketName::new(path.to_str()?).ok()
    }

    /// A generation that the repository on disk has reached.
    pub fn generation(&self, name: &BucketName) -> Result<u64, Error> {
        let held = self.hold(name);
        self.with_head(&held, name, false, |read, _| Ok(read.head.generation))
    }

    /// Checks whether the head has changed and brings the repository up to it, unless another request started
    /// a check after this call and has its result.
    fn bring_up(&self, name: &BucketName, entry: &CacheSlot) -> Result<(), Error> {
        entry.checks.run(|| self.ask(name, entry))
    }

    fn ask(&self, name: &BucketName, entry: &CacheSlot) -> Result<(), Error> {
        let asked_with = {
            let mut known = lock(&entry.known);
            if known.is_none() {
                *known = self.look_at_disk(name)?;
            }
            known.as_ref().map(|known| known.version.clone())
        };
        let found = read_head(&self.bucket, name, asked_with.as_ref());
        let mut known = lock(&entry.known);
        // A push or a fold of this node has been swapped in meanwhile.
        let is_changed = known.as_ref().map(|known| &known.version) != asked_with.as_ref();
        match found {
            Ok(None) if known.is_some() => {
                self.counts.hits.fetch_add(1, Relaxed);
                Ok(())
            }
            Ok(Some(read))
                if is_changed
                    && known.as_ref().is_some_and(|known| known.head.generation >= read.head.generation) =>
            {
                self.counts.hits.fetch_add(1, Relaxed);
                Ok(())
            }
            Ok(Some(read)) => {
                self.counts.fills.fetch_add(1, Relaxed);
                self.fill(name, entry, &mut known, read, &FilesAtHand::new())
            }
            // The known head is gone: a concurrent change of the repository has failed.
            Ok(None) => {
                let absent = || Error::damaged(format!("'{}': store returned no version", name.as_str()));
                let read = read_head(&self.bucket, name, None)?.ok_or_else(absent)?;
                self.counts.fills.fetch_add(1, Relaxed);
                self.fill(name, entry, &mut known, read, &FilesAtHand::new())
            }
            Err(error) => {
                // Also what is on disk of a repository that was not brought up since the last start, or ever.
                let is_on_disk = known.is_some() || entry.bytes.load(SeqCst) > 0;
                if error.kind() == ErrorKind::Absent && is_on_disk && !is_changed {
                    *known = None;
                    self.remove(name, entry)?;
                }
                Err(error)
            }
        }
    }

    /// Inspects the disk; only a repository that is known to be complete counts.
    fn look_at_disk(&self, name: &BucketName) -> Result<Option<ReadHead>, Error> {
        let dir = self.repository(name);
        let state = state::read(&self.state(name), self.boot.as_deref());
        if let Some(CacheState { read, .. }) = state.filter(|state| state.is_of_this_boot)
            && apply::is_applied(&dir, &read.head)
        {
            // A killed process may have left files behind.
            remove_others(&dir, &read.head)?;
            return Ok(Some(read));
        }
        // `apply` keeps files that it finds to be right. Without the list of tables, nothing is served before
        // that.
        let list = dir.join("reftable/tables.list");
        durable::remove_file(&list, Role::Refs).map_err(|error| Error::disk(&list, &error))?;
        Ok(None)
    }

    fn fill(
        &self,
        name: &BucketName,
        entry: &CacheSlot,
        known: &mut Option<ReadHead>,
        read: ReadHead,
        at_hand: &FilesAtHand,
    ) -> Result<(), Error> {
        let mut read = read;
        let mut rereads = 0;
        loop {
            let bytes = bytes_of(&read.head);
            // Files that the new head drops are removed only at the end.
            let before = known.as_ref().map_or(0, |known| bytes_lost(&known.head, &read.head));
            self.make_room(name, entry, bytes.saturating_add(before))?;
            let dir = self.repository(name);
            let change = Change {
                bucket: &self.bucket,
                name,
                top: &repositories_dir(&self.dir),
                dir: &dir,
                before: known.as_ref().map(|known| &known.head),
                at_hand,
            };
            match apply(&change, &read.head) {
                Ok(()) => break,
                Err(FetchError::NoRoom(error)) => {
                    if !self.evict_one(name) {
                        return Err(error);
                    }
                }
                // If there is a later head, the objects were folded and collected meanwhile.
                Err(FetchError::Missing(error)) if rereads < MAX_REREADS => {
                    rereads += 1;
                    read = read_head(&self.bucket, name, Some(&read.version))?.ok_or(error)?;
                }
                Err(FetchError::Missing(error) | FetchError::Other(error)) => return Err(error),
            }
        }
        // If the state cannot be written, the disk is inspected again.
        *known = None;
        state::write(&self.state(name), &read, self.boot.as_deref())?;
        remove_others(&self.repository(name), &read.head)?;
        self.set_bytes(entry, bytes_of(&read.head));
        *known = Some(read);
        Ok(())
    }

    fn repository(&self, name: &BucketName) -> PathBuf {
        repositories_dir(&self.dir).join(name.as_str())
    }

    fn state(&self, name: &BucketName) -> PathBuf {
        self.repository(name).join("packrace-cache")
    }

    /// Finds the repositories of the previous process; removes incomplete ones.
    fn find_what_is_there(&self) -> Result<(), Error> {
        for part in ["trash", "scratch"] {
            let dir = self.dir.join(part);
            for entry in list_dir(&dir, Role::Config).map_err(|error| Error::disk(&dir, &error))? {
                let path = dir.join(entry.name);
                durable::remove_tree(&path, Role::Config).map_err(|error| Error::disk(&path, &error))?;
            }
        }
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let dir = repositories_dir(&self.dir).join(&folder);
            for found in list_dir(&dir, Role::Config).map_err(|error| Error::disk(&dir, &error))? {
                let part = found.name.to_str().filter(|_| found.kind == EntryType::Dir);
                let Some(part) = part else { continue };
                let path = if folder.is_empty() { part.to_owned() } else { format!("{folder}/{part}") };
                if !path.ends_with(".git") {
                    folders.push(path);
                } else if let Ok(name) = BucketName::new(&path) {
                    self.find_one(name)?;
                }
            }
        }
        Ok(())
    }

    fn find_one(&self, name: BucketName) -> Result<(), Error> {
        let Some(state) = state::read(&self.state(&name), None) else { return self.discard(&name) };
        files::remove_quarantines(&self.repository(&name))?;
        let entry = Arc::<CacheSlot>::default();
        self.set_bytes(&entry, bytes_of(&state.read.head));
        lock(&self.entries).insert(name, entry);
        Ok(())
    }

    fn set_bytes(&self, entry: &CacheSlot, bytes: u64) {
        let before = entry.bytes.swap(bytes, SeqCst);
        self.bytes.fetch_add(bytes, SeqCst);
        self.bytes.fetch_sub(before, SeqCst);
    }

    /// Evicts other repositories until this one has room, and reserves its bytes.
    fn make_room(&self, name: &BucketName, entry: &CacheSlot, bytes: u64) -> Result<(), Error> {
        let _one_at_a_time = lock(&self.room);
        let before = entry.bytes.load(SeqCst);
        while self.bytes.load(SeqCst).saturating_sub(before).saturating_add(bytes) > self.max_bytes {
            // A repository that can never fit evicts nothing.
            if bytes > self.max_bytes || !self.evict_one(name) {
                let words = format!(
                    "'{}' needs {bytes} bytes in the cache, but repositories in use take {} of its {}; \
                     raise bucket.cache-bytes",
                    name.as_str(),
                    self.bytes.load(SeqCst).saturating_sub(before),
                    self.max_bytes
                );
                return Err(Error::new(ErrorKind::Unavailable, words));
            }
        }
        self.set_bytes(entry, bytes);
        Ok(())
    }

    /// Evicts the least recently used repository that nothing reads, except this one.
    fn evict_one(&self, but: &BucketName) -> bool {
        let mut entries: Vec<(BucketName, Arc<CacheSlot>)> =
            lock(&self.entries).iter().map(|(name, entry)| (name.clone(), entry.clone())).collect();
        entries.retain(|(name, entry)| name != but && entry.bytes.load(SeqCst) > 0);
        entries.sort_by_key(|(_, entry)| entry.used.load(Relaxed));
        entries.iter().any(|(name, entry)| {
            let Ok(mut known) = entry.known.try_lock() else { return false };
            (self.forget)(Path::new(name.as_str()));
            let is_read = lock(&entry.readers).iter().any(|reader| reader.strong_count() > 0);
            if is_read || entry.openers.load(SeqCst) > 0 {
                return false;
            }
            *known = None;
            match self.remove(name, entry) {
                Ok(()) => {
                    self.counts.evictions.fetch_add(1, Relaxed);
                    true
                }
                Err(error) => {
                    tracing::error!("bucket cache: cannot evict a repository: {error}");
                    false
                }
            }
        })
    }

    /// Removes a repository. The caller holds its `known`.
    fn remove(&self, name: &BucketName, entry: &CacheSlot) -> Result<(), Error> {
        (self.forget)(Path::new(name.as_str()));
        self.discard(name)?;
        self.set_bytes(entry, 0);
        Ok(())
    }

    /// The first step hides the repository.
    fn discard(&self, name: &BucketName) -> Result<(), Error> {
        let dir = self.repository(name);
        let trash = self.dir.join("trash").join(format!("{:08x}", durable::random_number()));
        match durable::move_dir(&dir, &trash, Role::Config) {
            Ok(()) => durable::remove_tree(&trash, Role::Config).map_err(|error| Error::disk(&trash, &error)),
            Err(error) if packrace_os::is_absent(&error) => Ok(()),
            Err(error) => Err(Error::disk(&dir, &error)),
        }
    }

    /// Absent repositories are not remembered.
    fn forget_absent(&self, name: &BucketName, entry: &Arc<CacheSlot>) {
        let mut entries = lock(&self.entries);
        let is_idle = Arc::strong_count(entry) == 2 && entry.bytes.load(SeqCst) == 0;
        if is_idle && entries.get(name).is_some_and(|other| Arc::ptr_eq(other, entry)) {
            entries.remove(name);
        }
    }
}

/// Exports a repository as an ordinary bare one with reftables, to a directory that does not exist yet.
pub fn export(bucket: &Bucket, name: &BucketName, dir: &Path) -> Result<(), Error> {
    let absent = || Error::new(ErrorKind::Absent, format!("'{}' is not in the bucket", name.as_str()));
    let read = read_head(bucket, name, None)?.ok_or_else(absent)?;
    let top = dir.parent().unwrap_or(dir);
    let change = Change { bucket, name, top, dir, before: None, at_hand: &FilesAtHand::new() };
    apply(&change, &read.head).map_err(|error| match error {
        FetchError::Missing(error) | FetchError::NoRoom(error) | FetchError::Other(error) => error,
    })
}

/// The size of the files of a repository.
fn bytes_of(head: &Head) -> u64 {
    apply::files(head).fold(0, |sum: u64, (_, file, _)| sum.saturating_add(file.length))
}

/// The size of the files that a later head does not name.
fn bytes_lost(before: &Head, after: &Head) -> u64 {
    let named = apply::by_path(after);
    let lost = apply::files(before).filter(|(path, file, _)| named.get(path) != Some(file));
    lost.fold(0, |sum: u64, (_, file, _)| sum.saturating_add(file.length))
}

#[cfg(test)]
mod tests;
