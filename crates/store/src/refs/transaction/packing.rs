//! Packs refs (git-pack-refs): moves loose refs into `packed-refs`, merges reftables.
//!
//! ```text
//! packed-refs.lock ─ loose refs read ─ packed-refs with them ─ then each: <ref>.lock ─ still the same? ─ loose file away
//! ```
//!
//! At every moment a ref is in one place, or in both with the same value.

use std::collections::BTreeMap;

use packrace_format::packed_refs::Edit;
use packrace_object::ObjectId;
use packrace_os::count::Role;
use packrace_os::durable;

use super::files::{FileLocks, LockedFile};
use super::{Cause, PrepareError, RefObjects, RefWrites, Refusal, compaction, traced};
use crate::publish::LockFile;
use crate::refs::files::{LooseFile, LooseValue, direct_loose, read_loose_noting};
use crate::refs::{Backend, RefError, RefStore, is_per_worktree};

/// With fewer loose refs than this, automatic packing does nothing.
const LEAST_LOOSE: usize = 16;

/// Which refs are packed.
pub struct PackRefs<'a> {
    /// Whether to pack the ref of this name. As in git 2.47, it does not matter whether it is already packed.
    pub is_wanted: &'a dyn Fn(&[u8]) -> bool,
    /// Remove the loose files.
    pub prunes: bool,
    /// Only pack if it is worthwhile.
    pub is_auto: bool,
    /// Report loose files that stay.
    pub tells_kept: bool,
}

impl RefStore {
    /// Packs refs. Symbolic, broken and per-worktree ones stay as they are.
    pub fn pack(
        &self,
        which: &PackRefs<'_>,
        writes: &RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<(), PrepareError> {
        let packed = match self.backend {
            Backend::Files => self.pack_files(which, writes, objects),
            Backend::Reftable => {
                // As in git, a linked work tree leaves the common stack alone.
                let dir = self.dirs.git_dir.join("reftable");
                match which.is_auto {
                    true => compaction::geometrically(&dir, writes, self.hash),
                    false => compaction::all(&dir, writes, self.hash),
                }
                .map_err(Into::into)
            }
        };
        if packed.is_ok() {
            traced::packed();
        }
        packed
    }

    fn pack_files(
        &self,
        which: &PackRefs<'_>,
        writes: &RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<(), PrepareError> {
        if writes.is_quarantined {
            let words = format!("unable to write new packed-refs: {}", PrepareError::Quarantined);
            return Err(RefError::Write(words).into());
        }
        let mut locks = FileLocks::begin(self, &[], writes)?;
        // What is not worthwhile needs no lock.
        if which.is_auto && self.wanted(which)?.len() < least_loose(locks.packed_len()) {
            return Ok(());
        }
        locks.lock_packed()?;
        let wanted = self.wanted(which)?;
        // Rewriting copies what does not change as it is.
        locks.check_packed()?;
        let mut found = Vec::with_capacity(wanted.len());
        for (name, id) in &wanted {
            if objects.kind(id).map_err(PrepareError::Objects)?.is_none() {
                tracing::error!("{} does not point to a valid object!", String::from_utf8_lossy(name));
                continue;
            }
            found.push((name, *id, objects.peel(id).map_err(PrepareError::Objects)?));
        }
        let edits: Vec<Edit<'_>> =
            found.iter().map(|(name, id, peeled)| Edit { name, value: Some((*id, *peeled)) }).collect();
        locks.write_packed(&edits, objects).map_err(|error| match error {
            PrepareError::Store(RefError::Write(words)) => {
                RefError::Write(format!("unable to write new packed-refs: {words}")).into()
            }
            error => error,
        })?;
        if which.prunes {
            // In git's order, in which it tells what stays.
            for (name, id, _) in found.iter().rev() {
                if let Some(cause) = self.prune(&mut locks, name, *id)?
                    && which.tells_kept
                {
                    let (name, target, backend) = (name.to_vec(), name.to_vec(), self.backend);
                    tracing::error!("{}", Refusal { edit: 0, name, target, cause, backend });
                }
            }
        }
        Ok(())
    }

    /// The loose refs to pack.
    fn wanted(&self, which: &PackRefs<'_>) -> Result<BTreeMap<Vec<u8>, ObjectId>, RefError> {
        let mut wanted = direct_loose(&self.dirs, self.hash)?;
        wanted.retain(|name, _| !is_per_worktree(name) && (which.is_wanted)(name));
        Ok(wanted)
    }

    /// Removes a loose ref whose value is packed, unless it is being changed or is a symbolic link, as in git; returns why
    /// it stays.
    fn prune(&self, locks: &mut FileLocks, name: &[u8], id: ObjectId) -> Result<Option<Cause>, PrepareError> {
        let lock: LockFile = match locks.lock(name)? {
            LockedFile::Held(lock) => lock,
            LockedFile::Refused(cause) => return Ok(Some(cause)),
        };
        let mut is_link = false;
        let loose = read_loose_noting(&self.dirs, name, self.hash, &mut || is_link = true)?;
        if is_link {
            return Ok(Some(Cause::Missing(name.to_vec())));
        }
        if loose == LooseFile::Is(LooseValue::Direct(id)) {
            let path = self.dirs.path_of(name);
            durable::remove_file(&path, Role::Refs).map_err(|source| RefError::Io { path, source })?;
        }
        drop(lock);
        let place = self.dirs.place(name);
        super::directories::remove_empty_parents(&self.dirs.dir(place.holder), place.name);
        Ok(None)
    }
}

/// The number of loose refs for which rewriting a file of this length is worthwhile; it grows
/// with the length.
fn least_loose(packed_bytes: usize) -> usize {
    // A line has some hundred bytes.
    let doublings = (packed_bytes / 100).max(1).ilog2() as usize;
    LEAST_LOOSE.max(5 * doublings)
}
