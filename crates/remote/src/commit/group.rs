//! How a leader commits the pushes in its group.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use packrace_format::head::{Head, PackFileKind, StoredPack};
use packrace_os::durable::random_number;
use packrace_store::publish::ObjectsStored;
use packrace_store::refs::{RefStore, WrittenTransaction};

use super::scratch::RefsCopy;
use super::{CommitOutcome, Committer, MAX_GROUP, Queue, QueueResult, QueuedPush, TransactionOutcome, Work};
use crate::bucket::Bucket;
use crate::cache::{FilesAtHand, Opening, lock};
use crate::error::{Error, ErrorKind};
use crate::layout::BucketName;
use crate::repository::{Basis, Swapped, next_head};
use crate::upload::Upload;

/// Most attempts to swap in a group.
pub(crate) const MAX_ATTEMPTS: u32 = 40;

/// Longest pause before each of the first [`SHORT_PAUSES`] retries; then it doubles each time, up to
/// [`LONGEST_PAUSE`]. However many writers lose, one has won: longer pauses would only delay those that lost
/// often.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const SHORT_PAUSES: u32 = 4;
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

/// Groups after a sign of other nodes, such as a lost swap, that make way for them.
const POLITE_GROUPS: u32 = 8;

/// Without any sign, one group in this many makes way: a node that always loses leaves no sign.
const GROUPS_IN_A_ROW: u64 = 4;

/// A push of the group that has no outcome yet.
struct Open {
    pending: Arc<QueuedPush>,
    work: Work,
}

impl Open {
    fn end(self, outcome: CommitOutcome) {
        *lock(&self.pending.result) = Some(QueueResult::Ended(outcome));
    }

    fn leave_to_upload(self) {
        *lock(&self.pending.result) = Some(QueueResult::Collected(self.work));
    }
}

/// The result of one push's transactions in the copy.
struct Ran {
    outcomes: Vec<TransactionOutcome>,
    written: Vec<WrittenTransaction>,
    /// Whether a ref has changed.
    has_changed: bool,
}

/// A head to be swapped in.
struct StagedHead {
    basis: Basis,
    scratch: RefsCopy,
    /// One per push.
    ran: Vec<Ran>,
    /// `None` if nothing changes.
    head: Option<Head>,
    at_hand: FilesAtHand,
}

/// Recent competition with other nodes for a repository, and the duration of its last swap.
#[derive(Debug, Default)]
pub(super) struct Rivalry {
    polite_groups: AtomicU32,
    swap_micros: AtomicU64,
    /// The generation that this node swapped in last; 0 for none.
    won: AtomicU64,
    groups: AtomicU64,
}

impl Rivalry {
    /// Pauses before a group if there are rivals. The last winner knows the newest head, which others have to read
    /// first: without a pause it would win again and again. A push that is alone pauses only after a sign.
    fn make_way(&self, bucket: &Bucket, is_alone: bool) {
        let polite = self.polite_groups.load(Relaxed);
        let swap = Duration::from_micros(self.swap_micros.load(Relaxed)).min(LONGEST_PAUSE);
        let is_turn = self.groups.fetch_add(1, Relaxed) % GROUPS_IN_A_ROW == GROUPS_IN_A_ROW - 1;
        match () {
            () if polite > 0 => {
                self.polite_groups.store(polite - 1, Relaxed);
                bucket.wait(swap + by_chance(4 * swap));
            }
            () if is_turn && !is_alone => bucket.wait(2 * swap),
            () => {}
        }
    }

    /// Other nodes are at work: a swap was lost.
    fn lost(&self) {
        self.polite_groups.store(POLITE_GROUPS, Relaxed);
    }

    /// The newest known head has this generation: one of another node is a sign, too.
    fn based_on(&self, generation: u64) {
        let won = self.won.load(Relaxed);
        if won != 0 && won != generation {
            self.lost();
        }
    }
}

fn by_chance(longest: Duration) -> Duration {
    longest * (random_number() % 1024) / 1024
}

/// Adds waiting pushes, as many as the group has room for.
fn join(open: &mut Vec<Open>, queue: &Queue) {
    let mut waiting = lock(&queue.waiting);
    let count = waiting.len().min(MAX_GROUP.saturating_sub(open.len()));
    let taken = waiting.drain(..count);
    // Pushes that a panicked leader had taken have no work.
    open.extend(taken.filter_map(|pending| {
        let work = lock(&pending.work).take()?;
        Some(Open { pending, work })
    }));
}

/// Commits the waiting pushes, as many as fit into a group, and gives each an outcome.
pub(super) fn commit(committer: &Committer, held: &Opening, name: &BucketName, queue: &Queue) {
    let mut open = Vec::new();
    let (counts, rivalry) = (&committer.counts, &queue.rivalry);
    rivalry.make_way(committer.cache.bucket(), lock(&queue.waiting).len() == 1);
    for attempt in 0..MAX_ATTEMPTS {
        if attempt > 0 {
            counts.lost.fetch_add(1, Relaxed);
            rivalry.lost();
            pause(committer.cache.bucket(), attempt);
        }
        // Pushes that arrived since the last attempt join the group.
        join(&mut open, queue);
        let staged = match stage(committer, held, name, &mut open, attempt > 0) {
            Ok(staged) => staged,
            Err(error) => return fail(open, &error),
        };
        let StagedHead { basis, scratch, ran, head, at_hand } = staged;
        rivalry.based_on(basis.head.generation);
        let Some(head) = head else { return decide(open, ran) };
        let bucket = committer.cache.bucket();
        let begun = bucket.now();
        let swapped = basis.swap(bucket, name, head);
        let micros = bucket.now().saturating_sub(begun).as_micros();
        rivalry.swap_micros.store(u64::try_from(micros).unwrap_or(u64::MAX), Relaxed);
        match swapped {
            Ok(Swapped::Won(read)) => {
                counts.won.fetch_add(1, Relaxed);
                rivalry.won.store(read.head.generation, Relaxed);
                counts.pushes.fetch_add(ran.iter().filter(|ran| ran.has_changed).count() as u64, Relaxed);
                // The pushes are committed anyway; the next request brings the cache up to date.
                if let Err(error) = committer.cache.install(held, name, *read, &at_hand) {
                    tracing::error!(
                        "push to '{}' stored in the bucket, but not in the cache yet: {error}",
                        name.as_str()
                    );
                }
                drop(scratch);
                return decide(open, ran);
            }
            // Dropped transactions are reported to hooks as aborted.
            Ok(Swapped::Lost) => drop(ran),
            Ok(Swapped::Unknown(error)) => {
                counts.unknown.fetch_add(1, Relaxed);
                return do_not_know(open, ran, &error);
            }
            Err(error) => return fail(open, &error),
        }
    }
    counts.lost.fetch_add(1, Relaxed);
    let words = format!("'{}' is changed too often by other nodes; try again later", name.as_str());
    fail(open, &Error::new(ErrorKind::Unavailable, words));
}

/// Sleeps for a random time, so that writers that lost together do not retry together.
pub(crate) fn pause(bucket: &Bucket, attempt: u32) {
    let longest = LONGEST_PAUSE.min(FIRST_PAUSE * (1 << attempt.saturating_sub(SHORT_PAUSES).min(10)));
    bucket.wait(by_chance(longest));
}

fn fail(open: Vec<Open>, error: &Error) {
    open.into_iter().for_each(|open| open.end(CommitOutcome::Failed(error.clone())));
}

fn decide(open: Vec<Open>, ran: Vec<Ran>) {
    for (open, Ran { outcomes, written, .. }) in open.into_iter().zip(ran) {
        written.into_iter().for_each(WrittenTransaction::committed);
        open.end(CommitOutcome::Decided(outcomes));
    }
}

fn do_not_know(open: Vec<Open>, ran: Vec<Ran>, error: &Error) {
    for (open, ran) in open.into_iter().zip(ran) {
        // A refusal may be due to another push of the group.
        let outcome = match ran.has_changed {
            true => CommitOutcome::Unknown(error.clone()),
            false => CommitOutcome::Failed(error.clone()),
        };
        ran.written.into_iter().for_each(WrittenTransaction::forget);
        open.end(outcome);
    }
}

/// Runs the transactions of all pushes in a copy of the newest refs. Pushes that can never be committed leave
/// the group.
fn stage(
    committer: &Committer,
    held: &Opening,
    name: &BucketName,
    open: &mut Vec<Open>,
    is_asked: bool,
) -> Result<StagedHead, Error> {
    let cache = &committer.cache;
    let (basis, scratch) = cache.with_head(held, name, is_asked, |read, repository| {
        Ok((read.basis(), RefsCopy::of(&cache.scratch_dir(), repository, &read.head)?))
    })?;
    let mut staged = StagedHead { basis, scratch, ran: Vec::new(), head: None, at_hand: FilesAtHand::new() };
    let mut packs = staged.basis.head.packs.clone();
    for mut push in std::mem::take(open) {
        // Its packs are below the floor: no head may come to name them.
        if push.work.key.generation < staged.basis.head.floor {
            push.leave_to_upload();
            continue;
        }
        match take_in(&mut push.work, &mut staged, &mut packs) {
            Ok(ran) => {
                staged.ran.push(ran);
                open.push(push);
            }
            Err(error) => push.end(CommitOutcome::Failed(error)),
        }
    }
    if staged.ran.iter().any(|ran| ran.has_changed) {
        staged.head = Some(compose(committer, name, &mut staged, packs)?);
    }
    Ok(staged)
}

/// Runs the transactions of one push.
fn take_in(work: &mut Work, staged: &mut StagedHead, packs: &mut Vec<StoredPack>) -> Result<Ran, Error> {
    let head = &staged.basis.head;
    if work.proposal.checked_at < head.shrunk {
        let words = "objects were removed from the repository since the push began; push again";
        return Err(Error::new(ErrorKind::Unavailable, words));
    }
    let mut with_ours = packs.clone();
    add_packs(&mut with_ours, &work.packs)?;
    let before = staged.scratch.list()?;
    let (outcomes, written) = run(staged.scratch.store(), work);
    let has_changed = staged.scratch.list()? != before;
    if has_changed {
        *packs = with_ours;
        work.add_at_hand(&mut staged.at_hand);
    }
    Ok(Ran { outcomes, written, has_changed })
}

fn run(store: &RefStore, work: &mut Work) -> (Vec<TransactionOutcome>, Vec<WrittenTransaction>) {
    // The objects are in the bucket, or will be with the head that names them.
    let proof = ObjectsStored::earlier();
    let (mut outcomes, mut written) = (Vec::new(), Vec::new());
    let objects = &mut *work.proposal.objects;
    for transaction in &work.proposal.transactions {
        let writes = transaction.writes.clone().of_copy();
        let prepared = store.prepare(transaction.edits.clone(), transaction.mode, &writes, objects);
        let done = prepared.and_then(|prepared| prepared.write(&proof, objects));
        outcomes.push(done.map(|(mut refused, end)| {
            written.push(end);
            refused.sort_by_key(|refusal| refusal.edit);
            refused
        }));
    }
    (outcomes, written)
}

/// Adds packs that are not named yet. Equal checksums do not prove that packs are the same.
pub(crate) fn add_packs(packs: &mut Vec<StoredPack>, ours: &[StoredPack]) -> Result<(), Error> {
    let digest = |pack: &StoredPack| {
        let file = pack.files.iter().find(|(kind, _)| *kind == PackFileKind::Pack);
        file.map(|(_, file)| file.sha256)
    };
    for pack in ours {
        match packs.iter().find(|other| other.checksum == pack.checksum) {
            None => packs.push(pack.clone()),
            Some(other) if digest(other) == digest(pack) => {}
            Some(_) => {
                let words = format!("another pack has the checksum {}", pack.checksum);
                return Err(Error::new(ErrorKind::Refused, words));
            }
        }
    }
    Ok(())
}

/// The successor of the basis.
fn compose(
    committer: &Committer,
    name: &BucketName,
    staged: &mut StagedHead,
    packs: Vec<StoredPack>,
) -> Result<Head, Error> {
    let basis = &staged.basis.head;
    let (key, head) = next_head(basis)?;
    let mut upload = Upload::new(key);
    let tables = upload.take_tables(staged.scratch.dir(), &basis.tables)?;
    staged.scratch.add_at_hand(&tables, basis, &mut staged.at_hand);
    let mut head = Head { packs, tables, ..head };
    upload.spill(&mut head)?;
    upload.send(committer.cache.bucket(), name)?;
    Ok(head)
}
