//! The repository's objects, opened on first use, and the revisions in options.

use std::cell::OnceCell;
use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_store::{Repository, Snapshot};

use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::revisions::Revisions;

/// The objects, opened on first use.
pub struct ListedObjects<'a> {
    pub call: &'a Call,
    pub repository: &'a Repository,
    snapshot: OnceCell<Arc<Snapshot>>,
}

impl<'a> ListedObjects<'a> {
    pub fn new(call: &'a Call, repository: &'a Repository) -> Self {
        ListedObjects { call, repository, snapshot: OnceCell::new() }
    }

    pub fn snapshot(&self) -> Result<&Arc<Snapshot>, Fatal> {
        if self.snapshot.get().is_none() {
            let _ = self.snapshot.set(self.repository.snapshot()?);
        }
        Ok(self.snapshot.get().expect("just set"))
    }

    /// The object that a revision names; `None` if it names none.
    pub fn resolve(&self, revision: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        Revisions::new(self.call, self.repository, self.snapshot()?).resolve(revision)
    }

    /// The commit that an atom names; a failure in git's words if there is none.
    pub fn named_commit(&self, name: &[u8]) -> Result<ObjectId, Fatal> {
        let cannot = || Fatal::new(format!("failed to find '{}'", String::from_utf8_lossy(name)));
        let id = self.resolve(name)?.ok_or_else(cannot)?;
        self.commit(id)?.ok_or_else(cannot)
    }

    /// The commit that an object is or tags. Reports other kinds.
    pub fn commit(&self, id: ObjectId) -> Result<Option<ObjectId>, Fatal> {
        Revisions::new(self.call, self.repository, self.snapshot()?).commit(id)
    }
}
