//! Commits pushes to a bucket.
//!
//! ```text
//! packs → one object ─ queue ─ a leader takes up to 64 ─ their ref transactions, in a copy of the stack of refs
//!       ─ a new head ─ swap ─┬ won: the cache is brought up to it, then all clients are told
//!                            ├ lost: read the winner's head and run the transactions again
//!                            └ unknown: no client is told that its push succeeded or failed
//! ```
//!
//! The cache changes only after the bucket has the new head: until then, transactions run in a copy.

mod group;
mod scratch;

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use packrace_format::head::{ObjectKey, StoredPack};
use packrace_store::StagedPack;
use packrace_store::refs::{PrepareError, RefEdit, RefObjects, RefWrites, Refusal, TransactionMode};

pub(crate) use self::group::{MAX_ATTEMPTS, add_packs, pause};
use crate::cache::{Cache, FilesAtHand, Opening, lock};
use crate::error::{Error, ErrorKind};
use crate::layout::BucketName;
use crate::repository::random_token;
use crate::upload::Upload;

/// Most pushes that one swap commits.
const MAX_GROUP: usize = 64;

/// The changes of one push.
pub struct Proposal {
    /// In order; each sees the results of those before it.
    pub transactions: Vec<RefTransaction>,
    /// Looks up the objects that refs will point at, as if the packs were in place.
    pub objects: Box<dyn RefObjects + Send>,
    /// Packs with their indexes. The files stay in place until the push has an outcome; then they may be
    /// gone.
    pub packs: Vec<StagedPack>,
    /// A generation at which all objects that the new ones refer to are known to exist; an earlier one than
    /// necessary is safe.
    pub checked_at: u64,
}

/// Refs that change together, or each that can.
#[derive(Debug)]
pub struct RefTransaction {
    /// The changes.
    pub edits: Vec<RefEdit>,
    /// What happens to the other changes if one cannot be made.
    pub mode: TransactionMode,
    /// How reflogs and tables are written.
    pub writes: RefWrites,
}

/// The outcome of a transaction: the refused edits of a batch, or why nothing was changed.
pub type TransactionOutcome = Result<Vec<Refusal>, PrepareError>;

/// The outcome of a push.
#[derive(Debug)]
pub enum CommitOutcome {
    /// The outcome of each transaction. Changes that were not refused are in the bucket, and in the cache
    /// unless it could not be brought up to date.
    Decided(Vec<TransactionOutcome>),
    /// Nothing was changed, or will be.
    Failed(Error),
    /// The push may or may not have been committed, or be later. Clients must not be told either.
    Unknown(Error),
}

/// Counters of a committer.
#[derive(Debug, Default)]
pub struct CommitCounts {
    /// Swaps won.
    pub won: AtomicU64,
    /// Swaps lost to other writers.
    pub lost: AtomicU64,
    /// Swaps with an unknown outcome.
    pub unknown: AtomicU64,
    /// Pushes committed by won swaps.
    pub pushes: AtomicU64,
    /// Folds committed by won swaps.
    pub folds: AtomicU64,
}

/// Commits pushes to repositories of a cache to its bucket.
#[derive(Debug)]
pub struct Committer {
    cache: Arc<Cache>,
    queues: Mutex<HashMap<BucketName, Arc<Queue>>>,
    counts: CommitCounts,
}

/// The pushes to one repository.
#[derive(Debug, Default)]
struct Queue {
    /// Held by the leader.
    lead: Mutex<()>,
    waiting: Mutex<VecDeque<Arc<QueuedPush>>>,
    rivalry: group::Rivalry,
}

/// A waiting push.
#[derive(Default)]
struct QueuedPush {
    /// `None` once a leader has taken it.
    work: Mutex<Option<Work>>,
    /// Set by the leader.
    result: Mutex<Option<QueueResult>>,
}

impl QueuedPush {
    fn new(work: Work) -> Arc<Self> {
        Arc::new(QueuedPush { work: Mutex::new(Some(work)), result: Mutex::default() })
    }
}

/// How a leader disposed of a push.
enum QueueResult {
    Ended(CommitOutcome),
    /// A collection overtook the packs: they must be uploaded again.
    Collected(Work),
}

impl std::fmt::Debug for QueuedPush {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QueuedPush")
    }
}

/// A push whose packs are in the bucket, or will be stored in the head.
struct Work {
    proposal: Proposal,
    key: ObjectKey,
    packs: Vec<StoredPack>,
}

impl Committer {
    /// A committer for the repositories of this cache.
    pub fn new(cache: Arc<Cache>) -> Self {
        Committer { cache, queues: Mutex::default(), counts: CommitCounts::default() }
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Its counters.
    pub fn counts(&self) -> &CommitCounts {
        &self.counts
    }

    /// Commits a push, together with others that wait for the same repository.
    pub fn commit(&self, name: &BucketName, proposal: Proposal) -> CommitOutcome {
        let held = self.cache.hold(name);
        let work = match self.upload(&held, name, &proposal.packs) {
            Ok((key, packs)) => Work { proposal, key, packs },
            Err(error) => return CommitOutcome::Failed(error),
        };
        let queue = lock(&self.queues).entry(name.clone()).or_default().clone();
        let outcome = self.queue(&held, name, &queue, work);
        self.leave(name, queue);
        outcome
    }

    /// Runs `work` while this committer swaps in no push to the repository.
    pub(crate) fn alone<T>(&self, name: &BucketName, work: impl FnOnce() -> T) -> T {
        let queue = lock(&self.queues).entry(name.clone()).or_default().clone();
        let leads = lock(&queue.lead);
        let done = work();
        drop(leads);
        self.leave(name, queue);
        done
    }

    /// Removes a queue that is no longer used: one reference is the map's.
    fn leave(&self, name: &BucketName, queue: Arc<Queue>) {
        let mut queues = lock(&self.queues);
        if Arc::strong_count(&queue) == 2 {
            queues.remove(name);
        }
        drop(queue);
    }

    /// Queues a push until it has an outcome.
    fn queue(&self, held: &Opening, name: &BucketName, queue: &Queue, mut work: Work) -> CommitOutcome {
        for _ in 0..MAX_ATTEMPTS {
            let pending = QueuedPush::new(work);
            lock(&queue.waiting).push_back(pending.clone());
            work = match self.wait(held, name, queue, &pending) {
                QueueResult::Ended(outcome) => return outcome,
                QueueResult::Collected(work) => work,
            };
            // No other push waits for this upload.
            match self.upload(held, name, &work.proposal.packs) {
                Ok((key, packs)) => (work.key, work.packs) = (key, packs),
                Err(error) => return CommitOutcome::Failed(error),
            }
        }
        let words = format!("collections of '{}' overtake the push; try again later", name.as_str());
        CommitOutcome::Failed(Error::new(ErrorKind::Unavailable, words))
    }

    /// Waits for its turn to lead, unless another leader disposes of the push first.
    fn wait(&self, held: &Opening, name: &BucketName, queue: &Queue, pending: &QueuedPush) -> QueueResult {
        loop {
            let _leads = lock(&queue.lead);
            if let Some(result) = lock(&pending.result).take() {
                return result;
            }
            if lock(&queue.waiting).is_empty() {
                // A leader took it and panicked.
                let words = "outcome of the push is unknown";
                let error = Error::new(ErrorKind::Unavailable, words);
                return QueueResult::Ended(CommitOutcome::Unknown(error));
            }
            group::commit(self, held, name, queue);
        }
    }

    /// Uploads the packs of a push; small ones will be stored in the head.
    fn upload(
        &self,
        held: &Opening,
        name: &BucketName,
        packs: &[StagedPack],
    ) -> Result<(ObjectKey, Vec<StoredPack>), Error> {
        let generation = self.cache.with_head(held, name, false, |read, _| Ok(read.head.generation))?;
        let key = ObjectKey { generation: generation + 1, token: random_token()? };
        let mut upload = Upload::new(key);
        let packs = packs.iter().map(|pack| upload.take_pack(pack.checksum, &pack.stem));
        let packs = packs.collect::<Result<_, _>>()?;
        upload.send(self.cache.bucket(), name)?;
        Ok((key, packs))
    }
}

impl Work {
    /// Adds the files that the cache need not fetch.
    fn add_at_hand(&self, at_hand: &mut FilesAtHand) {
        for (stored, staged) in self.packs.iter().zip(&self.proposal.packs) {
            for (kind, file) in &stored.files {
                let path: PathBuf = staged.stem.with_extension(kind.extension());
                at_hand.insert(file.sha256, path);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
