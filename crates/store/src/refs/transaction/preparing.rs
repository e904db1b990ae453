//! Prepares a transaction: turns edits into steps, takes locks, and checks old values, objects and names.

use std::collections::{HashMap, HashSet};

use packrace_object::ObjectId;

use super::hook::HookCall;
use super::refusal::FailedStep;
use super::{
    Cause, Expected, LockedRef, Locks, PrepareError, Prepared, RefChange, RefEdit, RefObjects, RefStep,
    RefWrites, Refusal, TransactionMode, Value, available, objects, old_value,
};
use crate::refs::{Backend, MAX_SYMREF_DEPTH, RefStore};

/// A transaction that is being prepared.
pub(super) struct Preparing<'a, 's> {
    store: &'s RefStore,
    edits: Vec<RefEdit>,
    /// Every name of a step, and its first step.
    names: HashMap<Vec<u8>, usize>,
    mode: TransactionMode,
    steps: Vec<RefStep>,
    problems: Vec<FailedStep>,
    locks: Locks,
    /// The target of `HEAD`.
    head_target: Option<Vec<u8>>,
    objects: &'a mut dyn RefObjects,
}

impl<'a, 's> Preparing<'a, 's> {
    pub(super) fn new(
        store: &'s RefStore,
        edits: Vec<RefEdit>,
        mode: TransactionMode,
        locks: Locks,
        objects: &'a mut dyn RefObjects,
    ) -> Self {
        Preparing {
            store,
            mode,
            names: HashMap::with_capacity(edits.len()),
            steps: Vec::with_capacity(edits.len()),
            problems: Vec::new(),
            edits,
            locks,
            head_target: None,
            objects,
        }
    }

    pub(super) fn run(mut self, writes: &'s RefWrites) -> Result<Prepared<'s>, PrepareError> {
        let mode = self.mode;
        self.begin_steps()?;
        if let Some(Value::Symbolic(target)) = self.locks.read(b"HEAD")? {
            self.head_target = Some(self.store.dirs.plain(&target).to_vec());
        }
        let mut at = 0;
        while at < self.steps.len() {
            self.take(at)?;
            at += 1;
        }
        self.inherit_old_ids();
        let mut out = HashSet::new();
        if mode == TransactionMode::Batch {
            out.extend(self.problems.iter().map(|problem| self.steps[problem.step].edit));
        }
        let unavailable = available::conflicts(&self.steps, &mut self.locks, mode, &out)?;
        self.problems.extend(unavailable);
        // In git's order: targets of symbolic refs come after all requested refs.
        self.problems.sort_by_key(|problem| (problem.cause.is_late(), problem.step, problem.cause.rank()));
        let mut refused: Vec<Refusal> = Vec::new();
        let mut is_refused = HashSet::new();
        for problem in std::mem::take(&mut self.problems) {
            let refusal = self.refusal(problem);
            if mode == TransactionMode::Atomic || !refusal.cause.is_for_one() {
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
            // A table is written only once everything is known.
            Locks::Stack(_) => {}
        }
        Ok(Prepared { store, edits, steps, refused, mode, writes, locks, hook: HookCall::of(None) })
    }

    /// Makes a step of each edit; no ref may be changed twice.
    fn begin_steps(&mut self) -> Result<(), PrepareError> {
        let mut twice = Vec::new();
        for (edit, asked) in self.edits.iter().enumerate() {
            let step = RefStep {
                edit,
                name: self.store.dirs.plain(&asked.name).to_vec(),
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
            let other = self.names.insert(step.name.clone(), edit).map(|other| &self.edits[other].name);
            // Files refuse two names of one ref by its lock.
            if other.is_some_and(|other| self.store.backend == Backend::Reftable || *other == asked.name) {
                twice.push(edit);
            }
            self.steps.push(step);
        }
        if let Some(edit) = twice.into_iter().min_by_key(|edit| &self.edits[*edit].name) {
            let cause = Cause::Duplicate { name: self.edits[edit].name.clone(), via: None };
            return Err(self.refusal(FailedStep { step: edit, cause }).into());
        }
        Ok(())
    }

    /// Refuses a step. In a batch its ref is free for the edits that come after it, as in git.
    fn refuse(&mut self, step: usize, cause: Cause) {
        if self.mode == TransactionMode::Batch {
            self.locks.release(step);
            if self.names.get(&self.steps[step].name) == Some(&step) {
                self.names.remove(&self.steps[step].name);
            }
        }
        self.problems.push(FailedStep { step, cause });
    }

    /// Adds the reflog line of `HEAD` for a change of the ref that it points to; false if `HEAD` changes, too.
    fn log_head(&mut self, to: usize) -> bool {
        if self.names.contains_key(b"HEAD".as_slice()) {
            self.refuse(to, Cause::DuplicateHead(self.steps[to].name.clone()));
            return false;
        }
        if matches!(self.steps[to].change, RefChange::Verify) {
            return true;
        }
        self.steps.push(RefStep {
            edit: self.steps[to].edit,
            name: b"HEAD".to_vec(),
            change: self.steps[to].change.clone(),
            expected: Expected::Any,
            is_log_only: true,
            is_of_head: true,
            to: Some(to),
            known_from: 0,
            old: Some(Value::Symbolic(self.steps[to].name.clone())),
            old_id: None,
            new_id: None,
        });
        true
    }

    /// Locks, reads and checks the ref of a step; a symbolic one adds another step.
    fn take(&mut self, at: usize) -> Result<(), PrepareError> {
        if self.steps[at].is_log_only {
            return self.take_head(at);
        }
        // As in git since 2.55, the object comes first.
        if let Some(cause) = self.check_object(at)? {
            self.refuse(at, cause);
            return Ok(());
        }
        if self.is_behind_head(at) && !self.log_head(at) {
            return Ok(());
        }
        let old = match self.locks.take(at, &self.steps[at])? {
            LockedRef::Held(old) => old,
            // Reported together with name conflicts.
            LockedRef::Refused(Cause::Conflict { .. }) => return Ok(()),
            LockedRef::Refused(cause) => {
                self.refuse(at, cause);
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
                None if self.steps[at].expected != Expected::Any => {
                    self.refuse(at, Cause::Endless);
                    return Ok(());
                }
                None => {}
            },
            // As in git, a file of zeros is a ref without a value.
            Some(Value::Id(id)) => step.old_id = Some(id).filter(|id| !id.is_null()),
            None => {}
        }
        if let Some(cause) = old_value::check(&self.steps[at]) {
            self.refuse(at, cause);
        }
        Ok(())
    }

    /// With files, locks `HEAD` for the line in its reflog: who rewrites that log holds this lock, and would lose the line.
    fn take_head(&mut self, at: usize) -> Result<(), PrepareError> {
        let step = &self.steps[at];
        let Some(to) = step.to.filter(|_| step.is_of_head && self.store.backend == Backend::Files) else {
            return Ok(());
        };
        match self.locks.take(at, step)? {
            LockedRef::Refused(cause) => self.refuse(to, cause),
            LockedRef::Held(Some(Value::Symbolic(target)))
                if self.store.dirs.plain(&target) == self.steps[to].name => {}
            // It points elsewhere by now, so there is nothing to log.
            LockedRef::Held(_) => self.steps[at].change = RefChange::Verify,
        }
        Ok(())
    }

    /// Whether `HEAD` points to the ref of a step that was not reached through it.
    fn is_behind_head(&self, at: usize) -> bool {
        let is_via_head = || self.steps.iter().any(|step| step.to == Some(at) && step.name == b"HEAD");
        self.head_target.as_ref() == Some(&self.steps[at].name) && !is_via_head()
    }

    /// Continues from a symbolic ref to its target.
    fn follow(&mut self, at: usize, target: Vec<u8>) -> Result<(), PrepareError> {
        if target.is_empty() {
            let cause = self.no_target(at);
            self.refuse(at, cause);
            return Ok(());
        }
        let target = self.store.dirs.plain(&target).to_vec();
        let next = self.steps.len();
        let step = &mut self.steps[at];
        step.is_log_only = true;
        let (edit, change, expected) = (step.edit, step.change.clone(), step.expected.clone());
        if self.names.contains_key(&target) {
            let via = self.steps[at].name.clone();
            self.refuse(at, Cause::Duplicate { name: target, via: Some(via) });
            return Ok(());
        }
        // With files, only the end of the chain counts, which is not a symbolic ref.
        if self.store.backend == Backend::Reftable
            && let Expected::Symbolic(wanted) = &expected
            && *wanted != target
        {
            let cause = Cause::OtherTarget { is: target, expected: wanted.clone() };
            self.refuse(at, cause);
            return Ok(());
        }
        self.names.insert(target.clone(), next);
        self.steps[at].to = Some(next);
        self.steps.push(RefStep {
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

    /// Why a symbolic ref to nothing cannot be followed. Git takes the repository for the file of its target.
    fn no_target(&self, at: usize) -> Cause {
        if self.steps[at].expected.is_value() {
            return Cause::Missing(Vec::new());
        }
        let dirs = &self.store.dirs;
        let dir = dirs.shown(&dirs.common_dir);
        Cause::Blocked(format!("there is a non-empty directory '{}' blocking reference ''", dir.display()))
    }

    /// The object that `name` resolves to given the `changed` refs, if any; `None` if the chain is endless.
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
                Some(Value::Symbolic(target)) => name = self.store.dirs.plain(&target).to_vec(),
            }
        }
        Ok(None)
    }

    /// Whether the ref may point at the new object.
    fn check_object(&mut self, at: usize) -> Result<Option<Cause>, PrepareError> {
        let RefChange::Set(id) = self.steps[at].change else { return Ok(None) };
        objects::check(self.objects, &self.steps[at].name, id)
    }

    /// Sets the old object of followed symbolic refs and of `HEAD`: that of the last ref.
    fn inherit_old_ids(&mut self) {
        for at in (0..self.steps.len()).rev() {
            if let Some(to) = self.steps[at].to {
                self.steps[at].old_id = self.steps[to].old_id;
            }
        }
    }

    /// Resolves the new targets of symbolic refs. As in git, files change one by one, so earlier steps count;
    /// reftables change all at once.
    fn resolve_new_targets(&mut self, is_refused: &HashSet<usize>) -> Result<(), PrepareError> {
        let mut changed: HashMap<Vec<u8>, Value> = HashMap::new();
        for at in 0..self.steps.len() {
            let step = &self.steps[at];
            if is_refused.contains(&step.edit) {
                continue;
            }
            let value = match &step.change {
                RefChange::Set(id) => Value::Id(*id),
                RefChange::SetSymbolic(target) => Value::Symbolic(target.clone()),
                RefChange::Verify | RefChange::Delete => continue,
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

    fn refusal(&self, problem: FailedStep) -> Refusal {
        let step = self.steps.get(problem.step);
        let edit = step.map_or(problem.step, |step| step.edit);
        let name = self.edits[edit].name.clone();
        // The name that was asked for may tell this work tree.
        let target =
            step.filter(|_| problem.step != edit).map_or_else(|| name.clone(), |step| step.name.clone());
        Refusal { edit, name, target, cause: problem.cause, backend: self.store.backend }
    }
}
