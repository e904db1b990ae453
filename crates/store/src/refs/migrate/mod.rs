//! Moves refs from one backend to the other (git-refs, "migrate").
//!
//! ```text
//! config.lock ─ refs read ─ written below ref_migration.XXXXXX ─ what another migration left goes ─ moved into place ─ synced
//!             ─ config: extensions.refStorage                                        ← from here on the new ones count
//!             ─ old ones away ─ to reftables: HEAD and refs/heads that only tell old versions of git to keep off
//! ```
//!
//! # States after a crash or a kill
//!
//! Only the configuration selects the backend, and it is replaced in one step. Neither backend reads the
//! files of the other, except `HEAD` and `refs/`, which make the directory a repository and always exist. So
//! these states are possible, and each is a working repository:
//!
//! 1. Old configuration, old refs complete. New refs are in `ref_migration.XXXXXX` and partly in their final
//!    place. Migrating again removes those in their final place.
//! 2. New configuration, new refs complete. Some old refs still exist, unread. Migrating back removes them
//!    before their replacements are moved into place.
//!
//! Either state may include `ref_migration.XXXXXX`, which may be removed, and locks. Everything is synced,
//! regardless of `core.fsync`, because the old refs are deleted.
//!
//! Git itself removes the old refs before the new ones are in place and changes the configuration last. If it
//! is killed in between, the state is recognized by its `HEAD` and not touched.
//!
//! Refs written during a migration can get lost, as with git. Reftables and packed refs are locked, so
//! such writes fail.

mod config;
mod place;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use packrace_object::ObjectId;
use packrace_os::count::Role;
use packrace_os::durable::{self, random_number};

use super::transaction::AllRefs;
use super::{
    Backend, CheckedRefs, PrepareError, RefError, RefObjects, RefStore, RefWrites, STUB_HEAD, STUB_HEADS,
    Target, Value, is_root_name,
};
use crate::publish::{FileKind, LockFile, make_dir_below};

/// Longest `HEAD` that is read.
const MAX_HEAD_BYTES: u64 = 4096;

/// How refs are moved.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// The target backend.
    pub to: Backend,
    /// Whether reflogs are moved too; otherwise they are deleted.
    pub keeps_logs: bool,
    /// Whether new refs are only written, beside the old ones.
    pub is_dry_run: bool,
}

impl RefStore {
    /// Moves all refs to another backend. A dry run returns the directory of the new refs.
    pub fn migrate(
        &self,
        migration: &Migration,
        writes: &RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<Option<PathBuf>, PrepareError> {
        if migration.to == self.backend {
            let words = format!("repository already uses '{}' format", self.backend.name());
            return Err(RefError::Write(words).into());
        }
        let top = &self.dirs.common_dir;
        if place::has_entries(&self.repository().join("worktrees"))? {
            return Err(refused("migrating repositories with worktrees is not supported yet"));
        }
        let hooks = writes.hooks.clone();
        let mut writes = RefWrites { hooks: None, ..writes.clone() };
        writes.policy = writes.policy.of_rewrites();
        let config = match migration.is_dry_run {
            true => None,
            false => Some(self.lock_config(migration.to, &writes)?),
        };
        let lock_of_old = self.lock_out(&writes)?;
        self.check_left(migration.to)?;
        let whole = self.whole(migration.keeps_logs)?;
        whole.ask_hook(hooks.as_ref(), migration.to, ObjectId::null(self.hash))?;
        let new = make_new_dir(top)?;
        let result = write_new(&new, self, migration.to, whole, &writes, objects);
        let Some((lock, text)) = config else { return result.map(|()| Some(new)) };
        let result = result.and_then(|()| {
            self.put_in_place(&new, migration.to, &writes)?;
            let mut lock = lock;
            lock.write(&text).and_then(|()| lock.commit()).map_err(failed)
        });
        if let Err(error) = result {
            // Report the first error; leftovers do no harm.
            let _ = super::transaction::remove_tree(&new, true);
            return Err(error);
        }
        self.remove_old(&new, &writes)?;
        drop(lock_of_old);
        Ok(None)
    }

    /// Copies all refs, without reflogs, into a store that has only a `HEAD`, which is replaced; broken
    /// refs are refused.
    pub fn copy_all(
        &self,
        to: &RefStore,
        writes: &RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<(), PrepareError> {
        to.write_all(self.whole(false)?, writes, objects)
    }

    /// Locks the configuration and returns its new text.
    fn lock_config(&self, to: Backend, writes: &RefWrites) -> Result<(LockFile, Vec<u8>), PrepareError> {
        let path = self.repository().join("config");
        let io = |source| RefError::Io { path: path.clone(), source };
        // If it is a symbolic link, its target is replaced.
        let real = packrace_os::real_path(&path).map_err(io)?;
        let lock = LockFile::take(&real, FileKind::Refs, writes.policy);
        let mut lock = lock.map_err(|error| RefError::File {
            words: format!("could not lock config file: {error}"),
            source: Box::new(error),
        })?;
        lock.keep_mode().map_err(failed)?;
        let text = packrace_os::read_file(&real, Role::Config, config::MAX_BYTES).map_err(io)?;
        let [from, to] = [self.backend, to].map(|backend| self.storage(backend));
        let changed = config::with_storage(&text, &from, &to, self.hash).map_err(|words| refused(&words))?;
        if changed == text {
            let words = "the format of refs was changed meanwhile".to_owned();
            return Err(RefError::Conflict(words).into());
        }
        Ok((lock, changed))
    }

    /// Locks out writers of reftables or packed refs.
    fn lock_out(&self, writes: &RefWrites) -> Result<LockFile, PrepareError> {
        let (name, patience) = match self.backend {
            Backend::Files => ("packed-refs", writes.packed_patience),
            Backend::Reftable => ("reftable/tables.list", writes.reftable_patience),
        };
        let path = self.dirs.common_dir.join(name);
        LockFile::take_within(&path, FileKind::Refs, writes.policy, patience).map_err(failed)
    }

    /// All refs, optionally with reflogs.
    fn whole(&self, with_logs: bool) -> Result<AllRefs, PrepareError> {
        // Broken refs would be skipped and then removed.
        let mut broken = None;
        self.verify(&mut |checked| {
            let words = match checked {
                CheckedRefs::Problem(path, problem) if problem.id.default_severity().is_error() => {
                    format!("{path}: {}: {}", problem.id.name(), problem.text)
                }
                CheckedRefs::BrokenStack(id) => format!("worktrees/{id}: unreadable reftables"),
                _ => return,
            };
            broken.get_or_insert(words);
        })?;
        if let Some(broken) = broken {
            return Err(refused(&format!("refs are broken: {broken}")));
        }
        let mut whole = AllRefs::default();
        for name in self.root_refs()? {
            if let Some(value) = self.read(&name)? {
                whole.refs.push((name, value));
            }
        }
        self.snapshot(&[])?.visit(b"", &mut |record| {
            let value = match record.target {
                Target::Direct { id, .. } => Value::Id(id),
                Target::Symbolic(target) => Value::Symbolic(target.to_vec()),
            };
            whole.refs.push((record.name.to_vec(), value));
            ControlFlow::Continue(())
        })?;
        whole.refs.sort_by(|a, b| a.0.cmp(&b.0));
        if with_logs {
            let names = place::free_names(self.logged_names()?, &whole.refs);
            for name in names {
                if let Some(log) = self.log(&name)? {
                    whole.logs.push((name, log));
                }
            }
        }
        Ok(whole)
    }

    /// Refuses to remove refs that a killed migration by git has left.
    fn check_left(&self, to: Backend) -> Result<(), PrepareError> {
        let top = &self.dirs.common_dir;
        if to == Backend::Reftable && place::has_entries(&top.join("reftable"))? {
            let path = top.join("HEAD");
            let head = packrace_os::read_file(&path, Role::Refs, MAX_HEAD_BYTES)
                .map_err(|source| RefError::Io { path, source })?;
            if head == STUB_HEAD {
                return Err(refused("a migration was broken off: HEAD tells of reftables, config does not"));
            }
        }
        Ok(())
    }

    /// Moves the new refs to their final place, replacing leftovers, and syncs everything. No reader
    /// sees them yet.
    fn put_in_place(&self, new: &Path, to: Backend, writes: &RefWrites) -> Result<(), PrepareError> {
        let top = &self.dirs.common_dir;
        // A file moved out of a directory may be lost with it, if that was never synced.
        place::sync_tree(new)?;
        place::sync_dir(top)?;
        self.remove(to)?;
        match to {
            Backend::Files => place::move_tree(new, top, writes.policy)?,
            Backend::Reftable => {
                place::move_tree(&new.join("reftable"), &top.join("reftable"), writes.policy)?;
                place::sync_dir(top)?;
            }
        }
        // Otherwise discovery would not find a repository; git creates both.
        if to == Backend::Files {
            for name in ["refs/heads", "refs/tags"] {
                make_dir_below(top, &top.join(name), Role::Refs, writes.policy).map_err(failed)?;
            }
            place::sync_dir(&top.join("refs"))?;
        }
        Ok(())
    }

    fn remove_old(&self, new: &Path, writes: &RefWrites) -> Result<(), PrepareError> {
        self.remove(self.backend)?;
        if self.backend == Backend::Files {
            place::move_tree(new, &self.dirs.common_dir, writes.policy)?;
        }
        Ok(super::transaction::remove_tree(new, true)?)
    }

    /// Removes all refs of the inactive backend, except `HEAD` and `refs/`.
    fn remove(&self, backend: Backend) -> Result<(), PrepareError> {
        let top = &self.dirs.common_dir;
        if backend == Backend::Reftable {
            super::transaction::remove_tree(&top.join("reftable"), true)?;
            return Ok(place::sync_dir(top)?);
        }
        let mut files = super::files::root_names(&self.dirs)?;
        files.retain(|name| is_root_name(name) && name != b"HEAD");
        files.push(b"packed-refs".to_vec());
        for name in files {
            let path = self.dirs.path_of(&name);
            durable::remove_file(&path, Role::Refs).map_err(|source| RefError::Io { path, source })?;
        }
        super::transaction::remove_tree(&top.join("logs"), true)?;
        let refs = top.join("refs");
        // Refs in another place than the repository may have none.
        if place::has_entries(&refs)? {
            place::empty_dir(&refs)?;
            place::sync_dir(&refs)?;
        }
        Ok(place::sync_dir(top)?)
    }
}

/// Writes the refs below `dir`.
fn write_new(
    dir: &Path,
    old: &RefStore,
    to: Backend,
    whole: AllRefs,
    writes: &RefWrites,
    objects: &mut dyn RefObjects,
) -> Result<(), PrepareError> {
    let store = RefStore::open(dir.to_owned(), dir.to_owned(), to, old.hash);
    let make = |name: &str| make_dir_below(dir, &dir.join(name), Role::Refs, writes.policy).map_err(failed);
    match to {
        Backend::Files => {
            make("refs/heads")?;
            make("refs/tags")?;
        }
        Backend::Reftable => {
            make("refs")?;
            make("reftable")?;
            place::write(&dir.join("HEAD"), STUB_HEAD, writes.policy)?;
            place::write(&dir.join("refs/heads"), STUB_HEADS, writes.policy)?;
        }
    }
    store.write_all(whole, writes, objects)
}

/// Creates a directory with an unused name.
fn make_new_dir(top: &Path) -> Result<PathBuf, RefError> {
    loop {
        let path = top.join(format!("ref_migration.{:06x}", random_number() & 0xff_ffff));
        match durable::make_dir(&path, |_| 0o700, Role::Refs) {
            Ok(true) => return Ok(path),
            Ok(false) => {}
            Err(source) => {
                // It may exist, with another mode; the first error is reported.
                let _ = durable::remove_empty_dir(&path, Role::Refs);
                return Err(RefError::Io { path, source });
            }
        }
    }
}

fn refused(words: &str) -> PrepareError {
    RefError::Write(words.to_owned()).into()
}

fn failed(error: crate::error::Error) -> PrepareError {
    RefError::from(error).into()
}
