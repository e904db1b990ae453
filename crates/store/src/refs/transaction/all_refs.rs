//! Writes all refs and reflogs of a repository at once, into a store that has none (git-refs,
//! "migrate"; git-clone).
//!
//! ```text
//! files      packed-refs ─ a loose file for each symbolic ref and each of a work tree ─ a file a reflog
//! reftables  one table
//! ```
//!
//! Everything is synced. The caller makes names durable.

use std::path::Path;
use std::sync::Arc;

use packrace_format::packed_refs::Edit;
use packrace_object::ObjectId;
use packrace_os::count::Role;
use packrace_os::durable::NewFile;

use super::files::{FileLocks, io_error};
use super::hook::HookCall;
use super::stack::{Log, NewRef, Records, StackLocks};
use super::{Expected, PrepareError, RefChange, RefObjects, RefWrites, Update, Value};
use crate::hooks::Hooks;
use crate::publish::{ObjectsStored, make_dir_below};
use crate::refs::reflog::LoggedChange;
use crate::refs::{Backend, Peeled, RefError, RefStore, is_per_worktree};

/// Refs and reflogs.
#[derive(Debug, Default)]
pub(in crate::refs) struct AllRefs {
    /// By name.
    pub(in crate::refs) refs: Vec<(Vec<u8>, Value)>,
    /// By name; each oldest first.
    pub(in crate::refs) logs: Vec<(Vec<u8>, Vec<LoggedChange>)>,
}

impl AllRefs {
    /// Asks the hook of transactions, as often as git does in a migration: about all refs, and with files also about those in
    /// `packed-refs` and about the others. Git commits only the last of these transactions.
    pub(in crate::refs) fn ask_hook(
        &self,
        hooks: Option<&Arc<Hooks>>,
        to: Backend,
        null: ObjectId,
    ) -> Result<(), PrepareError> {
        let all: Vec<&(Vec<u8>, Value)> = self.refs.iter().collect();
        ask(hooks, &all, null)?.silence();
        if to == Backend::Files {
            let (packed, loose): (Vec<_>, Vec<_>) = all
                .into_iter()
                .partition(|(name, value)| name.starts_with(b"refs/") && matches!(value, Value::Id(_)));
            ask(hooks, &packed, null)?.silence();
            ask(hooks, &loose, null)?.committed();
        }
        Ok(())
    }
}

/// Asks the hook whether refs may be created.
fn ask(
    hooks: Option<&Arc<Hooks>>,
    refs: &[&(Vec<u8>, Value)],
    null: ObjectId,
) -> Result<HookCall, PrepareError> {
    let changes = refs.iter().map(|(_, value)| match value {
        Value::Id(id) => RefChange::Set(*id),
        Value::Symbolic(target) => RefChange::SetSymbolic(target.clone()),
    });
    let changes: Vec<RefChange> = changes.collect();
    let expected = Expected::Any;
    let updates = refs.iter().zip(&changes);
    let updates = updates.map(|((name, _), change)| Update { name, expected: &expected, change });
    let updates: Vec<Update<'_>> = updates.collect();
    let mut hook = HookCall::of(hooks);
    hook.ask("preparing", updates.iter().cloned(), null)?;
    hook.ask("prepared", updates.iter().cloned(), null)?;
    Ok(hook)
}

impl RefStore {
    /// Creates the first refs of a store that has only a `HEAD`, all at once and without reflogs: in
    /// `packed-refs` or one table, as in git. Their objects must be durable, which `_proof` shows; names must
    /// be valid and below `refs/`.
    pub fn create_initial(
        &self,
        mut refs: Vec<(Vec<u8>, ObjectId)>,
        _proof: &ObjectsStored,
        writes: &RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<(), PrepareError> {
        refs.sort_unstable();
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        if let Some(pair) = refs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let words = format!("multiple updates for ref '{}' not allowed", text(&pair[0].0));
            return Err(RefError::Write(words).into());
        }
        for (name, _) in &refs {
            let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let mut above = slashes.map(|(at, _)| &name[..at]);
            if let Some(other) = above.find(|above| find(&refs, above)) {
                let (name, other) = (text(name), text(other));
                let words = format!("cannot process '{name}' and '{other}' at the same time");
                return Err(RefError::Write(words).into());
            }
        }
        let refs = refs.into_iter().map(|(name, id)| (name, Value::Id(id))).collect();
        self.write_all(AllRefs { refs, logs: Vec::new() }, writes, objects)
    }

    /// Writes all refs and reflogs into directories that no other process knows. Their objects
    /// need not exist.
    pub(in crate::refs) fn write_all(
        &self,
        whole: AllRefs,
        writes: &RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<(), PrepareError> {
        match self.backend {
            Backend::Files => self.write_all_files(&whole, writes, objects),
            Backend::Reftable => self.write_all_table(whole, writes, objects),
        }
    }

    fn write_all_files(
        &self,
        whole: &AllRefs,
        writes: &RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<(), PrepareError> {
        let mut packed: Vec<(&[u8], ObjectId)> = Vec::new();
        for (name, value) in &whole.refs {
            let line = match value {
                Value::Id(id) if !is_per_worktree(name) => {
                    packed.push((name, *id));
                    continue;
                }
                Value::Id(id) => format!("{id}\n").into_bytes(),
                Value::Symbolic(target) => [b"ref: ", target.as_slice(), b"\n"].concat(),
            };
            self.write_new(&self.dirs.path_of(name), &[line], writes)?;
        }
        if !packed.is_empty() {
            let mut edits = Vec::with_capacity(packed.len());
            for (name, id) in packed {
                let peeled = objects.peel(&id).map_err(PrepareError::Objects)?;
                edits.push(Edit { name, value: Some((id, peeled)) });
            }
            let mut locks = FileLocks::begin(self, &[], writes)?;
            locks.lock_packed()?;
            locks.write_packed(&edits, objects)?;
        }
        for (name, changes) in &whole.logs {
            let lines: Vec<Vec<u8>> = changes.iter().map(|change| change.as_entry().line()).collect();
            self.write_new(&self.dirs.log_of(name), &lines, writes)?;
        }
        Ok(())
    }

    fn write_new(&self, path: &Path, lines: &[Vec<u8>], writes: &RefWrites) -> Result<(), PrepareError> {
        let dir = path.parent().unwrap_or(path);
        if dir != self.dirs.git_dir {
            make_dir_below(&self.dirs.git_dir, dir, Role::Refs, writes.policy).map_err(io_error)?;
        }
        let io = |source| RefError::Io { path: path.to_owned(), source };
        let mut file = NewFile::create(path, 0o666, Role::Refs).map_err(io)?;
        file.change_mode(|mode| writes.policy.file_mode(mode)).map_err(io)?;
        lines.iter().try_for_each(|line| file.write(line)).map_err(io)?;
        file.sync().map_err(io)?;
        Ok(file.keep().map_err(io)?)
    }

    /// The entries of each reflog get update indexes from 1 on, because they must differ.
    fn write_all_table(
        &self,
        whole: AllRefs,
        writes: &RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<(), PrepareError> {
        let mut records = Records::default();
        for (name, value) in whole.refs {
            let peeled = match &value {
                Value::Symbolic(_) => None,
                Value::Id(id) => match objects.peel(id).map_err(PrepareError::Objects)? {
                    Peeled::To(peeled) => Some(peeled),
                    Peeled::NotATag | Peeled::Unknown => None,
                },
            };
            records.refs.push(NewRef { name, value: Some(value), peeled });
        }
        for (name, changes) in whole.logs {
            if changes.is_empty() {
                records.logs.push((name, Log::marker(self.hash, &writes.who)));
                continue;
            }
            for (update_index, change) in (1..).zip(changes) {
                let change = LoggedChange { update_index: Some(update_index), ..change };
                records.logs.push((name.clone(), Log::Change(change)));
            }
        }
        let mut locks = StackLocks::begin(self, &[], writes)?;
        locks.lock(b"HEAD")?.write(records, writes)?;
        Ok(())
    }
}

/// Whether the sorted `refs` contain this name.
fn find(refs: &[(Vec<u8>, ObjectId)], name: &[u8]) -> bool {
    refs.binary_search_by(|(other, _)| other.as_slice().cmp(name)).is_ok()
}
