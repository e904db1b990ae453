//! Repositories of a bucket on a node's own disk: each an ordinary bare repository with reftables.
//!
//! ```text
//! repositories/<name>                  what is served
//! repositories/<name>/packrace-cache   which head that is; without it, it goes at the next start
//! trash/                               what is being removed
//! scratch/                             copies of stacks of refs, for pushes
//! ```
//!
//! Every request asks the bucket whether the head has changed; those that come while somebody asks wait for the next answer
//! together. So nobody is served anything older than what was there when they came, and a bucket that does not answer
//! makes everybody fail: nothing stale is ever served.

mod apply;
mod files;
mod parts;
mod state;

use std::collections::{HashMap, HashSet};
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
pub(crate) use self::files::FilesAtHand;
use self::files::{FetchError, make_dirs};
use self::state::CacheState;
use crate::bucket::Bucket;
use crate::error::{Error, ErrorKind};
use crate::layout::BucketName;
use crate::repository::{self, LocalRepository, ReadHead, read_head};

/// How often a head is read again because what it names is missing.
const MAX_REREADS: u32 = 4;

/// What a cache has done. Counts.
#[derive(Debug, Default)]
pub struct CacheCounts {
    /// Requests that found the repository as its head says.
    pub hits: AtomicU64,
    /// Those that had to bring it up to it.
    pub fills: AtomicU64,
    /// Repositories that had to go.
    pub evictions: AtomicU64,
}

/// Repositories of a bucket on disk.
pub struct Cache {
    bucket: Bucket,
    dir: PathBuf,
    max_bytes: u64,
    /// Held alone as long as this value is there.
    _held: HeldDir,
    boot: Option<Vec<u8>>,
    entries: Mutex<HashMap<BucketName, Arc<CacheSlot>>>,
    /// Held while room is made.
    room: Mutex<()>,
    /// What all repositories take, and those that are being filled.
    bytes: AtomicU64,
    uses: AtomicU64,
    counts: CacheCounts,
    /// Told before a repository goes, so that nobody keeps it open who does not use it.
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

/// One repository.
#[derive(Debug, Default)]
pub(crate) struct CacheSlot {
    /// Held by the one who asks the bucket; with what came of asking last.
    asking: Mutex<Option<Result<(), Error>>>,
    /// What is on disk, once that was looked at. Held by the one who changes the repository, and not while the bucket is asked: pushes
    /// that have just been swapped in would wait for all who ask.
    known: Mutex<Option<ReadHead>>,
    /// How often somebody has begun to ask.
    begun: AtomicU64,
    /// When it was last asked for, counted in uses of all.
    used: AtomicU64,
    bytes: AtomicU64,
    /// Who is about to open it.
    openers: AtomicUsize,
    /// Who may still read it.
    readers: Mutex<Vec<Weak<Repository>>>,
}

/// Keeps a repository from going.
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

/// Below the directory of a cache: where the repositories are.
pub fn repositories_dir(dir: &Path) -> PathBuf {
    dir.join("repositories")
}

impl Cache {
    /// The cache in a directory, which is made if it is not there and belongs to this value alone. `forget` is told, by its path
    /// below [`repositories_dir`], of a repository that is about to go.
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

    /// What it has done.
    pub fn counts(&self) -> &CacheCounts {
        &self.counts
    }

    /// What all repositories take on disk.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The repository of this name as it is in the bucket now or later, opened by `open`, which gets its path below
    /// [`repositories_dir`]. It stays on disk for as long as what `open` gives is there.
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

    /// Keeps the repository of this name on disk, once it is there.
    pub(crate) fn hold(&self, name: &BucketName) -> Opening {
        Opening::of(lock(&self.entries).entry(name.clone()).or_default())
    }

    /// Hands the head that the repository on disk is to `look`, which must not take long: whoever has another one waits to bring the
    /// repository up to it. The bucket is asked where nothing is known, or if `is_asked`.
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
        // Somebody's change of it has just failed.
        let gone = || Error::new(ErrorKind::Unavailable, format!("'{}': fetching it again", name.as_str()));
        look(known.as_ref().ok_or_else(gone)?, &self.repository(name))
    }

    /// Makes a second repository of the files of the newest one. They must not be written to.
    pub(crate) fn link_newest(&self, held: &Opening, name: &BucketName, dir: &Path) -> Result<Head, Error> {
        self.with_head(held, name, true, |read, repository| {
            apply::link(&self.scratch_dir(), repository, dir, &read.head)?;
            Ok(read.head.clone())
        })
    }

    /// Makes the repository on disk what a head says that was just put into the bucket, unless it is newer already.
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

    /// Puts a repository into the bucket that `make` makes in a directory of this name, which is removed again, with the hash that
    /// it tells. Its settings stay behind.
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

    /// A folder for copies, which is emptied at the next start.
    pub(crate) fn scratch_dir(&self) -> PathBuf {
        self.dir.join("scratch")
    }

    /// The repository that is kept in this directory.
    pub fn name_of(&self, git_dir: &Path) -> Option<BucketName> {
        let path = git_dir.strip_prefix(repositories_dir(&self.dir)).ok()?;
        BucketName::new(path.to_str()?).ok()
    }

    /// The generation of the head that a repository is, at least: later it may be a later one.
    pub fn generation(&self, name: &BucketName) -> Result<u64, Error> {
        let held = self.hold(name);
        self.with_head(&held, name, false, |read, _| Ok(read.head.generation))
    }

    /// Asks whether the head has changed, unless somebody who began to after this call has the answer; makes the repository
    /// what it says.
    fn bring_up(&self, name: &BucketName, entry: &CacheSlot) -> Result<(), Error> {
        let begun_before = entry.begun.load(SeqCst);
        let mut last = lock(&entry.asking);
        if entry.begun.load(SeqCst) > begun_before
            && let Some(last) = &*last
        {
            return last.clone();
        }
        entry.begun.fetch_add(1, SeqCst);
        // A panic leaves nothing that others would take for an answer.
        *last = None;
        let result = self.ask(name, entry);
        *last = Some(result.clone());
        result
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
            // What was known is no more: somebody's change of it has failed.
            Ok(None) => {
                let absent = || Error::damaged(format!("'{}': store returned no version", name.as_str()));
                let read = read_head(&self.bucket, name, None)?.ok_or_else(absent)?;
                self.counts.fills.fetch_add(1, Relaxed);
                self.fill(name, entry, &mut known, read, &FilesAtHand::new())
            }
            Err(error) => {
                // Also what is there of one that was never brought up, or not since the last start.
                let is_on_disk = known.is_some() || entry.bytes.load(SeqCst) > 0;
                if error.kind() == ErrorKind::Absent && is_on_disk {
                    *known = None;
                    self.remove(name, entry)?;
                }
                Err(error)
            }
        }
    }

    /// What is on disk: only what is known to be whole.
    fn look_at_disk(&self, name: &BucketName) -> Result<Option<ReadHead>, Error> {
        let dir = self.repository(name);
        let state = state::read(&self.state(name), self.boot.as_deref());
        if let Some(CacheState { read, .. }) = state.filter(|state| state.is_of_this_boot)
            && apply::is_applied(&dir, &read.head)
        {
            // Whoever was killed may have left some.
            remove_others(&dir, &read.head)?;
            return Ok(Some(read));
        }
        // A file that is right is found to be so, and is not fetched again; but nothing is served before that.
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
            // While it is filled, what goes then is still there.
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
                // What it names was folded and collected meanwhile, if there is a later one.
                Err(FetchError::Missing(error)) if rereads < MAX_REREADS => {
                    rereads += 1;
                    read = read_head(&self.bucket, name, Some(&read.version))?.ok_or(error)?;
                }
                Err(FetchError::Missing(error) | FetchError::Other(error)) => return Err(error),
            }
        }
        // If it cannot be remembered, it is looked at anew.
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

    /// Repositories that were brought up before this start count; what was begun and not ended goes.
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

    /// Makes others go until a repository has room for so many bytes, and counts them as taken.
    fn make_room(&self, name: &BucketName, entry: &CacheSlot, bytes: u64) -> Result<(), Error> {
        let _one_at_a_time = lock(&self.room);
        let before = entry.bytes.load(SeqCst);
        while self.bytes.load(SeqCst).saturating_sub(before).saturating_add(bytes) > self.max_bytes {
            // For what never fits, nobody has to go.
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

    /// Removes the repository that was not used for the longest time and that nobody reads, but not this one.
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

    /// Whose turn it is removes it.
    fn remove(&self, name: &BucketName, entry: &CacheSlot) -> Result<(), Error> {
        (self.forget)(Path::new(name.as_str()));
        self.discard(name)?;
        self.set_bytes(entry, 0);
        Ok(())
    }

    /// Nobody finds it from the first step on.
    fn discard(&self, name: &BucketName) -> Result<(), Error> {
        let dir = self.repository(name);
        let trash = self.dir.join("trash").join(format!("{:08x}", durable::random_number()));
        match durable::move_dir(&dir, &trash, Role::Config) {
            Ok(()) => durable::remove_tree(&trash, Role::Config).map_err(|error| Error::disk(&trash, &error)),
            Err(error) if packrace_os::is_absent(&error) => Ok(()),
            Err(error) => Err(Error::disk(&dir, &error)),
        }
    }

    /// What is not there is not remembered.
    fn forget_absent(&self, name: &BucketName, entry: &Arc<CacheSlot>) {
        let mut entries = lock(&self.entries);
        let is_idle = Arc::strong_count(entry) == 2 && entry.bytes.load(SeqCst) == 0;
        if is_idle && entries.get(name).is_some_and(|other| Arc::ptr_eq(other, entry)) {
            entries.remove(name);
        }
    }
}

/// Makes an ordinary bare repository of one in a bucket, with reftables, in a directory that is not there yet.
pub fn export(bucket: &Bucket, name: &BucketName, dir: &Path) -> Result<(), Error> {
    let absent = || Error::new(ErrorKind::Absent, format!("'{}' is not in the bucket", name.as_str()));
    let read = read_head(bucket, name, None)?.ok_or_else(absent)?;
    let top = dir.parent().unwrap_or(dir);
    let change = Change { bucket, name, top, dir, before: None, at_hand: &FilesAtHand::new() };
    apply(&change, &read.head).map_err(|error| match error {
        FetchError::Missing(error) | FetchError::NoRoom(error) | FetchError::Other(error) => error,
    })
}

/// What the files of a repository take.
fn bytes_of(head: &Head) -> u64 {
    apply::files(head).fold(0, |sum: u64, (_, file, _)| sum.saturating_add(file.length))
}

/// What those files of a repository take that a later head does not name.
fn bytes_lost(before: &Head, after: &Head) -> u64 {
    let named: HashSet<_> = apply::files(after).map(|(path, file, _)| (path, file)).collect();
    let lost = apply::files(before).filter(|(path, file, _)| !named.contains(&(path.clone(), *file)));
    lost.fold(0, |sum: u64, (_, file, _)| sum.saturating_add(file.length))
}

#[cfg(test)]
mod tests;
