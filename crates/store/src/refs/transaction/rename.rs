//! Renames a ref, with its reflog.
//!
//! ```text
//! files      new reflog ─ new ref made ─ synced ─ old one deleted     (old one first where one is below the other)
//! reftables  one table: the old name and its records deleted, the new ones written
//! ```

use std::sync::Arc;

use packrace_object::ObjectId;

use super::stack::{Log, NewRef, Records, StackLocks};
use super::{
    Expected, LogEdit, LogPolicy, PrepareError, RefChange, RefEdit, RefObjects, RefWrites, TransactionMode,
    Value, compaction,
};
use crate::publish::ObjectsStored;
use crate::refs::reflog::LoggedChange;
use crate::refs::{Backend, Peeled, RefError, RefStore};

impl RefStore {
    /// Renames a ref that is not symbolic to an unused name; its reflog gets a line with `message`.
    /// `HEAD` is not changed. In the files backend a crash may leave both names, or none if one is a
    /// directory of the other.
    pub fn rename(
        &self,
        old: &[u8],
        new: &[u8],
        message: &[u8],
        writes: &RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<(), PrepareError> {
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let id = match self.read(old)? {
            Some(Value::Id(id)) => id,
            Some(Value::Symbolic(_)) => {
                let words = format!("refname {} is a symbolic ref, renaming it is not supported", shown(old));
                return Err(RefError::Write(words).into());
            }
            None => return Err(not_found(old)),
        };
        if self.read(new)?.is_some() {
            return Err(
                RefError::Write(format!("'{}' exists; cannot create '{}'", shown(new), shown(new))).into()
            );
        }
        match self.backend {
            Backend::Files => self.rename_files(old, new, id, message, writes, objects),
            Backend::Reftable => self.rename_records(old, new, id, message, writes, objects),
        }
    }

    fn rename_files(
        &self,
        old: &[u8],
        new: &[u8],
        id: ObjectId,
        message: &[u8],
        writes: &RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<(), PrepareError> {
        let log = self.log(old)?;
        let silent = RefWrites { log: LogPolicy::Never, ..writes.clone() };
        let edit = |name: &[u8], change: RefChange, expected: Expected| RefEdit {
            name: name.to_vec(),
            change,
            expected,
            deref: false,
            message: Arc::from(message),
            force_log: false,
        };
        let mut run = |edits: Vec<RefEdit>| -> Result<(), PrepareError> {
            let prepared = self.prepare(edits, TransactionMode::Atomic, &silent, objects)?;
            prepared.commit(&ObjectsStored::earlier(), objects).map(drop)
        };
        let make = edit(new, RefChange::Set(id), Expected::Absent);
        let delete = edit(old, RefChange::Delete, Expected::Id(id));
        let is_below = |name: &[u8], dir: &[u8]| name.starts_with(dir) && name.get(dir.len()) == Some(&b'/');
        let move_log = || {
            let changes = match log.clone() {
                Some(changes) => changes,
                None if writes.log.begins(new) => Vec::new(),
                None => return Ok(()),
            };
            let line = LoggedChange::new(id, id, &writes.who, message);
            let mut changes = Some([changes, vec![line]].concat());
            self.change_log(new, writes, &mut |_| LogEdit::Replace {
                changes: changes.take().unwrap_or_default(),
                value: None,
            })
        };
        if !is_below(old, new) && !is_below(new, old) {
            move_log()?;
            let made = run(vec![make]);
            if made.is_err() && self.read(new)?.is_none() {
                self.change_log(new, writes, &mut |_| LogEdit::Drop)?;
            }
            made?;
            // Deleted only now that the new name is durable.
            let deleted = run(vec![delete]);
            if deleted.is_err() {
                run(vec![edit(new, RefChange::Delete, Expected::Id(id))])?;
            }
            return deleted;
        }
        run(vec![delete])?;
        if let Err(error) = run(vec![make]) {
            run(vec![edit(old, RefChange::Set(id), Expected::Absent)])?;
            return Err(error);
        }
        move_log()
    }

    fn rename_records(
        &self,
        old: &[u8],
        new: &[u8],
        id: ObjectId,
        message: &[u8],
        writes: &RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<(), PrepareError> {
        let peeled = match objects.peel(&id).map_err(PrepareError::Objects)? {
            Peeled::To(peeled) => Some(peeled),
            Peeled::NotATag | Peeled::Unknown => None,
        };
        let mut locks = StackLocks::begin(self, &[], writes)?;
        // As in git, which looks only in the stack of the new name.
        if locks.side_of(old).0 != locks.side_of(new).0 {
            return Err(not_found(old));
        }
        let side = locks.lock(new)?;
        let [old, new] = [old, new].map(|name| self.dirs.place(name).name);
        for directory in new.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &new[..end])
        {
            if directory != old && side.stack.find(directory)?.is_some() {
                return Err(in_the_way(directory, new));
            }
        }
        if side.stack.has_below(&[new, b"/"].concat(), old)? {
            return Err(in_the_way(new, new));
        }
        let newest = side.stack.tables.last().map_or(0, |table| table.table.update_indexes().1);
        let mut records = Records::default();
        let value = Some(Value::Id(id));
        records.refs.push(NewRef { name: new.to_vec(), value, peeled });
        records.refs.push(NewRef { name: old.to_vec(), value: None, peeled: None });
        for update_index in side.stack.log_updates(old)? {
            records.logs.push((old.to_vec(), Log::TakenBack(update_index)));
        }
        let changes = side.stack.log(old)?.unwrap_or_default();
        records.logs.extend(changes.into_iter().map(|change| (new.to_vec(), Log::Change(change))));
        // As in git, regardless of configuration: the log records a deletion and a creation.
        let null = ObjectId::null(self.hash);
        for (from, to, after) in [(id, null, 1), (null, id, 2)] {
            let mut change = LoggedChange::new(from, to, &writes.who, message);
            change.update_index = Some(newest + after);
            records.logs.push((new.to_vec(), Log::Change(change)));
        }
        let dir = side.dir.clone();
        side.write(records, writes)?;
        if let Err(error) = compaction::after_change(&dir, writes, self.hash) {
            tracing::warn!("cannot compact reftables: {error}");
        }
        Ok(())
    }
}

fn not_found(name: &[u8]) -> PrepareError {
    RefError::Write(format!("refname {} not found", String::from_utf8_lossy(name))).into()
}

fn in_the_way(existing: &[u8], new: &[u8]) -> PrepareError {
    let [existing, new] = [existing, new].map(String::from_utf8_lossy);
    RefError::Write(format!("'{existing}' exists; cannot create '{new}'")).into()
}
