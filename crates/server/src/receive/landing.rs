//! Where a push goes that was found right: into the folder of its repository, or into the bucket that this is a copy of.
//!
//! ```text
//! folder   objects come in ─ each transaction of refs counts when it ends
//! bucket   objects wait ─ all transactions of refs, one swap: then objects and refs are there for everybody
//! ```

use std::ffi::OsString;
use std::sync::Arc;

use packrace_remote::BucketName;
use packrace_remote::commit::{CommitOutcome, Committer, Proposal, RefTransaction};
use packrace_store::publish::ObjectsStored;
use packrace_store::refs::{PrepareError, RefEdit, RefWrites, Refusal, StoredObjects, TransactionMode};
use packrace_store::{Error as StoreError, Migrated, Quarantine, Repository, Snapshot};

use crate::error::Error;

/// What is told to nobody but the log, as neither yes nor no is true.
const UNKNOWN: &str = "it is not known whether the push was done; fetch, and see";

/// A repository in a bucket that is pushed to.
#[derive(Debug, Clone)]
pub struct BucketPush {
    committer: Arc<Committer>,
    name: BucketName,
    /// The generation that the repository was, at least, before anything of it was looked at.
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

/// Objects of a push that was found right, which refs may name now.
pub(super) struct Landing<'a> {
    repository: &'a Repository,
    place: Place<'a>,
}

enum Place<'a> {
    /// They have come in; `None`: they were there earlier.
    Folder(Option<Migrated>),
    /// They wait.
    Bucket(&'a BucketPush, Option<Box<Quarantine>>),
}

/// What became of a transaction: the refused edits of a batch, or why nothing was done, in words.
pub(super) type Landed = Result<Vec<Refusal>, String>;

impl<'a> Landing<'a> {
    /// Lets objects in, where that is not done together with refs.
    pub(super) fn begin(
        repository: &'a Repository,
        bucket: Option<&'a BucketPush>,
        quarantine: Option<Quarantine>,
    ) -> Result<Self, StoreError> {
        let place = match bucket {
            Some(push) => Place::Bucket(push, quarantine.map(Box::new)),
            None => Place::Folder(quarantine.map(Quarantine::migrate).transpose()?),
        };
        Ok(Landing { repository, place })
    }

    /// The objects that refs may name.
    pub(super) fn snapshot(&self) -> Result<Arc<Snapshot>, StoreError> {
        match &self.place {
            Place::Bucket(_, Some(quarantine)) => quarantine.snapshot(),
            _ => self.repository.unlisted_snapshot(),
        }
    }

    /// What hooks have to be told so that they find the objects.
    pub(super) fn variables(&self) -> Vec<(OsString, OsString)> {
        match &self.place {
            Place::Bucket(_, Some(quarantine)) => quarantine.environment(),
            _ => Vec::new(),
        }
    }

    /// Whether all transactions are to be handed over in one call.
    pub(super) fn takes_all_at_once(&self) -> bool {
        matches!(self.place, Place::Bucket(..))
    }

    /// Changes refs, one transaction after another. An error tells that nobody knows whether they have changed.
    pub(super) fn change(
        &self,
        transactions: Vec<(Vec<RefEdit>, TransactionMode)>,
        mut writes: RefWrites,
    ) -> Result<Vec<Landed>, Error> {
        let (push, quarantine) = match &self.place {
            Place::Folder(migrated) => {
                let earlier = ObjectsStored::earlier();
                let proof = migrated.as_ref().map_or(&earlier, |migrated| &migrated.objects);
                return self.change_in_folder(transactions, &writes, proof);
            }
            Place::Bucket(push, quarantine) => (push, quarantine),
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
                tracing::error!("a push to '{}' is refused: {error}", push.name.as_str());
                none_done(error.to_string())
            }
            CommitOutcome::Unknown(error) => {
                tracing::error!("a push to '{}' may have been done or not: {error}", push.name.as_str());
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

    /// Refs name the objects now, or nobody wants them.
    pub(super) fn end(self) -> Result<(), StoreError> {
        match self.place {
            Place::Folder(Some(migrated)) => migrated.release(),
            Place::Folder(None) | Place::Bucket(..) => Ok(()),
        }
    }
}

fn in_words(outcome: Result<Vec<Refusal>, PrepareError>) -> Landed {
    outcome.map_err(|error| error.to_string())
}
