//! Changes reflogs: removes expired entries, or whole logs.
//!
//! ```text
//! files      <ref>.lock ─ logs/<ref>.lock ─ rename; the ref's own lock becomes its new value where it gets one
//! reftables  one table: deletions of the records that go, and those that say something else now
//! ```

use packrace_object::ObjectId;
use packrace_os::count::Role;

use super::files::{FileLocks, LockedFile, io_error};
use super::hook::HookCall;
use super::stack::{Log, NewRef, Records, StackLocks};
use super::sync::sync_dir;
use super::traced::TracedLogEdit;
use super::{Cause, PrepareError, RefWrites, Refusal, Value, compaction};
use crate::publish::{Component, FileKind, LockFile, make_dir_below};
use crate::refs::files::read_log;
use crate::refs::reflog::LoggedChange;
use crate::refs::{Backend, RefError, RefStore};

/// The change of a reflog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEdit {
    /// It stays as it is.
    Keep,
    /// It gets new content.
    Replace {
        /// Oldest first: a subset of the old entries, perhaps with other old objects, and at most one new entry at the end.
        changes: Vec<LoggedChange>,
        /// The new value of the ref, which must not be symbolic, if it changes.
        value: Option<ObjectId>,
    },
    /// It is removed.
    Drop,
}

impl RefStore {
    /// Locks a reflog and lets `edit` choose its change. `edit` gets the entries, oldest first, or `None` if
    /// there is no log.
    pub fn edit_log(
        &self,
        name: &[u8],
        writes: &RefWrites,
        edit: &mut dyn FnMut(Option<&[LoggedChange]>) -> LogEdit,
    ) -> Result<(), PrepareError> {
        let mut traced = TracedLogEdit::of(name);
        self.change_log(name, writes, &mut |log| traced.told(log, edit(log)))?;
        traced.done();
        Ok(())
    }

    /// The same as a part of something else, of which a trace tells.
    pub(super) fn change_log(
        &self,
        name: &[u8],
        writes: &RefWrites,
        edit: &mut dyn FnMut(Option<&[LoggedChange]>) -> LogEdit,
    ) -> Result<(), PrepareError> {
        match self.backend {
            Backend::Files => self.edit_log_file(name, writes, edit),
            Backend::Reftable => self.edit_log_records(name, writes, edit),
        }
    }

    /// As above, after the hook of transactions has agreed: git makes this a transaction of no ref.
    pub fn edit_log_with_hook(
        &self,
        name: &[u8],
        writes: &RefWrites,
        edit: &mut dyn FnMut(Option<&[LoggedChange]>) -> LogEdit,
    ) -> Result<(), PrepareError> {
        let null = ObjectId::null(self.hash);
        let mut hook = HookCall::of(writes.hooks.as_ref());
        hook.ask("preparing", std::iter::empty(), null)?;
        let mut veto = None;
        let edited =
            self.change_log(name, writes, &mut |log| match hook.ask("prepared", std::iter::empty(), null) {
                Ok(()) => edit(log),
                Err(error) => {
                    veto = Some(error);
                    LogEdit::Keep
                }
            });
        if let Some(veto) = veto {
            return Err(veto);
        }
        match edited {
            Ok(()) => hook.committed(),
            Err(_) => hook.silence(),
        }
        edited
    }

    fn edit_log_file(
        &self,
        name: &[u8],
        writes: &RefWrites,
        edit: &mut dyn FnMut(Option<&[LoggedChange]>) -> LogEdit,
    ) -> Result<(), PrepareError> {
        let mut locks = FileLocks::begin(self, &[], writes)?;
        let mut lock = match locks.lock(name)? {
            LockedFile::Held(lock) => lock,
            LockedFile::Refused(Cause::Locked(words)) => {
                let name = String::from_utf8_lossy(name);
                return Err(RefError::Conflict(format!("cannot lock ref '{name}': {words}")).into());
            }
            // A conflicting ref exists, so there is no such reflog.
            LockedFile::Refused(cause) => {
                return match edit(None) {
                    LogEdit::Replace { .. } => Err(refused(name, cause)),
                    LogEdit::Keep | LogEdit::Drop => Ok(()),
                };
            }
        };
        let log = read_log(&self.dirs, name, self.hash)?;
        let path = self.dirs.log_of(name);
        match edit(log.as_deref()) {
            LogEdit::Keep => {}
            LogEdit::Drop => {
                if log.is_some() {
                    locks.remove_log(name)?;
                }
            }
            LogEdit::Replace { changes, value } => {
                if log.is_none()
                    && let Some(existing) = locks.first_below(name)?
                {
                    return Err(refused(
                        name,
                        Cause::Conflict { name: name.to_vec(), existing, is_at_lock: true },
                    ));
                }
                let dir = path.parent().unwrap_or(&path);
                make_dir_below(self.dirs.top_of(name), dir, Role::Refs, writes.policy).map_err(io_error)?;
                let mut file = LockFile::take(&path, FileKind::Refs, writes.policy).map_err(io_error)?;
                for change in &changes {
                    file.write(&change.as_entry().line()).map_err(io_error)?;
                }
                if let Some(value) = value {
                    lock.write(format!("{value}\n").as_bytes()).map_err(io_error)?;
                }
                file.commit().map_err(io_error)?;
                if log.is_none() && writes.policy.syncs_names(Component::Reference) {
                    // Its directories may be new too.
                    let depth = name.iter().filter(|byte| **byte == b'/').count() + 1;
                    dir.ancestors().skip(1).take(depth).try_for_each(sync_dir)?;
                }
                if value.is_some() {
                    lock.commit().map_err(io_error)?;
                }
            }
        }
        Ok(())
    }

    fn edit_log_records(
        &self,
        name: &[u8],
        writes: &RefWrites,
        edit: &mut dyn FnMut(Option<&[LoggedChange]>) -> LogEdit,
    ) -> Result<(), PrepareError> {
        let mut locks = StackLocks::begin(self, &[], writes)?;
        let side = locks.lock(name)?;
        let name = self.dirs.place(name).name;
        let log = side.stack.log(name)?;
        let mut records = Records::default();
        match edit(log.as_deref()) {
            LogEdit::Keep => return Ok(()),
            LogEdit::Drop => {
                for update_index in side.stack.log_updates(name)? {
                    records.logs.push((name.to_vec(), Log::TakenBack(update_index)));
                }
            }
            LogEdit::Replace { changes, value } => {
                let before = log.unwrap_or_default();
                let is_kept =
                    |update_index| changes.iter().any(|change| change.update_index == Some(update_index));
                for update_index in side.stack.log_updates(name)? {
                    if !is_kept(update_index) {
                        records.logs.push((name.to_vec(), Log::TakenBack(update_index)));
                    }
                }
                if changes.is_empty() {
                    records.logs.push((name.to_vec(), Log::marker(self.hash, &writes.who)));
                }
                let changed = changes.into_iter().filter(|change| !before.contains(change));
                records.logs.extend(changed.map(|change| (name.to_vec(), Log::Change(change))));
                if let Some(value) = value {
                    let value = Some(Value::Id(value));
                    records.refs.push(NewRef { name: name.to_vec(), value, peeled: None });
                }
            }
        }
        if records.refs.is_empty() && records.logs.is_empty() {
            return Ok(());
        }
        let dir = side.dir.clone();
        side.write(records, writes)?;
        if let Err(error) = compaction::after_change(&dir, writes, self.hash) {
            tracing::warn!("cannot compact reftables: {error}");
        }
        Ok(())
    }
}

fn refused(name: &[u8], cause: Cause) -> PrepareError {
    let name = name.to_vec();
    Refusal { edit: 0, target: name.clone(), name, cause, backend: Backend::Files }.into()
}
