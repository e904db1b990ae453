//! Changes refs: one model for both backends.
//!
//! ```text
//! RefEdit… ─prepare→ locks taken, values checked, names free ─commit→ reflogs, values, names; locks gone
//!                └→ Refusal, or in a batch one for each edit that cannot be        └abort→ locks gone
//! ```
//!
//! An edit that follows symbolic refs becomes a chain of [`RefStep`]s: the last changes a value, the
//! others get a line in their reflog. Changing the ref that `HEAD` points to also adds a line to the
//! reflog of `HEAD`.
//!
//! After a crash, the reftable backend has all of a transaction or nothing. In the files backend each ref has
//! its old or its new value, and refs that are written to `packed-refs` together are all old or all new.
//! Acknowledged changes survive if the configuration syncs refs.

mod all_refs;
mod available;
mod compaction;
mod directories;
mod files;
mod hook;
mod logs;
mod objects;
mod old_value;
mod packing;
mod preparing;
mod refusal;
mod rename;
mod stack;
mod stack_files;
mod sync;
mod traced;
mod writes;

use std::collections::HashSet;
use std::sync::Arc;

use packrace_object::{HashKind, ObjectId};

use super::traced::is_on;
use super::{Backend, RefStore, Value};
use crate::publish::ObjectsStored;
pub(super) use all_refs::AllRefs;
pub(super) use directories::remove_tree;
use files::FileLocks;
use hook::HookCall;
pub use logs::LogEdit;
pub use objects::{RefObjects, StoredObjects, TagEnd};
pub use packing::PackRefs;
use preparing::Preparing;
pub use refusal::{Cause, PrepareError, Refusal};
use stack::StackLocks;
use traced::TracedChange;
pub use writes::{LogPolicy, RefWrites, TableWrites};

/// A requested change of a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefEdit {
    /// The full name.
    pub name: Vec<u8>,
    /// The change.
    pub change: RefChange,
    /// The required previous value.
    pub expected: Expected,
    /// Whether to change the target of a symbolic ref.
    pub deref: bool,
    /// The message for the reflog; white space is reduced to single spaces.
    pub message: Arc<[u8]>,
    /// Whether to create a reflog even if the configuration does not.
    pub force_log: bool,
}

/// How a ref changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefChange {
    /// Only checks it.
    Verify,
    /// Points it at this object.
    Set(ObjectId),
    /// Makes it a symbolic ref to this name.
    SetSymbolic(Vec<u8>),
    /// Deletes it, with its reflog.
    Delete,
}

/// The required previous value of a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Any value, or none.
    Any,
    /// There is no such ref.
    Absent,
    /// It resolves to this object.
    Id(ObjectId),
    /// It is a symbolic ref to this name.
    Symbolic(Vec<u8>),
}

impl Expected {
    /// Whether the ref must have a value.
    fn is_value(&self) -> bool {
        matches!(self, Expected::Id(_) | Expected::Symbolic(_))
    }
}

/// What happens to the other edits if one cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionMode {
    /// None is made.
    Atomic,
    /// They are made.
    Batch,
}

/// A change of one stored ref, or of a reflog.
#[derive(Debug)]
struct RefStep {
    /// The edit that it belongs to.
    edit: usize,
    name: Vec<u8>,
    change: RefChange,
    expected: Expected,
    /// Only its reflog changes: the ref that it points to gets the value.
    is_log_only: bool,
    /// The reflog line of `HEAD` for a change of the ref that it points to.
    is_of_head: bool,
    /// The step of the ref that this one points to.
    to: Option<usize>,
    /// The first step at which it was known that this ref changes too.
    known_from: usize,
    /// Its previous value.
    old: Option<Value>,
    /// The object that this resolves to.
    old_id: Option<ObjectId>,
    /// The object that its new symbolic target resolves to.
    new_id: Option<ObjectId>,
}

impl RefStep {
    /// Whether its ref gets a value that it does not have.
    fn writes_value(&self) -> bool {
        match &self.change {
            _ if self.is_log_only => false,
            RefChange::Set(id) => self.old != Some(Value::Id(*id)),
            RefChange::SetSymbolic(_) => true,
            RefChange::Verify | RefChange::Delete => false,
        }
    }

    /// Whether the name must be available. As in git, this includes refs that are only checked or deleted.
    fn needs_name(&self) -> bool {
        !self.is_log_only && self.old.is_none()
    }
}

/// A change as hooks see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update<'a> {
    /// The full name.
    pub name: &'a [u8],
    /// The expected value.
    pub expected: &'a Expected,
    /// The change.
    pub change: &'a RefChange,
}

impl<'a> Update<'a> {
    fn of(edit: &'a RefEdit) -> Self {
        Update { name: &edit.name, expected: &edit.expected, change: &edit.change }
    }
}

/// A transaction that is ready to commit. Its refs are locked. Dropping it aborts it.
#[derive(Debug)]
pub struct Prepared<'s> {
    store: &'s RefStore,
    edits: Vec<RefEdit>,
    steps: Vec<RefStep>,
    /// The refused edits of a batch.
    refused: Vec<Refusal>,
    mode: TransactionMode,
    writes: &'s RefWrites,
    locks: Locks,
    /// Dropped after the locks: when the hook is told of an abort, they are released.
    hook: HookCall,
}

/// A backend's part of a transaction.
#[derive(Debug)]
enum Locks {
    Files(Box<FileLocks>),
    Stack(Box<StackLocks>),
}

/// The result of locking the ref of a step.
enum LockedRef {
    /// It is locked and has this value.
    Held(Option<Value>),
    /// It cannot be changed.
    Refused(Cause),
}

impl Locks {
    fn take(&mut self, at: usize, step: &RefStep) -> Result<LockedRef, PrepareError> {
        match self {
            Locks::Files(locks) => locks.take(at, step),
            Locks::Stack(locks) => locks.take(step),
        }
    }

    /// Gives back the lock of a step that is refused. The stack stays locked as a whole.
    fn release(&mut self, at: usize) {
        match self {
            Locks::Files(locks) => locks.release(at),
            Locks::Stack(_) => {}
        }
    }

    fn read(&mut self, name: &[u8]) -> Result<Option<Value>, PrepareError> {
        match self {
            Locks::Files(locks) => locks.read(name),
            Locks::Stack(locks) => locks.read(name),
        }
    }

    fn exists(&mut self, name: &[u8]) -> Result<bool, PrepareError> {
        match self {
            Locks::Files(locks) => locks.exists(name),
            Locks::Stack(locks) => locks.exists(name),
        }
    }

    /// Whether files or locks were in the way of the new ref of a step when it was locked.
    fn was_blocked(&self, at: usize) -> bool {
        matches!(self, Locks::Files(locks) if locks.was_blocked(at))
    }

    /// That the name of the new ref of a step is not available.
    fn conflict(&self, at: usize, name: &[u8], existing: Vec<u8>) -> Cause {
        // Of many refs that are packed together, each would have met the file at its lock.
        let is_loose = || matches!(self, Locks::Files(locks) if locks.has_file(&existing).unwrap_or(false));
        let is_at_lock = self.was_blocked(at) || is_loose();
        Cause::Conflict { name: name.to_vec(), existing, is_at_lock }
    }

    fn first_below(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>, PrepareError> {
        match self {
            Locks::Files(locks) => locks.first_below(name),
            Locks::Stack(locks) => locks.first_below(name),
        }
    }
}

impl RefStore {
    /// Locks and checks the refs of `edits`. The caller has checked the names ([`super::is_good_name`]).
    pub fn prepare<'s>(
        &'s self,
        edits: Vec<RefEdit>,
        mode: TransactionMode,
        writes: &'s RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<Prepared<'s>, PrepareError> {
        if writes.is_quarantined {
            return Err(PrepareError::Quarantined);
        }
        let null = ObjectId::null(self.hash);
        // Dropped last: when the hook is told of an abort, the locks are released.
        let mut hook = HookCall::of(writes.hooks.as_ref());
        hook.ask("preparing", edits.iter().map(Update::of), null)?;
        let locked = self.lock(edits, mode, writes, objects);
        traced::prepared(locked.as_ref().map(drop));
        let mut prepared = match locked {
            Ok(prepared) => prepared,
            Err(error) => {
                hook.silence();
                return Err(error);
            }
        };
        hook.ask("prepared", prepared.updates(), null)?;
        prepared.hook = hook;
        Ok(prepared)
    }

    /// Whether an edit would be refused for the object that it sets, whatever else is true.
    pub fn check_object(
        &self,
        number: usize,
        edit: &RefEdit,
        objects: &mut dyn RefObjects,
    ) -> Result<Option<Refusal>, PrepareError> {
        let RefChange::Set(id) = edit.change else { return Ok(None) };
        let name = self.dirs.plain(&edit.name);
        let cause = objects::check(objects, name, id)?;
        Ok(cause.map(|cause| Refusal {
            edit: number,
            name: edit.name.clone(),
            target: edit.name.clone(),
            cause,
            backend: self.backend,
        }))
    }

    /// Abandons an unprepared transaction; only notifies the hook.
    pub fn abandon(&self, edits: &[RefEdit], writes: &RefWrites) {
        HookCall::of(writes.hooks.as_ref()).note(edits.iter().map(Update::of), ObjectId::null(self.hash));
    }

    fn lock<'s>(
        &'s self,
        edits: Vec<RefEdit>,
        mode: TransactionMode,
        writes: &'s RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<Prepared<'s>, PrepareError> {
        let locks = match self.backend {
            Backend::Files => Locks::Files(Box::new(FileLocks::begin(self, &edits, writes)?)),
            Backend::Reftable => Locks::Stack(Box::new(StackLocks::begin(self, &edits, writes)?)),
        };
        Preparing::new(self, edits, mode, locks, objects).run(writes)
    }
}

impl Prepared<'_> {
    /// The refused edits of a batch, by number.
    pub fn refused(&self) -> &[Refusal] {
        &self.refused
    }

    /// The changes, in the order of the edits; each symbolic ref is replaced by its target, at the end.
    pub fn updates(&self) -> impl Iterator<Item = Update<'_>> {
        let refused: HashSet<usize> = self.refused.iter().map(|refusal| refusal.edit).collect();
        let is_reported =
            move |(_, step): &(usize, &RefStep)| !refused.contains(&step.edit) && !step.is_log_only;
        self.steps.iter().enumerate().filter(is_reported).map(|(at, step)| Update {
            // The name that was asked for may tell this work tree.
            name: if at == step.edit { &self.edits[at].name } else { &step.name },
            expected: &step.expected,
            change: &step.change,
        })
    }

    /// Makes the changes. Objects of new values must be durable, which `_proof` shows. In a batch, returns
    /// all refusals: another process may have been faster at the last moment.
    pub fn commit(
        self,
        proof: &ObjectsStored,
        objects: &mut dyn RefObjects,
    ) -> Result<Vec<Refusal>, PrepareError> {
        let (refused, written) = self.write(proof, objects)?;
        written.committed();
        Ok(refused)
    }

    /// As above, for refs that become visible later, if ever: the caller reports the outcome to the hook.
    pub fn write(
        self,
        _proof: &ObjectsStored,
        objects: &mut dyn RefObjects,
    ) -> Result<(Vec<Refusal>, WrittenTransaction), PrepareError> {
        let Prepared { steps, mut refused, mode, writes, locks, edits, store, hook } = self;
        let is_refused: HashSet<usize> = refused.iter().map(|refusal: &Refusal| refusal.edit).collect();
        let work = CommitWork { store, edits: &edits, steps, is_refused, mode, writes };
        let is_traced = is_on() && work.has_direct();
        if is_traced {
            traced::changes(ObjectId::null(store.hash), work.steps.iter().map(|step| work.traced(step)));
        }
        let made = match locks {
            Locks::Files(locks) => locks.commit(&work, objects).map(|later| refused.extend(later)),
            Locks::Stack(locks) => locks.commit(&work, objects),
        };
        if is_traced {
            traced::finished(made.is_ok());
        }
        made?;
        Ok((refused, WrittenTransaction(hook)))
    }

    /// Changes nothing.
    pub fn abort(self) {}
}

/// The written changes of a transaction. Dropping this tells the hook that they were abandoned.
#[derive(Debug)]
pub struct WrittenTransaction(HookCall);

impl WrittenTransaction {
    /// The changes are visible now.
    pub fn committed(self) {
        self.0.committed();
    }

    /// Whether the changes are visible is unknown.
    pub fn forget(mut self) {
        self.0.silence();
    }
}

/// The input of a backend's commit.
struct CommitWork<'a> {
    store: &'a RefStore,
    edits: &'a [RefEdit],
    steps: Vec<RefStep>,
    is_refused: HashSet<usize>,
    mode: TransactionMode,
    writes: &'a RefWrites,
}

impl CommitWork<'_> {
    /// The old and new object for the reflog line of a step's ref, if it gets one.
    fn logged(&self, step: &RefStep, hash: HashKind) -> Option<(ObjectId, ObjectId)> {
        let null = ObjectId::null(hash);
        let old = step.old_id.unwrap_or(null);
        let new = match &step.change {
            _ if self.writes.log == LogPolicy::Never => return None,
            RefChange::Set(id) => *id,
            // As git writes it, also if the target of `HEAD` becomes a symbolic ref.
            RefChange::Delete if step.is_log_only || self.keeps_log(step) => null,
            RefChange::SetSymbolic(_) if step.is_of_head => null,
            RefChange::SetSymbolic(_) => step.new_id?,
            RefChange::Verify | RefChange::Delete => return None,
        };
        let is_set = matches!(step.change, RefChange::Set(_)) && !step.is_log_only;
        (!is_set || step.writes_value()).then_some((old, new))
    }

    /// Whether a deletion keeps the reflog: as in git, that of a symbolic ref in reftables does.
    fn keeps_log(&self, step: &RefStep) -> bool {
        self.store.backend == Backend::Reftable && matches!(step.old, Some(Value::Symbolic(_)))
    }

    /// Whether anything but symbolic refs is changed or checked.
    fn has_direct(&self) -> bool {
        self.steps.iter().any(|step| !matches!(step.change, RefChange::SetSymbolic(_)))
    }

    fn traced<'a>(&'a self, step: &'a RefStep) -> TracedChange<'a> {
        let edit = &self.edits[step.edit];
        TracedChange {
            name: &step.name,
            change: &step.change,
            expected: &step.expected,
            new_id: step.new_id,
            message: &edit.message,
            is_itself: step.is_log_only || !edit.deref,
            was_symbolic: matches!(step.old, Some(Value::Symbolic(_))),
        }
    }

    /// The steps that are made, with their numbers.
    fn steps(&self) -> impl Iterator<Item = (usize, &RefStep)> {
        self.steps.iter().enumerate().filter(|(_, step)| !self.is_refused.contains(&step.edit))
    }
}
