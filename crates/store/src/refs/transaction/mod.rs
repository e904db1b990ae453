//! Changing refs: one model for both backends.
//!
//! ```text
//! RefEdit… ─prepare→ locks taken, values checked, names free ─commit→ reflogs, values, names; locks gone
//!                └→ Refusal, or in a batch one for each edit that cannot be        └abort→ locks gone
//! ```
//!
//! An edit that follows symbolic refs becomes a chain of [`Step`]s, of which the last changes a value and the others get
//! a line in their reflog. A ref that `HEAD` stands for brings a line in the reflog of `HEAD` with it.
//!
//! What survives a crash: in the reftable backend all of a transaction or nothing; in the files backend each ref is as it
//! was or as it shall be, and those that go into `packed-refs` together are all the one or all the other.

mod available;
mod compaction;
mod files;
mod objects;
mod refusal;
mod stack;
mod writes;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use packrace_object::{HashKind, ObjectId};

use super::{Backend, MAX_SYMREF_DEPTH, RefStore};
use crate::publish::DurableObjects;
use files::FileLocks;
pub use objects::{RefObjects, StoredObjects};
pub use refusal::{Cause, PrepareError, Refusal};
use stack::StackLocks;
pub use writes::{LogPolicy, RefWrites, TableWrites};

/// One change of a ref that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefEdit {
    /// The full name.
    pub name: Vec<u8>,
    /// What becomes of it.
    pub change: Change,
    /// What it must say before.
    pub expected: Expected,
    /// Whether a symbolic ref stands for what it leads to.
    pub deref: bool,
    /// Why, for the reflog; white space becomes single spaces.
    pub message: Arc<[u8]>,
    /// Begin a reflog where the configuration would not.
    pub force_log: bool,
}

/// What becomes of a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Nothing; it is only checked.
    Verify,
    /// It points at this object.
    Set(ObjectId),
    /// It stands for the ref of this name.
    SetSymbolic(Vec<u8>),
    /// It goes, with its reflog.
    Delete,
}

/// What a ref must say before it is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Anything or nothing.
    Any,
    /// There is no such ref.
    Absent,
    /// It leads to this object.
    Id(ObjectId),
    /// It stands for the ref of this name.
    Symbolic(Vec<u8>),
}

/// What an edit that cannot be made means for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// None is made.
    Atomic,
    /// It is refused, and the others are made.
    Batch,
}

/// What a ref says, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// It points at an object.
    Id(ObjectId),
    /// It stands for another ref.
    Symbolic(Vec<u8>),
}

/// A change of one stored ref, or of a reflog.
#[derive(Debug)]
struct Step {
    /// The edit that it comes from.
    edit: usize,
    name: Vec<u8>,
    change: Change,
    expected: Expected,
    /// Only its reflog gets a line, as the ref that it leads to is changed.
    is_log_only: bool,
    /// It is the line of `HEAD` that a change of the ref behind it brings.
    is_of_head: bool,
    /// The step of the ref that this one leads to.
    to: Option<usize>,
    /// The first step for which it was known that this ref is changed too.
    known_from: usize,
    /// What it says.
    old: Option<Value>,
    /// Where that leads.
    old_id: Option<ObjectId>,
    /// Where the ref leads that it shall stand for.
    new_id: Option<ObjectId>,
}

impl Step {
    /// Whether the name must be free. As in git, also one that is only looked at, or deleted.
    fn needs_name(&self) -> bool {
        !self.is_log_only && self.old.is_none()
    }
}

/// What a transaction changes, as hooks are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update<'a> {
    /// The full name.
    pub name: &'a [u8],
    /// What was expected; absent where anything was.
    pub expected: &'a Expected,
    /// What becomes of it.
    pub change: &'a Change,
}

/// A transaction that can be committed. Nobody else changes its refs meanwhile. Dropped, it is aborted.
#[derive(Debug)]
pub struct Prepared<'s> {
    store: &'s RefStore,
    edits: Vec<RefEdit>,
    steps: Vec<Step>,
    /// Of a batch, what cannot be.
    refused: Vec<Refusal>,
    mode: Mode,
    writes: &'s RefWrites,
    locks: Locks,
}

/// What a backend does for a transaction.
#[derive(Debug)]
enum Locks {
    Files(Box<FileLocks>),
    Stack(Box<StackLocks>),
}

impl Locks {
    fn take(&mut self, at: usize, step: &Step) -> Result<Result<Option<Value>, Cause>, PrepareError> {
        match self {
            Locks::Files(locks) => locks.take(at, step),
            Locks::Stack(locks) => locks.take(step),
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

    fn first_below(&mut self, prefix: &[u8]) -> Result<Option<Vec<u8>>, PrepareError> {
        match self {
            Locks::Files(locks) => locks.first_below(prefix),
            Locks::Stack(locks) => locks.first_below(prefix),
        }
    }
}

impl RefStore {
    /// Locks and checks what `edits` change. Names are checked by the caller ([`super::is_good_name`]).
    pub fn prepare<'s>(
        &'s self,
        edits: Vec<RefEdit>,
        mode: Mode,
        writes: &'s RefWrites,
        objects: &mut dyn RefObjects,
    ) -> Result<Prepared<'s>, PrepareError> {
        let locks = match self.backend {
            Backend::Files => Locks::Files(Box::new(FileLocks::begin(self, &edits, writes)?)),
            Backend::Reftable => Locks::Stack(Box::new(StackLocks::begin(self, &edits, writes)?)),
        };
        let preparing = Preparing {
            store: self,
            names: HashMap::with_capacity(edits.len()),
            steps: Vec::with_capacity(edits.len()),
            problems: Vec::new(),
            edits,
            locks,
            objects,
        };
        preparing.run(mode, writes)
    }
}

impl Prepared<'_> {
    /// The edits of a batch that are not made, by their number.
    pub fn refused(&self) -> &[Refusal] {
        &self.refused
    }

    /// What will change, in the order of the edits; refs that are reached through symbolic ones come last.
    pub fn updates(&self) -> impl Iterator<Item = Update<'_>> {
        let refused: HashSet<usize> = self.refused.iter().map(|refusal| refusal.edit).collect();
        let is_told = move |step: &&Step| !refused.contains(&step.edit);
        self.steps.iter().filter(is_told).map(|step| Update {
            name: &step.name,
            expected: &step.expected,
            change: &step.change,
        })
    }

    /// Makes the changes. New values name objects that were durable before, which `_proof` stands for. In a batch, gives
    /// all refusals: somebody else may have been quicker at the last moment.
    pub fn commit(
        self,
        _proof: &DurableObjects,
        objects: &mut dyn RefObjects,
    ) -> Result<Vec<Refusal>, PrepareError> {
        let Prepared { steps, mut refused, mode, writes, locks, edits, store } = self;
        let is_refused: HashSet<usize> = refused.iter().map(|refusal: &Refusal| refusal.edit).collect();
        let work = Work { store, edits: &edits, steps, is_refused, mode, writes };
        match locks {
            Locks::Files(locks) => refused.extend(locks.commit(&work, objects)?),
            Locks::Stack(locks) => locks.commit(&work, objects)?,
        }
        Ok(refused)
    }

    /// Changes nothing.
    pub fn abort(self) {}
}

/// What a backend is to write.
struct Work<'a> {
    store: &'a RefStore,
    edits: &'a [RefEdit],
    steps: Vec<Step>,
    is_refused: HashSet<usize>,
    mode: Mode,
    writes: &'a RefWrites,
}

impl Work<'_> {
    /// The old and the new object for a line in the reflog of a step's ref, if it gets one.
    fn logged(&self, step: &Step, hash: HashKind) -> Option<(ObjectId, ObjectId)> {
        let null = ObjectId::null(hash);
        let old = step.old_id.unwrap_or(null);
        let new = match &step.change {
            _ if self.writes.log == LogPolicy::Never => return None,
            Change::Set(id) => *id,
            // As git writes it, also where the ref behind `HEAD` becomes a symbolic one.
            Change::Delete if step.is_log_only || self.keeps_log(step) => null,
            Change::SetSymbolic(_) if step.is_of_head => null,
            Change::SetSymbolic(_) => step.new_id?,
            Change::Verify | Change::Delete => return None,
        };
        let is_set = matches!(step.change, Change::Set(_)) && !step.is_log_only;
        let is_unchanged = is_set && step.old == Some(Value::Id(new));
        (!is_unchanged).then_some((old, new))
    }

    /// Whether a deletion leaves the reflog: as with git, that of a symbolic ref among reftables does.
    fn keeps_log(&self, step: &Step) -> bool {
        self.store.backend == Backend::Reftable && matches!(step.old, Some(Value::Symbolic(_)))
    }

    /// The steps that are made, with their numbers.
    fn steps(&self) -> impl Iterator<Item = (usize, &Step)> {
        self.steps.iter().enumerate().filter(|(_, step)| !self.is_refused.contains(&step.edit))
    }
}

struct Preparing<'a, 's> {
    store: &'s RefStore,
    edits: Vec<RefEdit>,
    /// Every name that a step has, and the first one that has it.
    names: HashMap<Vec<u8>, usize>,
    steps: Vec<Step>,
    problems: Vec<Problem>,
    locks: Locks,
    objects: &'a mut dyn RefObjects,
}

/// Why a step cannot be made.
struct Problem {
    step: usize,
    cause: Cause,
}

impl<'s> Preparing<'_, 's> {
    fn run(mut self, mode: Mode, writes: &'s RefWrites) -> Result<Prepared<'s>, PrepareError> {
        let mut twice = Vec::new();
        for (edit, asked) in self.edits.iter().enumerate() {
            let step = Step {
                edit,
                name: asked.name.clone(),
                change: asked.change.clone(),
                expected: asked.expected.clone(),
                is_log_only: false,
                is_of_head: false,
                to: None,
                known_from: 0,
                old: None,
                old_id: None,
                new_id: None,
            };
            if self.names.insert(asked.name.clone(), edit).is_some() {
                twice.push(edit);
            }
            self.steps.push(step);
        }
        if let Some(edit) = twice.into_iter().min_by_key(|edit| &self.edits[*edit].name) {
            let cause = Cause::Duplicate { name: self.edits[edit].name.clone(), via: None };
            return Err(self.refusal(Problem { step: edit, cause }).into());
        }
        self.log_head()?;
        let mut at = 0;
        while at < self.steps.len() {
            self.take(at)?;
            at += 1;
        }
        self.inherit_old_ids();
        let unavailable = available::conflicts(&self.steps, &mut self.locks)?;
        self.problems.extend(unavailable);
        // In git's order: refs that symbolic ones lead to come after all that were asked for.
        self.problems.sort_by_key(|problem| (problem.step, problem.cause.rank(self.store.backend)));
        let mut refused: Vec<Refusal> = Vec::new();
        let mut is_refused = HashSet::new();
        for problem in std::mem::take(&mut self.problems) {
            let refusal = self.refusal(problem);
            if mode == Mode::Atomic || !refusal.cause.is_for_one() {
                return Err(refusal.into());
            }
            if is_refused.insert(refusal.edit) {
                refused.push(refusal);
            }
        }
        self.resolve_new_targets(&is_refused)?;
        let Preparing { store, edits, mut steps, mut locks, .. } = self;
        match &mut locks {
            Locks::Files(locks) => locks.stage(&mut steps, &refused)?,
            // A table is written when all is known.
            Locks::Stack(_) => {}
        }
        Ok(Prepared { store, edits, steps, refused, mode, writes, locks })
    }

    /// Adds the line in the reflog of `HEAD` that a change of the ref it stands for brings.
    fn log_head(&mut self) -> Result<(), PrepareError> {
        let Some(Value::Symbolic(target)) = self.locks.read(b"HEAD")? else { return Ok(()) };
        let Some(&to) = self.names.get(&target) else { return Ok(()) };
        if self.names.contains_key(b"HEAD".as_slice()) {
            self.problems.push(Problem { step: to, cause: Cause::DuplicateHead(target) });
            return Ok(());
        }
        if matches!(self.steps[to].change, Change::Verify) {
            return Ok(());
        }
        self.steps.push(Step {
            edit: self.steps[to].edit,
            name: b"HEAD".to_vec(),
            change: self.steps[to].change.clone(),
            expected: Expected::Any,
            is_log_only: true,
            is_of_head: true,
            to: Some(to),
            known_from: 0,
            old: Some(Value::Symbolic(target)),
            old_id: None,
            new_id: None,
        });
        Ok(())
    }

    /// Locks the ref of a step, reads and checks it; a symbolic one brings another step.
    fn take(&mut self, at: usize) -> Result<(), PrepareError> {
        if self.steps[at].is_log_only {
            return Ok(());
        }
        // Git looks at the object first with reftables, and last with files.
        if self.store.backend == Backend::Reftable
            && let Some(cause) = self.check_object(at)?
        {
            self.problems.push(Problem { step: at, cause });
            return Ok(());
        }
        let old = match self.locks.take(at, &self.steps[at])? {
            Ok(old) => old,
            // Told with all that is in the way of the name.
            Err(Cause::Conflict { .. }) => return Ok(()),
            Err(cause) => {
                self.problems.push(Problem { step: at, cause });
                return Ok(());
            }
        };
        let step = &mut self.steps[at];
        step.old = old;
        let is_deref = self.edits[step.edit].deref;
        match step.old.clone() {
            Some(Value::Symbolic(target)) if is_deref => {
                return self.follow(at, target);
            }
            Some(Value::Symbolic(target)) => match self.resolve(target, &HashMap::new())? {
                Some(old_id) => self.steps[at].old_id = old_id,
                None if matches!(self.steps[at].expected, Expected::Id(_) | Expected::Absent) => {
                    self.problems.push(Problem { step: at, cause: Cause::Endless });
                    return Ok(());
                }
                None => {}
            },
            Some(Value::Id(id)) => step.old_id = Some(id),
            None => {}
        }
        if let Some(cause) = self.check(at)? {
            self.problems.push(Problem { step: at, cause });
        }
        Ok(())
    }

    /// Goes on from a symbolic ref to the one that it stands for.
    fn follow(&mut self, at: usize, target: Vec<u8>) -> Result<(), PrepareError> {
        let next = self.steps.len();
        let step = &mut self.steps[at];
        step.is_log_only = true;
        let (edit, change, expected) = (step.edit, step.change.clone(), step.expected.clone());
        if self.names.contains_key(&target) {
            let via = self.steps[at].name.clone();
            let cause = Cause::Duplicate { name: target, via: Some(via) };
            self.problems.push(Problem { step: at, cause });
            return Ok(());
        }
        self.names.insert(target.clone(), next);
        self.steps[at].to = Some(next);
        self.steps.push(Step {
            edit,
            name: target,
            change,
            expected,
            is_log_only: false,
            is_of_head: false,
            to: None,
            known_from: at + 1,
            old: None,
            old_id: None,
            new_id: None,
        });
        Ok(())
    }

    /// Where `name` leads after what is `changed` already, which may be nowhere; `None` if there is no end.
    fn resolve(
        &mut self,
        mut name: Vec<u8>,
        changed: &HashMap<Vec<u8>, Value>,
    ) -> Result<Option<Option<ObjectId>>, PrepareError> {
        for _ in 0..MAX_SYMREF_DEPTH {
            let value = match changed.get(&name) {
                Some(value) => Some(value.clone()),
                None => self.locks.read(&name)?,
            };
            match value {
                None => return Ok(Some(None)),
                Some(Value::Id(id)) => return Ok(Some(Some(id))),
                Some(Value::Symbolic(target)) => name = target,
            }
        }
        Ok(None)
    }

    /// Whether the ref says what is expected, and may say what it shall.
    fn check(&mut self, at: usize) -> Result<Option<Cause>, PrepareError> {
        let step = &self.steps[at];
        let cause = match (&step.expected, &step.old) {
            (Expected::Any, _) | (Expected::Absent, None) => None,
            // As in git, one that leads nowhere is as good as none.
            (Expected::Absent, Some(Value::Symbolic(_))) if step.old_id.is_none() => None,
            (Expected::Absent, Some(_)) => Some(Cause::Exists),
            (Expected::Id(_), None) => Some(Cause::Missing(step.name.clone())),
            (Expected::Id(expected), Some(_)) => match step.old_id {
                Some(is) if is == *expected => None,
                Some(is) => Some(Cause::OtherId { is, expected: *expected }),
                None => Some(Cause::Dangling(*expected)),
            },
            (Expected::Symbolic(_), None) => Some(Cause::Missing(step.name.clone())),
            (Expected::Symbolic(expected), Some(Value::Symbolic(is))) if is == expected => None,
            (Expected::Symbolic(expected), Some(Value::Symbolic(is))) => {
                Some(Cause::OtherTarget { is: is.clone(), expected: expected.clone() })
            }
            (Expected::Symbolic(expected), Some(Value::Id(_))) => Some(Cause::NotSymbolic(expected.clone())),
        };
        match cause {
            None if self.store.backend == Backend::Files => self.check_object(at),
            cause => Ok(cause),
        }
    }

    /// Whether the ref may point at the new object.
    fn check_object(&mut self, at: usize) -> Result<Option<Cause>, PrepareError> {
        let Change::Set(id) = self.steps[at].change else { return Ok(None) };
        objects::check(self.objects, &self.steps[at].name, id)
    }

    /// Symbolic refs that were followed, and `HEAD`, led where the last one pointed.
    fn inherit_old_ids(&mut self) {
        for at in (0..self.steps.len()).rev() {
            if let Some(to) = self.steps[at].to {
                self.steps[at].old_id = self.steps[to].old_id;
            }
        }
    }

    /// Finds where the new targets of symbolic refs lead. As with git, files are changed one by one, so that changes of
    /// earlier steps count; those of reftables are seen all at once.
    fn resolve_new_targets(&mut self, is_refused: &HashSet<usize>) -> Result<(), PrepareError> {
        let mut changed: HashMap<Vec<u8>, Value> = HashMap::new();
        for at in 0..self.steps.len() {
            let step = &self.steps[at];
            if is_refused.contains(&step.edit) {
                continue;
            }
            let value = match &step.change {
                Change::Set(id) => Value::Id(*id),
                Change::SetSymbolic(target) => Value::Symbolic(target.clone()),
                Change::Verify | Change::Delete => continue,
            };
            if let Value::Symbolic(target) = &value {
                self.steps[at].new_id = self.resolve(target.clone(), &changed)?.flatten();
            }
            if self.store.backend == Backend::Files && !self.steps[at].is_log_only {
                changed.insert(self.steps[at].name.clone(), value);
            }
        }
        Ok(())
    }

    fn refusal(&self, problem: Problem) -> Refusal {
        let step = &self.steps.get(problem.step);
        let edit = step.map_or(problem.step, |step| step.edit);
        let name = self.edits[edit].name.clone();
        Refusal { edit, name, cause: problem.cause, backend: self.store.backend }
    }
}
