//! The thread behind the first pass: hashes and writes the pack, and names whole objects. It starts once
//! there is enough to do, which leaves only the search for entries to the receiving thread.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use packrace_object::{HashKind, Kind, ObjectHasher, ObjectId, Unnamed, object_ids};
use packrace_store::publish::PackWriter;

use super::checks::{Checks, Inspector};
use super::eager_deltas::EagerDeltas;
use super::error::IngestReason;
use super::table::{EntryNumber, Named};
use super::unpacked::Unpacked;

/// Bytes of the pack in one job, and in one write to the file.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// Bytes of contents in one job.
pub(super) const BATCH_BYTES: usize = 1 << 18;

/// The most waiting jobs.
const MAX_WAITING: usize = 8;

/// With fewer waiting jobs, the thread has time for deltas.
const HAS_TIME_WAITING: usize = 2;

/// A job for the thread.
pub(super) enum HashJob {
    /// Bytes of the pack; the checksum covers this many of them.
    Piece(Vec<u8>, usize),
    /// Contents or deltas of objects, concatenated, and their entries.
    Objects(Vec<u8>, Vec<Arrived>),
}

/// An object of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) entry: EntryNumber,
    pub(super) form: ArrivedAs,
    /// The length of the content or delta.
    pub(super) length: usize,
}

/// Whether an object arrived whole or as a delta.
#[derive(Debug, Clone, Copy)]
pub(super) enum ArrivedAs {
    Whole(Kind),
    /// A delta of this entry.
    Delta(EntryNumber),
}

/// What a finished job returns.
#[derive(Default)]
pub(super) struct Returned {
    /// The job's buffer, to be reused.
    pub(super) buffer: Vec<u8>,
    /// Deltas in the buffer that were not applied because their bases are not cached.
    pub(super) left: Vec<(EntryNumber, Range<usize>)>,
}

/// The result of all jobs.
pub(super) struct Done {
    /// `None` if the pack is a file already.
    pub(super) writer: Option<Box<PackWriter>>,
    pub(super) checksum: ObjectId,
    /// All whole objects and some deltas, or the first entry that looks like an attack.
    pub(super) named: Result<Vec<Named>, EntryNumber>,
    pub(super) inspector: Option<Inspector>,
}

struct HashWorker {
    hash: HashKind,
    writer: Option<Box<PackWriter>>,
    hasher: ObjectHasher,
    named: Result<Vec<Named>, EntryNumber>,
    inspector: Option<Inspector>,
    early: Option<EagerDeltas>,
}

/// Runs jobs, on the calling thread or its own.
pub(super) struct HasherThread(Runner);

enum Runner {
    Here(Box<HashWorker>),
    Thread {
        jobs: SyncSender<HashJob>,
        returned: Receiver<Returned>,
        worker: JoinHandle<Result<Box<HashWorker>, IngestReason>>,
        waiting: Arc<AtomicUsize>,
    },
    /// The thread failed or has finished.
    Over,
}

impl HasherThread {
    pub(super) fn new(hash: HashKind, writer: Option<PackWriter>, checks: Option<&Checks>) -> Self {
        let writer = writer.map(Box::new);
        let hasher = ObjectHasher::of_stream(hash);
        let inspector = checks.map(|checks| Inspector::new(checks, hash));
        HasherThread(Runner::Here(Box::new(HashWorker {
            hash,
            writer,
            hasher,
            named: Ok(Vec::new()),
            inspector,
            early: None,
        })))
    }

    /// Moves the work to a thread, which keeps up to `cache_bytes` of contents as delta bases. With checks,
    /// deltas wait for the second pass, because findings are reported in pack order.
    pub(super) fn part(&mut self, cache_bytes: usize, unpacked: Arc<Unpacked>) {
        self.0 = match std::mem::replace(&mut self.0, Runner::Over) {
            Runner::Here(mut worker) => {
                worker.early = worker.inspector.is_none().then(|| EagerDeltas::new(cache_bytes, unpacked));
                let (jobs, taken) = sync_channel(MAX_WAITING);
                let (done, returned) = channel();
                let waiting = Arc::new(AtomicUsize::new(0));
                let left = waiting.clone();
                let worker = std::thread::spawn(move || worker.follow(&taken, &done, &left));
                Runner::Thread { jobs, returned, worker, waiting }
            }
            other => other,
        };
    }

    /// Runs or queues the job; returns what is left of it or of an earlier one.
    pub(super) fn run(&mut self, job: HashJob) -> Result<Returned, IngestReason> {
        match &mut self.0 {
            Runner::Here(worker) => worker.run(job),
            Runner::Thread { jobs, returned, waiting, .. } => {
                waiting.fetch_add(1, Relaxed);
                if jobs.send(job).is_ok() {
                    return Ok(returned.try_recv().unwrap_or_default());
                }
                Err(self.join().err().unwrap_or(IngestReason::Cancelled))
            }
            Runner::Over => Err(IngestReason::Cancelled),
        }
    }

    /// Whether the thread is nearly idle.
    pub(super) fn has_time(&self) -> bool {
        matches!(&self.0, Runner::Thread { waiting, .. } if waiting.load(Relaxed) < HAS_TIME_WAITING)
    }

    /// Waits for all jobs.
    pub(super) fn finish(&mut self) -> Result<Done, IngestReason> {
        let worker = self.join()?;
        let checksum = worker.hasher.finish().map_err(|_| IngestReason::PackCollisionAttack)?;
        Ok(Done { writer: worker.writer, checksum, named: worker.named, inspector: worker.inspector })
    }

    fn join(&mut self) -> Result<Box<HashWorker>, IngestReason> {
        match std::mem::replace(&mut self.0, Runner::Over) {
            Runner::Here(worker) => Ok(worker),
            Runner::Thread { jobs, worker, .. } => {
                drop(jobs);
                match worker.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Runner::Over => Err(IngestReason::Cancelled),
        }
    }
}

impl Drop for HasherThread {
    fn drop(&mut self) {
        if let Runner::Thread { .. } = self.0 {
            // The temporary file must be gone when the drop returns.
            let _ = self.join();
        }
    }
}

impl HashWorker {
    fn follow(
        mut self: Box<Self>,
        jobs: &Receiver<HashJob>,
        done: &Sender<Returned>,
        waiting: &AtomicUsize,
    ) -> Result<Box<Self>, IngestReason> {
        while let Ok(job) = jobs.recv() {
            let returned = self.run(job)?;
            waiting.fetch_sub(1, Relaxed);
            // At the end, no receiver takes the buffer back.
            let _ = done.send(returned);
        }
        Ok(self)
    }

    fn run(&mut self, job: HashJob) -> Result<Returned, IngestReason> {
        match job {
            HashJob::Piece(bytes, counted) => {
                self.hasher.update(&bytes[..counted]);
                if let Some(writer) = &mut self.writer {
                    writer.write(&bytes)?;
                }
                Ok(Returned { buffer: bytes, left: Vec::new() })
            }
            HashJob::Objects(contents, list) => {
                let left = self.name(&contents, &list)?;
                Ok(Returned { buffer: contents, left })
            }
        }
    }

    /// Names objects; returns the deltas that were not applied.
    fn name(
        &mut self,
        contents: &[u8],
        list: &[Arrived],
    ) -> Result<Vec<(EntryNumber, Range<usize>)>, IngestReason> {
        let mut left = Vec::new();
        let Ok(named) = &mut self.named else { return Ok(left) };
        let mut end = 0;
        let mut found: Vec<(EntryNumber, Kind, HashedBytes<'_>)> = Vec::with_capacity(list.len());
        for object in list {
            let place = end..end + object.length;
            end = place.end;
            let bytes = &contents[place.clone()];
            let (kind, content) = match (object.form, &mut self.early) {
                (ArrivedAs::Whole(kind), None) => (kind, HashedBytes::OfBatch(bytes)),
                (ArrivedAs::Whole(kind), Some(_)) => (kind, HashedBytes::Kept(Arc::new(bytes.to_vec()))),
                (ArrivedAs::Delta(base), Some(early)) => match early.resolve(base, bytes) {
                    Some((kind, content)) => (kind, HashedBytes::Kept(content)),
                    None => {
                        left.push((object.entry, place));
                        continue;
                    }
                },
                (ArrivedAs::Delta(_), None) => continue,
            };
            if let (HashedBytes::Kept(content), Some(early)) = (&content, &mut self.early) {
                early.keep(object.entry, kind, content);
            }
            found.push((object.entry, kind, content));
        }
        let objects: Vec<_> = found.iter().map(|(_, kind, content)| Unnamed::new(*kind, content)).collect();
        let mut ids = Vec::with_capacity(objects.len());
        if let Err((number, _)) = object_ids(self.hash, &objects, &mut ids) {
            self.named = Err(found[number].0);
            return Ok(left);
        }
        for ((entry, kind, content), id) in found.iter().zip(ids) {
            if let Some(inspector) = &mut self.inspector {
                inspector.inspect(*kind, &id, content)?;
            }
            named.push(Named { entry: *entry, id });
        }
        Ok(left)
    }
}

/// A content in a batch, or shared with the cache.
enum HashedBytes<'a> {
    OfBatch(&'a [u8]),
    Kept(Arc<Vec<u8>>),
}

impl Deref for HashedBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            HashedBytes::OfBatch(bytes) => bytes,
            HashedBytes::Kept(bytes) => bytes,
        }
    }
}
