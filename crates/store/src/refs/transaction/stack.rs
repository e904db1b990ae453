//! The reftable backend's part of a transaction: the lock of `tables.list`, and one new table.
//!
//! ```text
//! tables.list.lock ─ table written whole, footer and all ─ sync → rename ─ sync directory
//!                  ─ list written ─ sync → rename ─ sync directory
//! then, if tables have become too many: module `compaction`
//! ```
//!
//! Before the list is renamed, nothing is visible; after that, everything is. A file system may keep the
//! second rename and lose the first, so the directory is synced between them. A killed writer leaves a table
//! that no list names, and a lock.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use packrace_format::reftable::{
    LogChange, LogRecord, RefRecord, RefValue, ReftableWriteError, TableName, Writer, format_list,
};
use packrace_object::{HashKind, ObjectId};
use packrace_os::count::Role;
use packrace_os::durable::{self, random_number};

use super::super::reflog::{LoggedChange, parse_who};
use super::super::reftable::{Stack, read_first_list};
use super::super::{Holder, Peeled, Place, RefDirs, RefError, Target};
use super::stack_files::{failed, publish_list, sync_dir, write_table};
use super::{
    CommitWork, LockedRef, PrepareError, RefChange, RefEdit, RefObjects, RefStep, RefWrites, Value,
    compaction,
};
use crate::publish::{Component, FileKind, LockFile};
use crate::refs::RefStore;

/// The locks of the stacks that a transaction changes.
#[derive(Debug)]
pub(super) struct StackLocks {
    hash: HashKind,
    writes: RefWrites,
    dirs: RefDirs,
    has_own: bool,
    /// The stacks that were needed so far.
    sides: Vec<Side>,
}

/// A stack with its lock.
#[derive(Debug)]
pub(super) struct Side {
    holder: SideHolder,
    pub(super) dir: PathBuf,
    /// Read when it is needed, and again once it is locked.
    pub(super) stack: Stack,
    is_read: bool,
    lock: Option<LockFile>,
}

/// The holder of a stack, owned.
#[derive(Debug, PartialEq, Eq)]
enum SideHolder {
    Common,
    /// Only in a linked work tree.
    Own,
    /// By id.
    Linked(Vec<u8>),
}

/// The contents of a new table.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) refs: Vec<NewRef>,
    pub(super) logs: Vec<(Vec<u8>, Log)>,
}

#[derive(Debug)]
pub(super) struct NewRef {
    pub(super) name: Vec<u8>,
    /// `None` deletes it.
    pub(super) value: Option<Value>,
    /// The object that its tag finally points to.
    pub(super) peeled: Option<ObjectId>,
}

#[derive(Debug)]
pub(super) enum Log {
    /// Deletes the record of this update index.
    TakenBack(u64),
    /// A new record of this transaction, or a replacement of an earlier one.
    Change(LoggedChange),
}

impl Log {
    /// Marks an empty reflog as existing.
    pub(super) fn marker(hash: HashKind, who: &[u8]) -> Self {
        let null = ObjectId::null(hash);
        Log::Change(LoggedChange::new(null, null, who, b""))
    }
}

impl StackLocks {
    pub(super) fn begin(
        store: &RefStore,
        edits: &[RefEdit],
        writes: &RefWrites,
    ) -> Result<Self, PrepareError> {
        let dirs = store.dirs.clone();
        let has_own = dirs.git_dir != dirs.common_dir;
        let (hash, writes) = (store.hash, writes.clone());
        let mut locks = StackLocks { hash, writes, dirs, has_own, sides: Vec::new() };
        for edit in edits {
            locks.lock(&edit.name)?;
        }
        Ok(locks)
    }

    /// Locks the stack of a ref and rereads it.
    pub(super) fn lock(&mut self, name: &[u8]) -> Result<&mut Side, PrepareError> {
        let (at, _) = self.side_of(name);
        self.lock_side(at)
    }

    /// The number of the stack of a ref, and the ref's name there.
    pub(super) fn side_of<'a>(&mut self, name: &'a [u8]) -> (usize, &'a [u8]) {
        let Place { holder, name } = self.dirs.place(name);
        let has_own = self.has_own;
        let is_held = |side: &Side| match (holder, &side.holder) {
            (Holder::Common, SideHolder::Common) | (Holder::Own, SideHolder::Own) => true,
            (Holder::Own, SideHolder::Common) => !has_own,
            (Holder::Linked(id), SideHolder::Linked(other)) => id == other,
            _ => false,
        };
        if let Some(at) = self.sides.iter().position(is_held) {
            return (at, name);
        }
        let side_holder = match holder {
            Holder::Linked(id) => SideHolder::Linked(id.to_vec()),
            Holder::Own if has_own => SideHolder::Own,
            Holder::Own | Holder::Common => SideHolder::Common,
        };
        let dir = self.dirs.dir(holder).join("reftable");
        self.sides.push(Side { holder: side_holder, dir, stack: Stack::empty(), is_read: false, lock: None });
        (self.sides.len() - 1, name)
    }

    /// The stack of a ref, and the ref's name there.
    fn side<'a>(&mut self, name: &'a [u8]) -> Result<(&mut Side, &'a [u8]), RefError> {
        let (at, name) = self.side_of(name);
        let side = &mut self.sides[at];
        if !side.is_read {
            side.read(self.hash)?;
        }
        Ok((side, name))
    }

    fn lock_side(&mut self, at: usize) -> Result<&mut Side, PrepareError> {
        let (hash, policy, patience) = (self.hash, self.writes.policy, self.writes.reftable_patience);
        let side = &mut self.sides[at];
        if side.lock.is_none() {
            side.check_holder()?;
            let list = side.dir.join("tables.list");
            let taken = LockFile::take_within(&list, FileKind::Refs, policy, patience);
            let taken = taken.map_err(|error| match error.is_locked() {
                true => {
                    RefError::File { words: "cannot lock references".to_owned(), source: Box::new(error) }
                }
                false => RefError::from(error),
            })?;
            side.lock = Some(taken);
            side.read(hash)?;
            if side.stack.tables.is_empty() {
                read_first_list(&list)?;
            }
        }
        Ok(side)
    }

    pub(super) fn take(&mut self, step: &RefStep) -> Result<LockedRef, PrepareError> {
        self.lock(&step.name)?;
        self.read(&step.name).map(LockedRef::Held)
    }

    pub(super) fn read(&mut self, name: &[u8]) -> Result<Option<Value>, PrepareError> {
        let (side, name) = self.side(name)?;
        Ok(side.stack.find(name)?.map(|target| match target {
            Target::Direct { id, .. } => Value::Id(id),
            Target::Symbolic(target) => Value::Symbolic(target.to_vec()),
        }))
    }

    pub(super) fn exists(&mut self, name: &[u8]) -> Result<bool, PrepareError> {
        let (side, name) = self.side(name)?;
        Ok(side.stack.find(name)?.is_some())
    }

    /// The first ref below a name.
    pub(super) fn first_below(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>, PrepareError> {
        let (side, there) = self.side(name)?;
        let found = side.stack.first_below(&[there, b"/"].concat())?;
        let told = &name[..name.len() - there.len()];
        Ok(found.map(|found| [told, &found].concat()))
    }

    pub(super) fn commit(
        mut self,
        work: &CommitWork<'_>,
        objects: &mut dyn RefObjects,
    ) -> Result<(), PrepareError> {
        let mut all: Vec<Records> = Vec::new();
        for (_, step) in work.steps() {
            let (at, _) = self.side_of(&step.name);
            all.resize_with(all.len().max(at + 1), Records::default);
            self.add(work, step, &mut all[at], objects)?;
        }
        let mut changed: Vec<(usize, Records)> = all.into_iter().enumerate().collect();
        changed.retain(|(_, records)| !records.refs.is_empty() || !records.logs.is_empty());
        // Those of work trees first.
        changed.sort_by_key(|(at, _)| self.sides[*at].holder == SideHolder::Common);
        let mut written = Vec::new();
        for (at, records) in changed {
            let writes = self.writes.clone();
            let side = self.lock_side(at)?;
            side.write(records, &writes)?;
            written.push(side.dir.clone());
        }
        for dir in written {
            // The transaction is committed. The next one tries again to compact the stack.
            if let Err(error) = compaction::after_change(&dir, &self.writes, self.hash) {
                tracing::warn!("cannot compact reftables: {error}");
            }
        }
        Ok(())
    }

    /// Adds the records of a step.
    fn add(
        &mut self,
        work: &CommitWork<'_>,
        step: &RefStep,
        records: &mut Records,
        objects: &mut dyn RefObjects,
    ) -> Result<(), PrepareError> {
        let hash = self.hash;
        let is_begun = work.edits[step.edit].force_log || self.writes.log.begins(&step.name);
        let (side, there) = self.side(&step.name)?;
        let name = || there.to_vec();
        if let Some((old, new)) = work.logged(step, hash)
            && (is_begun || side.stack.has_log(there)?)
        {
            let message = &work.edits[step.edit].message;
            let change = LoggedChange::new(old, new, &work.writes.who, message);
            records.logs.push((name(), Log::Change(change)));
        }
        if step.is_log_only {
            return Ok(());
        }
        match &step.change {
            // As in git, the reflog of a missing ref is kept.
            RefChange::Delete if step.old.is_none() => {}
            RefChange::Verify => {}
            RefChange::Set(id) => {
                let peeled = match objects.peel(id).map_err(PrepareError::Objects)? {
                    Peeled::To(peeled) => Some(peeled),
                    Peeled::NotATag | Peeled::Unknown => None,
                };
                records.refs.push(NewRef { name: name(), value: Some(Value::Id(*id)), peeled });
            }
            RefChange::SetSymbolic(target) => {
                let value = Some(Value::Symbolic(target.clone()));
                records.refs.push(NewRef { name: name(), value, peeled: None });
            }
            RefChange::Delete => {
                records.refs.push(NewRef { name: name(), value: None, peeled: None });
                if work.keeps_log(step) {
                    return Ok(());
                }
                for update_index in side.stack.log_updates(there)? {
                    records.logs.push((name(), Log::TakenBack(update_index)));
                }
            }
        }
        Ok(())
    }
}

impl Side {
    /// An error if this is the stack of a work tree that does not exist.
    fn check_holder(&self) -> Result<(), RefError> {
        // Without its directory, a new stack would hide that all refs are gone.
        let dir = match self.holder {
            SideHolder::Linked(_) => self.dir.parent().unwrap_or(&self.dir),
            SideHolder::Common => &self.dir,
            SideHolder::Own => return Ok(()),
        };
        let found = packrace_os::identity(dir, Role::Refs);
        match found.map_err(|source| RefError::Io { path: dir.to_owned(), source })? {
            Some(file) if file.is_dir => Ok(()),
            _ => Err(RefError::Write("reftable: transaction prepare: I/O error".to_owned())),
        }
    }

    fn read(&mut self, hash: HashKind) -> Result<(), RefError> {
        self.stack = Stack::read(self.dir.parent().unwrap_or(&self.dir), hash)?;
        self.is_read = true;
        Ok(())
    }

    /// Adds a table to the stack and releases the lock.
    pub(super) fn write(&mut self, mut records: Records, writes: &RefWrites) -> Result<(), RefError> {
        let Some(lock) = self.lock.take() else { return Ok(()) };
        let newest = self.stack.tables.last().map_or(0, |table| table.table.update_indexes().1);
        let update_index = newest.checked_add(1).ok_or_else(|| failed("update indexes are used up"))?;
        records.refs.sort_by(|a, b| a.name.cmp(&b.name));
        let options = writes.tables.options;
        let longest_message = options.block_bytes.max(1) / 2;
        let later = records.logs.iter().filter_map(|(_, log)| match log {
            Log::Change(change) => change.update_index,
            Log::TakenBack(_) => None,
        });
        // For a rename, which is two changes.
        let last_index = later.max().map_or(update_index, |last| last.max(update_index));
        let name = TableName {
            min_update_index: update_index,
            max_update_index: last_index,
            random: random_number(),
        };
        write_table(&self.dir, &name, writes, |sink| {
            let mut writer = Writer::new(&options, update_index, last_index, sink).map_err(failed)?;
            for NewRef { name, value, peeled } in &records.refs {
                let value = match (value, peeled) {
                    (None, _) => RefValue::Deletion,
                    (Some(Value::Symbolic(target)), _) => RefValue::Symbolic(target),
                    (Some(Value::Id(id)), None) => RefValue::Id(*id),
                    (Some(Value::Id(id)), Some(peeled)) => RefValue::Tag { id: *id, peeled: *peeled },
                };
                writer.add_ref(&RefRecord { name, update_index, value }).map_err(not_added)?;
            }
            let mut logs: Vec<(&[u8], u64, Option<&LoggedChange>)> = Vec::with_capacity(records.logs.len());
            logs.extend(records.logs.iter().map(|(name, log)| match log {
                Log::TakenBack(update_index) => (name.as_slice(), *update_index, None),
                Log::Change(change) => {
                    (name.as_slice(), change.update_index.unwrap_or(update_index), Some(change))
                }
            }));
            logs.sort_by(|a, b| (a.0, b.1).cmp(&(b.0, a.1)));
            for (name, update_index, change) in logs {
                // Without ids and message, it marks an empty log.
                let is_mark = |change: &LoggedChange| {
                    change.old.is_null() && change.new.is_null() && change.message.is_empty()
                };
                let message = change.map(|change| match is_mark(change) {
                    true => Vec::new(),
                    false => cut(&change.message, longest_message),
                });
                let change = change.map(|change| log_change(change, message.as_deref().unwrap_or_default()));
                let record = LogRecord { name, update_index, change: change.transpose()? };
                writer.add_log(&record).map_err(not_added)?;
            }
            writer.finish().map(drop).map_err(not_added)
        })?;
        let names = self.stack.tables.iter().filter_map(|table| table.path.file_name());
        let names: Vec<Vec<u8>> = names.map(|name| name.as_bytes().to_vec()).collect();
        let list = format_list(names.into_iter().chain([name.to_string().into_bytes()]));
        if let Err(error) = publish_list(lock, &self.dir, &list) {
            // Nothing refers to the table; the first error is reported.
            let _ = durable::remove_file(&self.dir.join(name.to_string()), Role::Refs);
            return Err(error);
        }
        if writes.policy.syncs_names(Component::Reference) {
            sync_dir(&self.dir)?;
        }
        Ok(())
    }
}

fn log_change<'a>(change: &'a LoggedChange, message: &'a [u8]) -> Result<LogChange<'a>, RefError> {
    let who = parse_who(&change.who).ok_or_else(|| failed("the name of who does it is malformed"))?;
    let LoggedChange { old, new, .. } = *change;
    Ok(LogChange {
        old,
        new,
        name: who.name,
        email: who.email,
        seconds: who.seconds,
        zone: who.zone,
        message,
    })
}

/// In git's words, as far as it has any.
fn not_added(error: ReftableWriteError) -> RefError {
    match error {
        ReftableWriteError::TooLong { .. } => failed(format!("reftable: transaction failure: {error}")),
        error => failed(error),
    }
}

/// As in git: a message ends with a line feed, even an empty one, and is no longer than half a block.
fn cut(message: &[u8], longest: usize) -> Vec<u8> {
    let mut cut = message[..message.len().min(longest.saturating_sub(1))].to_vec();
    cut.push(b'\n');
    cut
}
