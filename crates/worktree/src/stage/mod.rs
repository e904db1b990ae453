//! Stores files for `add` and others: reads, converts, hashes and compresses them on several threads, and
//! publishes them together.
//!
//! Each file is opened once, examined once and read in one go. A thread holds one content in memory, of at
//! most `core.bigFileThreshold` bytes unless it must be converted; larger ones are streamed into a pack.

mod changes;
mod read;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use packrace_object::{HashKind, ObjectId};
use packrace_os::process::available_threads;
use packrace_store::Repository;
use packrace_store::publish::ObjectBatch;

pub use self::changes::{ChangeFinder, PathChange, What};
use self::read::ReadBuffers;
use crate::filter::{Conversion, Converter, Error as FilterError, Filters, Purpose};
use crate::index::{Index, Seen};

/// Files that justify another thread.
const FILES_A_THREAD: usize = 16;

/// Files that a thread takes at once.
const FILES_AT_ONCE: usize = 8;

/// Maximum number of threads.
const MAX_THREADS: usize = 16;

/// A file to read.
#[derive(Debug, Clone)]
pub struct StageJob {
    /// Relative to the top of the work tree.
    pub path: Vec<u8>,
    /// `None` if the content is not converted.
    conversion: Option<Arc<Conversion>>,
    /// The blob in the index; if the file is unchanged, it need not be stored.
    known: Option<ObjectId>,
}

/// The result for a file.
#[derive(Debug)]
pub struct Staged {
    /// Its blob.
    pub id: ObjectId,
    /// Its metadata when it was opened.
    pub seen: Seen,
    /// Lines for standard error.
    pub messages: Vec<String>,
}

/// Why a file could not be added.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// This file only; the lines are for standard error, and other files may continue.
    #[error("{}", .0.join("\n"))]
    Unreadable(Vec<String>),
    /// An error that ends everything; the lines for standard error come first.
    #[error("{1}")]
    Refused(Vec<String>, String),
    /// Objects could not be stored.
    #[error(transparent)]
    Store(#[from] packrace_store::Error),
    /// Another file ended everything first.
    #[error("not read")]
    Skipped,
}

/// Reads files and stores them.
pub struct Stager<'a> {
    top: PathBuf,
    converter: Arc<Converter>,
    purpose: Purpose,
    hash: HashKind,
    big_file_bytes: u64,
    /// `None` if nothing is stored.
    batch: Option<&'a ObjectBatch>,
    index: &'a Index,
    /// Whether other files continue if one cannot be read.
    goes_on: bool,
}

impl StageJob {
    /// A job for a path; looks up its conversion.
    pub fn new(
        path: &[u8],
        known: Option<ObjectId>,
        filters: &mut Filters,
        index: &Index,
        messages: &mut Vec<String>,
    ) -> Result<Self, FilterError> {
        let conversion = filters.conversion(path, &|path| staged(index, path), messages)?;
        let conversion = (!conversion.is_identity()).then(|| Arc::new(conversion));
        Ok(StageJob { path: path.to_vec(), conversion, known })
    }
}

impl<'a> Stager<'a> {
    /// A stager for the work tree at `top`. Without a batch, files are hashed but not stored.
    pub fn new(
        repository: &Repository,
        top: &Path,
        converter: &Arc<Converter>,
        index: &'a Index,
        batch: Option<&'a ObjectBatch>,
    ) -> Result<Self, packrace_store::Error> {
        Ok(Stager {
            top: top.to_owned(),
            converter: Arc::clone(converter),
            purpose: Purpose::Store,
            hash: repository.hash_kind(),
            big_file_bytes: repository.config().big_file_bytes()?,
            batch,
            index,
            goes_on: false,
        })
    }

    /// Sets the purpose of conversions; the default is to store.
    pub fn with_purpose(mut self, purpose: Purpose) -> Self {
        self.purpose = purpose;
        self
    }

    /// Sets whether other files continue if one cannot be read.
    pub fn with_unreadable(mut self, goes_on: bool) -> Self {
        self.goes_on = goes_on;
        self
    }

    /// Runs all jobs and returns their results, in order. After a failure that ends everything, later jobs
    /// may not have run.
    pub fn run(&self, jobs: &[StageJob]) -> Vec<Result<Staged, StageError>> {
        let cores = available_threads().min(MAX_THREADS);
        let threads = cores.min(jobs.len() / FILES_A_THREAD + 1);
        let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        let work = || self.work(jobs, &next, &failed);
        let mut parts = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut parts = work();
            for other in others {
                match other.join() {
                    Ok(part) => parts.extend(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            parts
        });
        parts.sort_unstable_by_key(|(at, _)| *at);
        parts.into_iter().flat_map(|(_, results)| results).collect()
    }

    /// Takes jobs until none is left; returns results with the index of each lot's first job.
    fn work(
        &self,
        jobs: &[StageJob],
        next: &AtomicUsize,
        failed: &AtomicUsize,
    ) -> Vec<(usize, Vec<Result<Staged, StageError>>)> {
        let mut reading = ReadBuffers::default();
        let mut parts = Vec::new();
        loop {
            let from = next.fetch_add(FILES_AT_ONCE, Ordering::Relaxed);
            if from >= jobs.len() {
                return parts;
            }
            let lot = &jobs[from..jobs.len().min(from + FILES_AT_ONCE)];
            let results = lot.iter().enumerate().map(|(at, job)| {
                if failed.load(Ordering::Relaxed) < from + at {
                    return Err(StageError::Skipped);
                }
                let result = self.stage(job, &mut reading);
                match &result {
                    Ok(_) => {}
                    Err(StageError::Unreadable(_)) if self.goes_on => {}
                    Err(_) => {
                        failed.fetch_min(from + at, Ordering::Relaxed);
                    }
                }
                result
            });
            parts.push((from, results.collect()));
        }
    }
}

/// The index's blob for a path.
pub fn staged(index: &Index, path: &[u8]) -> Option<ObjectId> {
    index.get(path, 0).filter(|entry| entry.mode.is_file()).map(|entry| entry.id)
}
