//! `packed-refs` in a transaction.

use std::io::ErrorKind;

use packrace_format::packed_refs::{Edit, RewriteError, rewrite};
use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};

use super::super::directories::Listings;
use super::super::sync::sync_dir;
use super::super::{
    Cause, CommitWork, PrepareError, RefChange, RefObjects, RefStep, Refusal, TransactionMode,
};
use super::{FileLocks, PackedFile, RefError, Taken, lock_of};

/// A new `packed-refs` that is not visible yet.
pub(super) struct Packing<'w> {
    file: NewFile,
    edits: Vec<Edit<'w>>,
    /// The steps that set refs in it.
    bulk: Vec<(usize, &'w RefStep)>,
}

impl FileLocks {
    /// Writes the new `packed-refs` if a step needs it; nothing is visible yet.
    pub(super) fn stage_packed<'w>(
        &mut self,
        work: &'w CommitWork<'_>,
        objects: &mut dyn RefObjects,
    ) -> Result<Option<Packing<'w>>, PrepareError> {
        let mut edits = Vec::new();
        let mut bulk = Vec::new();
        for (at, step) in work.steps().filter(|(_, step)| !step.is_log_only) {
            let is_packed = matches!(self.taken.get(&at), Some(Taken::Packed));
            let value = match step.change {
                RefChange::Set(id) if is_packed => {
                    Some((id, objects.peel(&id).map_err(PrepareError::Objects)?))
                }
                RefChange::Delete if self.packed.find(&step.name)?.is_some() => None,
                _ => continue,
            };
            edits.push(Edit { name: &step.name, value });
            if is_packed {
                bulk.push((at, step));
            }
        }
        if edits.is_empty() {
            return Ok(None);
        }
        edits.sort_by(|a, b| a.name.cmp(b.name));
        let file = self.new_packed(&edits, objects)?;
        Ok(Some(Packing { file, edits, bulk }))
    }

    /// Makes the new `packed-refs` visible. Returns edits that another process has overtaken; unless this is a batch, the
    /// old state is restored then. Their reflogs keep a line.
    pub(super) fn commit_packed(
        &mut self,
        work: &CommitWork<'_>,
        packing: Packing<'_>,
        objects: &mut dyn RefObjects,
    ) -> Result<Vec<Refusal>, PrepareError> {
        let Packing { file, edits, bulk } = packing;
        self.replace_packed(file)?;
        let overtaken = self.overtaken(&bulk)?;
        if overtaken.is_empty() {
            return Ok(Vec::new());
        }
        let refusals = overtaken.into_iter().map(|(step, words)| {
            let name = work.edits[step.edit].name.clone();
            let (target, backend) = (step.name.clone(), work.store.backend);
            Refusal { edit: step.edit, name, target, cause: Cause::Locked(words), backend }
        });
        let refusals: Vec<Refusal> = refusals.collect();
        if work.mode == TransactionMode::Batch {
            return Ok(refusals);
        }
        // Restores the old state: all or nothing.
        let back: Vec<Edit<'_>> = edits
            .iter()
            .map(|edit| Ok(Edit { name: edit.name, value: self.packed.find(edit.name)? }))
            .collect::<Result<_, RefError>>()?;
        let before = std::mem::replace(&mut self.packed, PackedFile::read(&self.dirs, self.hash)?);
        self.write_packed(&back, objects)?;
        drop(before);
        Err(refusals.into_iter().next().expect("not empty").into())
    }

    /// Replaces `packed-refs`.
    pub(in super::super) fn write_packed(
        &self,
        edits: &[Edit<'_>],
        objects: &mut dyn RefObjects,
    ) -> Result<(), PrepareError> {
        let file = self.new_packed(edits, objects)?;
        self.replace_packed(file)
    }

    fn new_packed(&self, edits: &[Edit<'_>], objects: &mut dyn RefObjects) -> Result<NewFile, PrepareError> {
        let path = self.packed_path()?;
        let new = crate::paths::with_extension(&path, "new");
        let io = |source| PrepareError::from(RefError::Io { path: new.clone(), source });
        let create = || NewFile::create(&new, 0o666, Role::Refs);
        let file = create().or_else(|error| match error.kind() {
            // We hold the lock, so its writer was killed.
            ErrorKind::AlreadyExists if durable::remove_file(&new, Role::Refs).is_ok() => create(),
            _ => Err(error),
        });
        let mut file = file.map_err(|error| {
            let words = format!("unable to create file {}: {}", new.display(), packrace_os::reason(&error));
            RefError::Write(words)
        })?;
        self.writes.policy.of_rewrites().prepare(&mut file).map_err(io)?;
        let mut peel = |id: &packrace_object::oid| objects.peel(id).map_err(PrepareError::Objects);
        let mut sink = |bytes: &[u8]| file.write(bytes).map_err(io);
        rewrite(self.packed.refs(), edits, &mut peel, &mut sink).map_err(|error| match error {
            RewriteError::Damaged(source) => PrepareError::from(self.packed.damaged(source)),
            RewriteError::Caller(error) => error,
        })?;
        // Otherwise refs of a truncated file would be lost for good.
        self.packed.check_unchanged()?;
        // Always synced: the file also holds unchanged refs, and loose files are removed afterwards.
        file.sync().map_err(io)?;
        Ok(file)
    }

    fn replace_packed(&self, file: NewFile) -> Result<(), PrepareError> {
        let path = self.packed_path()?;
        let new = file.path().to_owned();
        file.replace(&path).map_err(|source| RefError::Io { path: new, source })?;
        Ok(sync_dir(path.parent().unwrap_or(&self.dirs.common_dir))?)
    }

    /// Steps in `packed-refs` that collide with loose refs begun by another process, with the
    /// reason to report.
    fn overtaken<'s>(
        &mut self,
        bulk: &[(usize, &'s RefStep)],
    ) -> Result<Vec<(&'s RefStep, String)>, PrepareError> {
        self.listings = Listings::default();
        let mut overtaken = Vec::new();
        for (_, step) in bulk {
            let path = self.dirs.path_of(&step.name);
            if self.listings.has(&path)? || self.listings.has(&lock_of(&path))? {
                let path = lock_of(&path);
                overtaken.push((*step, format!("Unable to create '{}': File exists.", path.display())));
            }
        }
        Ok(overtaken)
    }
}
