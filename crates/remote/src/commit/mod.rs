//! Pushes into a bucket.
//!
//! ```text
//! packs → one object ─ queue ─ a leader takes up to 64 ─ their ref transactions, in a copy of the stack of refs
//!       ─ a new head ─ swap ─┬ won: the cache becomes what it says, then everybody is told
//!                            ├ lost: what others have written is read, and the transactions are run again
//!                            └ unknown: nobody is told that it was done, nor that it was not
//! ```
//!
//! Nothing in the cache changes before the bucket has the head that says so: the transactions of the queue are run in a copy.

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

/// Pushes that one swap makes at most.
const MAX_GROUP: usize = 64;

/// What one push is to change.
pub struct Proposal {
    /// One after another; what one leaves, the next one finds.
    pub transactions: Vec<RefTransaction>,
    /// What the refs shall point at, as it is once the packs are there.
    pub objects: Box<dyn RefObjects + Send>,
    /// Packs with their indexes, which stay where they are until this is decided. Then they may be gone.
    pub packs: Vec<StagedPack>,
    /// The generation of which is known that all objects that the new ones lead to are there, or an earlier one.
    pub checked_at: u64,
}

/// Refs that change together, or each that can.
#[derive(Debug)]
pub struct RefTransaction {
    /// The changes.
    pub edits: Vec<RefEdit>,
    /// What happens to the others if one cannot be made.
    pub mode: TransactionMode,
    /// How reflogs and tables are written.
    pub writes: RefWrites,
}

/// What became of a transaction: the refused edits of a batch, or why nothing was changed.
pub type TransactionOutcome = Result<Vec<Refusal>, PrepareError>;

/// What became of a push.
#[derive(Debug)]
pub enum CommitOutcome {
    /// What became of each transaction. What was not refused is in the bucket, and in the cache as far as that has room.
    Decided(Vec<TransactionOutcome>),
    /// Nothing of it was done, nor will be.
    Failed(Error),
    /// Nobody knows whether it was done, or will be. Whoever waits for it must not be told either.
    Unknown(Error),
}

/// What has become of pushes. Counts.
#[derive(Debug, Default)]
pub struct CommitCounts {
    /// Heads that took the place of another.
    pub won: AtomicU64,
    /// Those that did not, because somebody else's did.
    pub lost: AtomicU64,
    /// Those of which nobody knows.
    pub unknown: AtomicU64,
    /// Pushes that the first kind has made.
    pub pushes: AtomicU64,
    /// Folds of packs that it has made.
    pub folds: AtomicU64,
}

/// Puts pushes to repositories of a cache into its bucket.
#[derive(Debug)]
pub struct Committer {
    cache: Arc<Cache>,
    queues: Mutex<HashMap<BucketName, Arc<Queue>>>,
    counts: CommitCounts,
}

/// Pushes to one repository.
#[derive(Debug, Default)]
struct Queue {
    /// Held by the leader.
    lead: Mutex<()>,
    waiting: Mutex<VecDeque<Arc<QueuedPush>>>,
    rivalry: group::Rivalry,
}

/// A push that waits.
#[derive(Default)]
struct QueuedPush {
    /// Until a leader takes it.
    work: Mutex<Option<Work>>,
    /// What the leader made of it.
    result: Mutex<Option<QueueResult>>,
}

impl QueuedPush {
    fn new(work: Work) -> Arc<Self> {
        Arc::new(QueuedPush { work: Mutex::new(Some(work)), result: Mutex::default() })
    }
}

/// What a leader made of a push.
enum QueueResult {
    Ended(CommitOutcome),
    /// A collection has overtaken its packs: they must be uploaded again.
    Collected(Work),
}

impl std::fmt::Debug for QueuedPush {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QueuedPush")
    }
}

/// A push whose packs are in the bucket, or go into the head.
struct Work {
    proposal: Proposal,
    key: ObjectKey,
    packs: Vec<StoredPack>,
}

impl Committer {
    /// For the repositories of this cache.
    pub fn new(cache: Arc<Cache>) -> Self {
        Committer { cache, queues: Mutex::default(), counts: CommitCounts::default() }
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// What it has done.
    pub fn counts(&self) -> &CommitCounts {
        &self.counts
    }

    /// Does a push, together with others that wait for the same repository.
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

    /// Does something while no push of this cache to the repository is swapped in.
    pub(crate) fn alone<T>(&self, name: &BucketName, work: impl FnOnce() -> T) -> T {
        let queue = lock(&self.queues).entry(name.clone()).or_default().clone();
        let leads = lock(&queue.lead);
        let done = work();
        drop(leads);
        self.leave(name, queue);
        done
    }

    /// Forgets a queue that nobody else has: one count is the map's.
    fn leave(&self, name: &BucketName, queue: Arc<Queue>) {
        let mut queues = lock(&self.queues);
        if Arc::strong_count(&queue) == 2 {
            queues.remove(name);
        }
        drop(queue);
    }

    /// Queues a push until a leader has ended it.
    fn queue(&self, held: &Opening, name: &BucketName, queue: &Queue, mut work: Work) -> CommitOutcome {
        for _ in 0..MAX_ATTEMPTS {
            let pending = QueuedPush::new(work);
            lock(&queue.waiting).push_back(pending.clone());
            work = match self.wait(held, name, queue, &pending) {
                QueueResult::Ended(outcome) => return outcome,
                QueueResult::Collected(work) => work,
            };
            // Nobody else waits for this upload.
            match self.upload(held, name, &work.proposal.packs) {
                Ok((key, packs)) => (work.key, work.packs) = (key, packs),
                Err(error) => return CommitOutcome::Failed(error),
            }
        }
        let words = format!("collections of '{}' overtake the push; try again later", name.as_str());
        CommitOutcome::Failed(Error::new(ErrorKind::Unavailable, words))
    }

    /// Waits for the turn to lead, unless another leader has done it by then.
    fn wait(&self, held: &Opening, name: &BucketName, queue: &Queue, pending: &QueuedPush) -> QueueResult {
        loop {
            let _leads = lock(&queue.lead);
            if let Some(result) = lock(&pending.result).take() {
                return result;
            }
            if lock(&queue.waiting).is_empty() {
                // It has been taken by a leader that has panicked.
                let words = "outcome of the push is unknown";
                let error = Error::new(ErrorKind::Unavailable, words);
                return QueueResult::Ended(CommitOutcome::Unknown(error));
            }
            group::commit(self, held, name, queue);
        }
    }

    /// Puts the packs of a push where they will be; small ones will be in the head.
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
    /// Adds the files that the cache needs not fetch.
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
