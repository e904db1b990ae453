//! The files backend's part of a transaction: `<ref>.lock` for each ref, or `packed-refs.lock` for many at once.
//!
//! ```text
//! one ref      <ref>.lock ─write→ sync → rename                             (gitrepository-layout, "refs")
//! many refs    packed-refs.lock ─ packed-refs.new ─ sync → rename → sync directory → look for loose ones that came meanwhile
//! deletion     <ref>.lock, packed-refs.lock ─ packed-refs without it → loose file away → reflog away
//! at the end   sync directories
//! ```
//!
//! A transaction of many refs without loose files writes `packed-refs` once instead of one file per ref. A
//! concurrent stock git locks `<ref>.lock` to create such a ref. If the lock exists beforehand, the ref is
//! refused as locked. If it appears between our check and our write, git's value wins, because a loose ref
//! overrides a packed one, and ours is refused: two writers are never both told that they were first.

mod packed;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use packrace_object::HashKind;
use packrace_os::count::Role;
use packrace_os::durable;
use packrace_os::is_absent;

use super::super::files::{LooseFile, LooseValue, read_loose};
use super::super::packed_file::PackedFile;
use super::super::{LogEntry, MAX_LINKS, RefDirs, RefError, is_per_worktree, reflog};
use super::directories::{
    Listings, clear_way, first_file, is_dir, make_way, remove_empty_parents, remove_tree, rename,
};
use super::sync::sync_all;
use super::{
    Cause, CommitWork, LockedRef, PrepareError, RefChange, RefEdit, RefObjects, RefStep, RefWrites, Refusal,
    Value,
};
use crate::publish::{Component, FileKind, LockFile, make_dir_below};
use crate::refs::RefStore;

/// With this many refs or more, `packed-refs` is rewritten.
const LEAST_BULK: usize = 32;

/// And at least this many per megabyte of the file: copying one costs about as much as ten loose refs.
const LEAST_BULK_A_MEGABYTE: usize = 10;

/// The ref whose reflog is the list of all stashes (git-stash, "DISCUSSION").
const STASH: &[u8] = b"refs/stash";

/// How often a directory is recreated that another process removes.
const MAX_TRIES: usize = 5;

/// The locks of refs, and the values written under them.
#[derive(Debug)]
pub(super) struct FileLocks {
    dirs: RefDirs,
    hash: HashKind,
    writes: RefWrites,
    packed: PackedFile,
    packed_lock: Option<LockFile>,
    /// New refs, for whose locks directories may have been made, which an abort removes.
    housed: HashSet<Vec<u8>>,
    /// Steps of new refs where files or locks of other refs were in the way.
    blocked: HashSet<usize>,
    /// Whether refs without a loose file are written to `packed-refs`.
    is_bulk: bool,
    listings: Listings,
    taken: HashMap<usize, Taken>,
}

#[derive(Debug)]
enum Taken {
    Lock {
        lock: LockFile,
        /// There is no loose file.
        is_new: bool,
    },
    /// There is no loose file; the packed one is locked.
    Packed,
}

/// The result of taking the lock of a ref.
pub(super) enum LockedFile {
    Held(LockFile),
    Refused(Cause),
}

impl FileLocks {
    pub(super) fn begin(
        store: &RefStore,
        edits: &[RefEdit],
        writes: &RefWrites,
    ) -> Result<Self, PrepareError> {
        let dirs = store.dirs.clone();
        let packed = PackedFile::read(&dirs, store.hash)?;
        let shared = edits.iter().filter(|edit| is_packable(&edit.name, &edit.change)).count();
        let least = LEAST_BULK.max((packed.len() >> 20) * LEAST_BULK_A_MEGABYTE);
        let mut locks = FileLocks {
            dirs,
            hash: store.hash,
            writes: writes.clone(),
            packed,
            packed_lock: None,
            housed: HashSet::new(),
            blocked: HashSet::new(),
            is_bulk: shared >= least,
            listings: Listings::default(),
            taken: HashMap::new(),
        };
        if locks.is_bulk {
            locks.lock_packed()?;
        }
        Ok(locks)
    }

    /// Takes the lock of a step's ref and reads it.
    pub(super) fn take(&mut self, at: usize, step: &RefStep) -> Result<LockedRef, PrepareError> {
        if self.is_bulk && is_packable(&step.name, &step.change) {
            let path = self.dirs.path_of(&step.name);
            if !self.listings.has(&path)? && !self.listings.has(&lock_of(&path))? {
                self.taken.insert(at, Taken::Packed);
                return self.locked_as_packed(&step.name);
            }
        }
        let lock = match self.lock(&step.name)? {
            LockedFile::Held(lock) => lock,
            LockedFile::Refused(Cause::Conflict { name, .. }) if step.expected.is_value() => {
                return Ok(LockedRef::Refused(Cause::Missing(name)));
            }
            LockedFile::Refused(cause) => {
                self.blocked.insert(at);
                return Ok(LockedRef::Refused(cause));
            }
        };
        let loose = read_loose(&self.dirs, &step.name, self.hash)?;
        self.taken.insert(at, Taken::Lock { lock, is_new: loose == LooseFile::Absent });
        match loose {
            LooseFile::Is(loose) => Ok(LockedRef::Held(Some(value(loose)))),
            LooseFile::Broken => Ok(LockedRef::Refused(Cause::Broken(step.name.clone()))),
            LooseFile::Looped => {
                let name = String::from_utf8_lossy(&step.name);
                let words =
                    format!("unable to resolve reference '{name}': Too many levels of symbolic links");
                Ok(LockedRef::Refused(Cause::Blocked(words)))
            }
            LooseFile::Absent => {
                self.housed.insert(step.name.clone());
                if self.packed_lock.is_none() {
                    self.packed.refresh(&self.dirs, self.hash)?;
                }
                let packed = self.locked_as_packed(&step.name)?;
                // What is in the way of the file of a packed ref shows when all else is right.
                if matches!(packed, LockedRef::Held(None))
                    && let Some(cause) = self.clear_for(at, step)?
                {
                    return Ok(LockedRef::Refused(match step.expected.is_value() {
                        true => Cause::Missing(step.name.clone()),
                        false => cause,
                    }));
                }
                Ok(packed)
            }
        }
    }

    /// Gives back the lock of a step, if it has one.
    pub(super) fn release(&mut self, at: usize) {
        self.taken.remove(&at);
    }

    /// A locked ref with its value in `packed-refs`.
    fn locked_as_packed(&self, name: &[u8]) -> Result<LockedRef, PrepareError> {
        Ok(LockedRef::Held(self.packed.find(name)?.map(|(id, _)| Value::Id(id))))
    }

    /// The length of `packed-refs` in bytes.
    pub(super) fn packed_len(&self) -> usize {
        self.packed.len()
    }

    /// An error if a line of `packed-refs` is damaged.
    pub(super) fn check_packed(&self) -> Result<(), RefError> {
        self.packed.check_lines()
    }

    /// The value of a ref that is not locked.
    pub(super) fn read(&mut self, name: &[u8]) -> Result<Option<Value>, PrepareError> {
        Ok(match read_loose(&self.dirs, name, self.hash)? {
            LooseFile::Is(loose) => Some(value(loose)),
            LooseFile::Broken | LooseFile::Looped => None,
            LooseFile::Absent => self.packed.find(name)?.map(|(id, _)| Value::Id(id)),
        })
    }

    /// Whether there is a ref of this name.
    pub(super) fn exists(&mut self, name: &[u8]) -> Result<bool, PrepareError> {
        Ok(self.has_file(name)? || self.packed.find(name)?.is_some())
    }

    /// Whether files or locks were in the way of the new ref of a step when it was locked.
    pub(super) fn was_blocked(&self, at: usize) -> bool {
        self.blocked.contains(&at)
    }

    /// Whether a ref has a file of its own.
    pub(super) fn has_file(&self, name: &[u8]) -> Result<bool, RefError> {
        let path = self.dirs.path_of(name);
        let file =
            packrace_os::identity(&path, Role::Refs).map_err(|source| RefError::Io { path, source })?;
        Ok(file.is_some_and(|file| file.is_file))
    }

    /// The first ref below a name.
    pub(super) fn first_below(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>, PrepareError> {
        let prefix = [name, b"/"].concat();
        if let Some(name) = self.packed.first_below(&prefix)? {
            return Ok(Some(name));
        }
        let path = self.dirs.path_of(name);
        if self.is_bulk && !self.listings.has(&path)? {
            return Ok(None);
        }
        Ok(first_file(&path, &prefix)?)
    }

    /// Writes new values into the locks; nothing is visible yet.
    pub(super) fn stage(&mut self, steps: &mut [RefStep], refused: &[Refusal]) -> Result<(), PrepareError> {
        let is_refused: HashSet<usize> = refused.iter().map(|refusal| refusal.edit).collect();
        self.taken.retain(|at, _| !is_refused.contains(&steps[*at].edit));
        for (at, taken) in &mut self.taken {
            let Taken::Lock { lock, is_new } = taken else { continue };
            let step = &steps[*at];
            if *is_new && step.old.is_some() && step.writes_value() {
                // A packed ref may get a file where a directory is. Git finds out later, when other refs have changed.
                make_way(&self.dirs.path_of(&step.name), &step.name)?;
            }
            let line = match &step.change {
                _ if !step.writes_value() => continue,
                RefChange::Verify | RefChange::Delete => continue,
                RefChange::Set(id) => format!("{id}\n").into_bytes(),
                RefChange::SetSymbolic(target) => [b"ref: ", target.as_slice(), b"\n"].concat(),
            };
            lock.write(&line).map_err(io_error)?;
        }
        let deletes = |at: &usize| !steps[*at].is_log_only && steps[*at].change == RefChange::Delete;
        if self.packed_lock.is_none() && self.taken.keys().any(deletes) {
            self.lock_packed()?;
        }
        Ok(())
    }

    /// Makes everything visible: reflogs, then `packed-refs`, then loose files. As in git, a reflog that cannot be written
    /// leaves all refs as they were.
    pub(super) fn commit(
        mut self,
        work: &CommitWork<'_>,
        objects: &mut dyn RefObjects,
    ) -> Result<Vec<Refusal>, PrepareError> {
        self.settle(work)?;
        let mut changed_dirs: BTreeSet<PathBuf> = BTreeSet::new();
        let packing = self.stage_packed(work, objects)?;
        let mut steps: Vec<(usize, &RefStep)> = work.steps().collect();
        let stashes = self.log(work, &steps, &mut changed_dirs)?;
        let late = match packing {
            Some(packing) => self.commit_packed(work, packing, objects)?,
            None => Vec::new(),
        };
        let is_late: HashSet<usize> = late.iter().map(|refusal| refusal.edit).collect();
        steps.retain(|(_, step)| !is_late.contains(&step.edit));
        for (at, step) in &steps {
            let Some(Taken::Lock { lock, is_new }) = self.taken.remove(at) else { continue };
            let path = self.dirs.path_of(&step.name);
            match &step.change {
                RefChange::Set(_) | RefChange::SetSymbolic(_) if step.writes_value() => {
                    rename(lock, &path, &step.name)?;
                    self.housed.remove(&step.name);
                    // The directories of a new file may be new too, or made by a process that did not sync them.
                    let depth =
                        if is_new { step.name.iter().filter(|byte| **byte == b'/').count() } else { 1 };
                    changed_dirs.extend(path.ancestors().skip(1).take(depth.max(1)).map(Path::to_owned));
                }
                RefChange::Delete if !step.is_log_only => {
                    let is_there = durable::remove_file(&path, Role::Refs);
                    let is_there = match is_there {
                        Err(error) if error.kind() == ErrorKind::IsADirectory || is_absent(&error) => false,
                        result => result.map_err(|source| RefError::Io { path: path.clone(), source })?,
                    };
                    drop(lock);
                    if is_there {
                        changed_dirs.extend(path.parent().map(Path::to_owned));
                    }
                }
                RefChange::Verify | RefChange::Set(_) | RefChange::SetSymbolic(_) | RefChange::Delete => {}
            }
        }
        for (_, step) in
            steps.iter().filter(|(_, step)| !step.is_log_only && step.change == RefChange::Delete)
        {
            self.remove_log(&step.name)?;
            let place = self.dirs.place(&step.name);
            remove_empty_parents(&self.dirs.dir(place.holder), place.name);
        }
        if self.writes.policy.syncs_names(Component::Reference) {
            sync_all(stashes.as_deref(), &changed_dirs)?;
        }
        Ok(late)
    }

    /// Makes new values of loose refs durable, all in one wait: as the policy says, and always if there was a value before.
    fn settle(&mut self, work: &CommitWork<'_>) -> Result<(), PrepareError> {
        let mut locks = Vec::new();
        let mut all: Vec<_> = self.taken.iter_mut().collect();
        all.sort_unstable_by_key(|(at, _)| **at);
        for (at, taken) in all {
            let step = &work.steps[*at];
            let Taken::Lock { lock, .. } = taken else { continue };
            if !step.writes_value() {
                continue;
            }
            if step.old.is_some() {
                lock.set_rewrite();
            }
            locks.push(lock);
        }
        LockFile::settle_all(locks).map_err(io_error)
    }

    pub(super) fn lock_packed(&mut self) -> Result<(), PrepareError> {
        let path = self.packed_path()?;
        let patience = self.writes.packed_patience;
        let lock =
            LockFile::take_within(&path, FileKind::Refs, self.writes.policy, patience).map_err(io_error)?;
        self.packed_lock = Some(lock);
        self.packed = PackedFile::read(&self.dirs, self.hash)?;
        Ok(())
    }

    /// The file behind `packed-refs`, which may be a symbolic link: git locks and replaces the file that it leads to.
    fn packed_path(&self) -> Result<PathBuf, RefError> {
        let path = self.dirs.common_dir.join("packed-refs");
        match packrace_os::follow_links(&path, MAX_LINKS, Role::Refs) {
            Ok(followed) if !followed.is_link => Ok(followed.path),
            Ok(followed) => Err(RefError::Io { path: followed.path, source: ErrorKind::TooManyLinks.into() }),
            Err(source) => Err(RefError::Io { path, source }),
        }
    }

    /// Removes empty directories where the new ref of a step gets its file. As in git, also if it gets none.
    fn clear_for(&mut self, at: usize, step: &RefStep) -> Result<Option<Cause>, RefError> {
        let path = self.dirs.path_of(&step.name);
        if !is_dir(&path) {
            return Ok(None);
        }
        let mut is_used = first_file(&path, b"")?.is_some();
        if !is_used {
            remove_tree(&path, false)?;
            // A lock is there: a conflict of two names of this transaction.
            let below = [step.name.as_slice(), b"/"].concat();
            is_used = is_dir(&path) && self.housed.iter().any(|other| other.starts_with(&below));
        }
        if is_used {
            // What is there is reported with the names.
            self.blocked.insert(at);
            return Ok(None);
        }
        let (name, shown) = (String::from_utf8_lossy(&step.name), self.dirs.shown(&path));
        let words =
            || format!("there is a non-empty directory '{}' blocking reference '{name}'", shown.display());
        Ok(is_dir(&path).then(|| Cause::Occupied(words())))
    }

    /// Takes `<name>.lock`; its directory need not exist.
    pub(super) fn lock(&mut self, name: &[u8]) -> Result<LockedFile, PrepareError> {
        let path = self.dirs.path_of(name);
        let policy = self.writes.policy;
        for _ in 0..MAX_TRIES {
            let taken = LockFile::take_within(&path, FileKind::Refs, policy, self.writes.files_patience);
            let error = match taken {
                Ok(lock) => return Ok(LockedFile::Held(lock)),
                Err(error) => error,
            };
            if error.is_locked() || error.is_unlockable() {
                return Ok(LockedFile::Refused(Cause::Locked(error.to_string())));
            }
            if let Some(existing) = self.ref_above(name)? {
                let name = name.to_vec();
                return Ok(LockedFile::Refused(Cause::Conflict { name, existing, is_at_lock: true }));
            }
            if !error.is_not_found() {
                return Err(io_error(error));
            }
            let dir = path.parent().unwrap_or(&path);
            make_dir_below(self.dirs.top_of(name), dir, Role::Refs, policy).map_err(io_error)?;
        }
        let words = format!("Unable to create '{}': No such file or directory", lock_of(&path).display());
        Ok(LockedFile::Refused(Cause::Locked(words)))
    }

    /// The ref whose file is where `name` needs a directory.
    fn ref_above(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>, PrepareError> {
        for (end, _) in name.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            if self.exists(&name[..end])? {
                return Ok(Some(name[..end].to_vec()));
            }
        }
        Ok(None)
    }

    /// Appends to all reflogs. As in git, they are not synced, because no ref depends on them, except for the
    /// list of stashes: if that got a line, returns its path, and adds its directories to those to be synced.
    fn log(
        &mut self,
        work: &CommitWork<'_>,
        steps: &[(usize, &RefStep)],
        changed_dirs: &mut BTreeSet<PathBuf>,
    ) -> Result<Option<PathBuf>, PrepareError> {
        let mut stashes = None;
        for (_, step) in steps {
            let edit = &work.edits[step.edit];
            let Some(entry) = work.logged(step, self.hash) else { continue };
            let message = reflog::clean_message(&edit.message);
            let line =
                LogEntry { old: entry.0, new: entry.1, who: &work.writes.who, message: &message }.line();
            let is_begun = edit.force_log || self.writes.log.begins(&step.name);
            let path = self.dirs.log_of(&step.name);
            if !is_begun && self.is_bulk && !self.listings.has(&path)? {
                continue;
            }
            let is_there = self.append(&step.name, &path, &line, is_begun)?;
            if is_there && step.name == STASH {
                let logs = step.name.iter().filter(|byte| **byte == b'/').count() + 2;
                changed_dirs.extend(path.ancestors().skip(1).take(logs).map(Path::to_owned));
                stashes = Some(path);
            }
        }
        Ok(stashes)
    }

    /// Appends a line to a reflog, creating the log if `is_begun`; false if there is none.
    fn append(&self, name: &[u8], path: &Path, line: &[u8], is_begun: bool) -> Result<bool, PrepareError> {
        let policy = self.writes.policy;
        let mode = is_begun.then_some(0o666);
        for _ in 0..MAX_TRIES {
            let shared = |mode| policy.file_mode(mode);
            let error = match durable::append(path, line, mode, shared, false, Role::Refs) {
                Ok(is_there) => return Ok(is_there),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::NotFound if is_begun => {
                    let dir = path.parent().unwrap_or(path);
                    make_dir_below(self.dirs.top_of(name), dir, Role::Refs, policy).map_err(io_error)?;
                }
                // No log of this name, only logs below it, or nothing at all.
                ErrorKind::IsADirectory if !is_begun => return Ok(false),
                ErrorKind::NotADirectory if !is_begun => return Ok(false),
                ErrorKind::IsADirectory | ErrorKind::NotADirectory
                    if clear_way(&self.dirs.logs_of(name), path)? => {}
                _ => return Err(not_logged(name, path, error).into()),
            }
        }
        Err(not_logged(name, path, ErrorKind::NotFound.into()).into())
    }

    pub(super) fn remove_log(&mut self, name: &[u8]) -> Result<(), PrepareError> {
        let path = self.dirs.log_of(name);
        if self.is_bulk && !self.listings.has(&path)? {
            return Ok(());
        }
        match durable::remove_file(&path, Role::Refs) {
            Ok(true) => {
                let place = self.dirs.place(name);
                remove_empty_parents(&self.dirs.dir(place.holder), &[b"logs/", place.name].concat());
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(error) if is_absent(&error) || error.kind() == ErrorKind::IsADirectory => Ok(()),
            Err(source) => Err(RefError::Io { path, source }.into()),
        }
    }
}

impl Drop for FileLocks {
    fn drop(&mut self) {
        self.taken.clear();
        for name in &self.housed {
            let place = self.dirs.place(name);
            remove_empty_parents(&self.dirs.dir(place.holder), place.name);
        }
    }
}

/// A ref that keeps its value because its log cannot get a line.
fn not_logged(name: &[u8], path: &Path, error: std::io::Error) -> RefError {
    let words = format!(
        "cannot update the ref '{}': unable to append to '{}': {}",
        String::from_utf8_lossy(name),
        path.display(),
        packrace_os::reason(&error)
    );
    RefError::File { words, source: Box::new(crate::error::Error::io(path, error)) }
}

/// Whether `packed-refs` can hold the change.
fn is_packable(name: &[u8], change: &RefChange) -> bool {
    let is_value = matches!(change, RefChange::Set(_) | RefChange::Delete);
    is_value && name.starts_with(b"refs/") && !is_per_worktree(name)
}

fn value(loose: LooseValue) -> Value {
    match loose {
        LooseValue::Direct(id) => Value::Id(id),
        LooseValue::Symbolic(target) => Value::Symbolic(target),
    }
}

pub(super) fn io_error(error: crate::error::Error) -> PrepareError {
    PrepareError::Store(error.into())
}

fn lock_of(path: &Path) -> PathBuf {
    crate::paths::with_extension(path, "lock")
}
