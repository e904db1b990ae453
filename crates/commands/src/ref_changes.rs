//! Shared by commands that change refs: configuration, identity, hooks and objects.

use std::collections::HashMap;
use std::sync::Arc;

use packrace_object::{Kind, ObjectId, oid};
use packrace_store::publish::ObjectsStored;
use packrace_store::refs::{
    Expected, Peeled, PrepareError, RefChange, RefEdit, RefObjects, RefWrites, Refusal, StoredObjects,
    TransactionMode, is_ref_name, is_safe_name,
};
use packrace_store::{Repository, Snapshot};

use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::hooks;
use crate::revisions::Revisions;

/// Changes refs of a repository.
pub struct RefChanges<'a> {
    pub call: &'a Call,
    pub repository: &'a Repository,
    pub writes: RefWrites,
    pub objects: ChangedObjects<'a>,
}

impl From<PrepareError> for Fatal {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Objects(error) => error.into(),
            error => Fatal::new(error),
        }
    }
}

impl<'a> RefChanges<'a> {
    pub fn new(repository: &'a Repository, call: &'a Call) -> Result<Self, Fatal> {
        let config = repository.config();
        let who = call.environment.committer.committer(config)?;
        let mut writes = RefWrites::of(config, repository.hash_kind(), repository.is_bare()?, who)?;
        writes.hooks = Some(Arc::new(hooks::of(call, repository)?));
        writes.is_quarantined = call.environment.is_quarantined;
        writes.tables.compacts &= !call.environment.keeps_tables;
        Ok(RefChanges {
            call,
            repository,
            writes,
            objects: ChangedObjects { repository, snapshot: None, stored: None, kinds: HashMap::new() },
        })
    }

    /// The object that a revision names.
    pub fn resolve(&mut self, revision: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        let hash = self.repository.hash_kind();
        if let Some(id) = ObjectId::from_hex(revision).ok().filter(|id| id.kind() == hash) {
            return Ok(Some(id));
        }
        let snapshot = self.objects.snapshot()?;
        Revisions::new(self.call, self.repository, &snapshot).resolve(revision)
    }

    /// Makes one change. `failed` words its errors, except the hook's refusal.
    pub fn run_one(&mut self, edit: RefEdit, failed: impl Fn(String) -> Fatal) -> Result<(), Fatal> {
        match self.run(vec![edit], TransactionMode::Atomic) {
            Ok(_) => Ok(()),
            Err(error) if ends_all(&error) => Err(error.into()),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Prepares and commits; returns the refused edits of a batch.
    pub fn run(&mut self, edits: Vec<RefEdit>, mode: TransactionMode) -> Result<Vec<Refusal>, PrepareError> {
        self.run_after(&ObjectsStored::earlier(), edits, mode)
    }

    /// The same, for values that have just been stored.
    pub fn run_after(
        &mut self,
        stored: &ObjectsStored,
        edits: Vec<RefEdit>,
        mode: TransactionMode,
    ) -> Result<Vec<Refusal>, PrepareError> {
        let refs = self.repository.refs();
        let prepared = refs.prepare(edits, mode, &self.writes, &mut self.objects)?;
        prepared.commit(stored, &mut self.objects)
    }
}

/// Whether git says only what this error says, whatever it was about to do.
pub fn ends_all(error: &PrepareError) -> bool {
    match error {
        PrepareError::Store(error) => error.ends_all(),
        PrepareError::Objects(error) => error.in_git_words().is_some(),
        error => matches!(error, PrepareError::Vetoed(_)),
    }
}

/// An edit with default settings.
pub fn edit(name: &[u8], change: RefChange, expected: Expected, message: &Arc<[u8]>) -> RefEdit {
    let message = message.clone();
    RefEdit { name: name.to_vec(), change, expected, deref: true, message, force_log: false }
}

/// Whether git accepts this name for a change; the error is git's message.
pub fn check_name(name: &[u8], change: &RefChange) -> Result<(), String> {
    let shown = String::from_utf8_lossy(name);
    let is_good = match change {
        // Refs with bad names can still be deleted.
        RefChange::Delete | RefChange::Verify => is_safe_name(name),
        // As in git, refs of other work trees only get values.
        RefChange::SetSymbolic(_) => is_ref_name(name) && is_safe_name(name),
        RefChange::Set(_) => is_ref_name(name),
    };
    if !is_good {
        return Err(format!("refusing to update ref with bad name '{shown}'"));
    }
    if matches!(name, b"FETCH_HEAD" | b"MERGE_HEAD") {
        return Err(format!("refusing to update pseudoref '{shown}'"));
    }
    Ok(())
}

/// The objects of a repository, opened on first use.
pub struct ChangedObjects<'a> {
    repository: &'a Repository,
    snapshot: Option<Arc<Snapshot>>,
    stored: Option<StoredObjects>,
    /// Those that were asked for: a session asks when it reads a command, and again when it prepares.
    kinds: HashMap<ObjectId, Kind>,
}

impl ChangedObjects<'_> {
    fn snapshot(&mut self) -> Result<Arc<Snapshot>, packrace_store::Error> {
        if let Some(snapshot) = &self.snapshot {
            return Ok(snapshot.clone());
        }
        Ok(self.snapshot.insert(self.repository.snapshot()?).clone())
    }

    fn stored(&mut self) -> Result<&mut StoredObjects, packrace_store::Error> {
        if self.stored.is_none() {
            self.stored = Some(StoredObjects::new(&self.snapshot()?));
        }
        Ok(self.stored.as_mut().expect("just made"))
    }
}

impl RefObjects for ChangedObjects<'_> {
    fn kind(&mut self, id: &oid) -> Result<Option<Kind>, packrace_store::Error> {
        let id = id.to_owned();
        if let Some(kind) = self.kinds.get(&id) {
            return Ok(Some(*kind));
        }
        let found = self.stored()?.kind(&id)?;
        if let Some(kind) = found {
            self.kinds.insert(id, kind);
        }
        Ok(found)
    }

    fn peel(&mut self, id: &oid) -> Result<Peeled, packrace_store::Error> {
        self.stored()?.peel(id)
    }
}
