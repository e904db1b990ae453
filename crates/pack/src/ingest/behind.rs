//! What follows the first pass: the pack is hashed and written, and whole objects are named. On a thread of its own once
//! there is enough to do, so that whoever receives has only to find the entries.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use packrace_object::{HashKind, Kind, ObjectHasher, ObjectId, Unnamed, object_ids};
use packrace_store::publish::PackWriter;

use super::checks::{Checks, Inspector};
use super::error::Reason;

/// Bytes of the pack that are handed on together: what the file gets in one write.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// Contents that are handed on together.
pub(super) const BATCH_BYTES: usize = 1 << 18;

/// Pieces and batches that may wait.
const MAX_WAITING: usize = 8;

/// Something to do.
pub(super) enum Job {
    /// Bytes of the pack, of which so many count for its checksum.
    Piece(Vec<u8>, usize),
    /// Whole objects: their contents one behind the other.
    Objects(Vec<u8>, Vec<(Kind, usize)>),
}

/// What came of all jobs.
pub(super) struct Done {
    /// None where the pack is a file already.
    pub(super) writer: Option<Box<PackWriter>>,
    pub(super) checksum: ObjectId,
    /// Of all whole objects, in order; or the number of the first that looks like an attack.
    pub(super) ids: Result<Vec<ObjectId>, usize>,
    pub(super) inspector: Option<Inspector>,
}

struct Worker {
    hash: HashKind,
    writer: Option<Box<PackWriter>>,
    hasher: ObjectHasher,
    ids: Result<Vec<ObjectId>, usize>,
    inspector: Option<Inspector>,
}

/// Who does it.
pub(super) struct Behind(Place);

enum Place {
    Here(Box<Worker>),
    Thread {
        jobs: SyncSender<Job>,
        buffers: Receiver<Vec<u8>>,
        worker: JoinHandle<Result<Box<Worker>, Reason>>,
    },
    /// It failed, or everything was done.
    Over,
}

impl Behind {
    pub(super) fn new(hash: HashKind, writer: Option<PackWriter>, checks: Option<&Checks>) -> Self {
        let writer = writer.map(Box::new);
        let hasher = ObjectHasher::of_stream(hash);
        let inspector = checks.map(|checks| Inspector::new(checks, hash));
        Behind(Place::Here(Box::new(Worker { hash, writer, hasher, ids: Ok(Vec::new()), inspector })))
    }

    /// Lets a thread do it from now on.
    pub(super) fn part(&mut self) {
        self.0 = match std::mem::replace(&mut self.0, Place::Over) {
            Place::Here(worker) => {
                let (jobs, waiting) = sync_channel(MAX_WAITING);
                let (returned, buffers) = channel();
                let worker = std::thread::spawn(move || worker.follow(&waiting, &returned));
                Place::Thread { jobs, buffers, worker }
            }
            other => other,
        };
    }

    /// Does the job, or sees to it that it is done. Gives back an empty buffer.
    pub(super) fn run(&mut self, job: Job) -> Result<Vec<u8>, Reason> {
        match &mut self.0 {
            Place::Here(worker) => worker.run(job),
            Place::Thread { jobs, buffers, .. } => {
                if jobs.send(job).is_ok() {
                    return Ok(buffers.try_recv().unwrap_or_default());
                }
                Err(self.join().err().unwrap_or(Reason::Cancelled))
            }
            Place::Over => Err(Reason::Cancelled),
        }
    }

    /// Waits until everything is done.
    pub(super) fn finish(&mut self) -> Result<Done, Reason> {
        let worker = self.join()?;
        let checksum = worker.hasher.finish().map_err(|_| Reason::PackCollisionAttack)?;
        Ok(Done { writer: worker.writer, checksum, ids: worker.ids, inspector: worker.inspector })
    }

    fn join(&mut self) -> Result<Box<Worker>, Reason> {
        match std::mem::replace(&mut self.0, Place::Over) {
            Place::Here(worker) => Ok(worker),
            Place::Thread { jobs, worker, .. } => {
                drop(jobs);
                match worker.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Place::Over => Err(Reason::Cancelled),
        }
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        if let Place::Thread { .. } = self.0 {
            // The temporary must be gone when whoever drops this goes on.
            let _ = self.join();
        }
    }
}

impl Worker {
    fn follow(
        mut self: Box<Self>,
        jobs: &Receiver<Job>,
        buffers: &Sender<Vec<u8>>,
    ) -> Result<Box<Self>, Reason> {
        while let Ok(job) = jobs.recv() {
            let buffer = self.run(job)?;
            // Nobody takes it back at the end.
            let _ = buffers.send(buffer);
        }
        Ok(self)
    }

    fn run(&mut self, job: Job) -> Result<Vec<u8>, Reason> {
        let mut buffer = match job {
            Job::Piece(bytes, counted) => {
                self.hasher.update(&bytes[..counted]);
                if let Some(writer) = &mut self.writer {
                    writer.write(&bytes)?;
                }
                bytes
            }
            Job::Objects(contents, list) => {
                self.name(&contents, &list)?;
                contents
            }
        };
        buffer.clear();
        Ok(buffer)
    }

    fn name(&mut self, contents: &[u8], list: &[(Kind, usize)]) -> Result<(), Reason> {
        let Ok(ids) = &mut self.ids else { return Ok(()) };
        let mut rest = contents;
        let objects = list.iter().map(|(kind, length)| {
            let (content, after) = rest.split_at(*length);
            rest = after;
            Unnamed { kind: *kind, content }
        });
        let objects: Vec<_> = objects.collect();
        let known = ids.len();
        if let Err((number, _)) = object_ids(self.hash, &objects, ids) {
            self.ids = Err(known + number);
            return Ok(());
        }
        if let Some(inspector) = &mut self.inspector {
            for (object, id) in objects.iter().zip(&ids[known..]) {
                inspector.inspect(object.kind, id, object.content)?;
            }
        }
        Ok(())
    }
}
