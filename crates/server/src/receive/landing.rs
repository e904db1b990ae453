//! Stores a checked push: in the folder of its repository, or in the bucket that the repository is a copy of.
//!
//! ```text
//! folder   objects are migrated ─ each transaction of refs takes effect when it ends
//! bucket   objects wait ─ all transactions of refs, one swap: then objects and refs are visible everywhere
//! ```

use std::ffi::OsString;
use std::sync::Arc;

use packrace_remote::BucketName;
use packrace_remote::commit::{CommitOutcome, Committer, Proposal, RefTransaction};
use packrace_store::publish::ObjectsStored;
use packrace_store::refs::{
    Cause, PrepareError, RefEdit, RefWrites, Refusal, StoredObjects, TransactionMode,
};
use packrace_store::{Error as StoreError, Migrated, Quarantine, Repository, Snapshot};

use crate::error::Error;

/// The message when neither yes nor no is true; only the log has the cause.
const UNKNOWN: &str = "outcome of the push is unknown; fetch to see whether it was done";

/// A push to a repository in a bucket.
#[derive(Debug, Clone)]
pub struct BucketPush {
    committer: Arc<Committer>,
    name: BucketName,
    /// The repository had at least this generation before anything in it was read.
    checked_at: u64,
}

impl BucketPush {
    /// `None` if the repository is not one of the bucket.
    pub(crate) fn to(
        committer: &Arc<Committer>,
        repository: &Repository,
    ) -> Result<Option<Self>, packrace_remote::Error> {
        let Some(name) = committer.cache().name_of(repository.git_dir()) else { return Ok(None) };
        let checked_at = committer.cache().generation(&name)?;
        Ok(Some(BucketPush { committer: committer.clone(), name, checked_at }))
    }
}

/// Objects of a checked push, which refs may name now.
pub(super) struct Landing<'a> {
    repository: &'a Repository,
    destination: Destination<'a>,
}

enum Destination<'a> {
    /// The objects were migrated; `None`: they were there earlier.
    Folder(Option<Migrated>),
    /// The objects wait in their quarantine.
    Bucket(&'a BucketPush, Option<Box<Quarantine>>),
}

/// The result of a transaction: the refused edits of a batch, the one edit for which an atomic one was refused, or why nothing was
/// changed.
pub(super) type Landed = Result<Vec<Refusal>, String>;

impl<'a> Landing<'a> {
    /// Migrates objects, unless they are committed together with refs.
    pub(super) fn begin(
        repository: &'a Repository,
        bucket: Option<&'a BucketPush>,
        quarantine: Option<Quarantine>,
    ) -> Result<Self, StoreError> {
        let destination = match bucket {
            Some(push) => Destination::Bucket(push, quarantine.map(Box::new)),
            None => Destination::Folder(quarantine.map(Quarantine::migrate).transpose()?),
        };
        Ok(Landing { repository, destination })
    }

    /// The objects that refs may name.
    pub(super) fn snapshot(&self) -> Result<Arc<Snapshot>, StoreError> {
        match &self.destination {
            Destination::Bucket(_, Some(quarantine)) => quarantine.snapshot(),
            _ => self.repository.unlisted_snapshot(),
        }
    }

    /// The variables that let hooks find the objects.
    pub(super) fn variables(&self) -> Vec<(OsString, OsString)> {
        match &self.destination {
            Destination::Bucket(_, Some(quarantine)) => quarantine.environment(),
            _ => Vec::new(),
        }
    }

    /// Whether all transactions must be passed in one call.
    pub(super) fn takes_all_at_once(&self) -> bool {
        matches!(self.destination, Destination::Bucket(..))
    }

    /// Changes refs, one transaction after another. After an error it is not known whether they have changed.
    pub(super) fn change(
        &self,
        transactions: Vec<(Vec<RefEdit>, TransactionMode)>,
        mut writes: RefWrites,
    ) -> Result<Vec<Landed>, Error> {
        let (push, quarantine) = match &self.destination {
            Destination::Folder(migrated) => {
                let earlier = ObjectsStored::earlier();
                let proof = migrated.as_ref().map_or(&earlier, |migrated| &migrated.objects);
                return self.change_in_folder(transactions, &writes, proof);
            }
            Destination::Bucket(push, quarantine) => (push, quarantine),
        };
        if let Some(hooks) = &writes.hooks {
            writes.hooks = Some(Arc::new(hooks.with_environment(self.variables())));
        }
        let count = transactions.len();
        let transactions = transactions
            .into_iter()
            .map(|(edits, mode)| RefTransaction { edits, mode, writes: writes.clone() })
            .collect();
        let none_done = |words: String| Ok(vec![Err(words); count]);
        let packs = match quarantine.as_ref().map(|quarantine| quarantine.packs()).transpose() {
            Ok(packs) => packs.unwrap_or_default(),
            Err(error) => return none_done(error.to_string()),
        };
        let proposal = Proposal {
            transactions,
            objects: Box::new(StoredObjects::new(&self.snapshot()?)),
            packs,
            checked_at: push.checked_at,
        };
        match push.committer.commit(&push.name, proposal) {
            CommitOutcome::Decided(outcomes) => Ok(outcomes.into_iter().map(in_words).collect()),
            CommitOutcome::Failed(error) => {
                tracing::error!("push to '{}' refused: {error}", push.name.as_str());
                none_done(error.to_string())
            }
            CommitOutcome::Unknown(error) => {
                tracing::error!("push to '{}': outcome unknown: {error}", push.name.as_str());
                Err(Error::unavailable(UNKNOWN).because(error))
            }
        }
    }

    fn change_in_folder(
        &self,
        transactions: Vec<(Vec<RefEdit>, TransactionMode)>,
        writes: &RefWrites,
        proof: &ObjectsStored,
    ) -> Result<Vec<Landed>, Error> {
        let mut objects = StoredObjects::new(&self.snapshot()?);
        let change = |(edits, mode)| {
            let prepared = self.repository.refs().prepare(edits, mode, writes, &mut objects)?;
            prepared.commit(proof, &mut objects).map(|mut refused: Vec<Refusal>| {
                refused.sort_by_key(|refusal| refusal.edit);
                refused
            })
        };
        Ok(transactions.into_iter().map(change).map(in_words).collect())
    }

    /// Ends the landing: refs name the objects now, or the objects are not needed.
    pub(super) fn end(self) -> Result<(), StoreError> {
        match self.destination {
            Destination::Folder(Some(migrated)) => migrated.release(),
            Destination::Folder(None) | Destination::Bucket(..) => Ok(()),
        }
    }
}

/// A new value that no ref of this name may have is the fault of one edit, also in an atomic transaction.
fn in_words(outcome: Result<Vec<Refusal>, PrepareError>) -> Landed {
    outcome.or_else(|error| match error {
        PrepareError::Refused(refusal)
            if matches!(refusal.cause, Cause::NoObject { .. } | Cause::NotACommit { .. }) =>
        {
            Ok(vec![*refusal])
        }
        error => Err(error.to_string()),
    })
}
