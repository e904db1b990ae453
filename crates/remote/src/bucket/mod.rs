//! Objects of a bucket: conditional and range reads, creation, swaps, deletion and listing.
//!
//! [`Bucket`] retries requests; an [`ObjectBackend`] makes each once: [`s3`] over the network, and `double`,
//! for tests, in memory with every fault that a store can have.

pub mod aws_files;
mod counts;
#[cfg(test)]
pub(crate) mod double;
mod http_client;
pub mod s3;

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use counts::{RequestCounts, RequestKind, RequestOutcome};

use crate::error::{Error, ErrorKind};

/// Most tries of a request.
const MAX_TRIES: u32 = 4;

/// No retry of reads, unconditional writes, deletions and lists once this much time has passed since the
/// first try: requests that fail at once are tried [`MAX_TRIES`] times; one that times out is not retried.
const RETRY_TIME: Duration = Duration::from_secs(5);

/// The same for conditional writes: only a retry tells the outcome of an unanswered one.
const DOUBT_TIME: Duration = Duration::from_secs(15);

/// Longest back-off before the first retry; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Longest part of a long object, and longest range read.
pub const PART_BYTES: u64 = 8 << 20;

/// The version of an object (ETag). Different versions prove a change; equal ones do not prove that nothing
/// happened in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVersion(pub String);

impl ObjectVersion {
    /// The same without quotes, which one store (Ceph) expects.
    pub fn unquoted(&self) -> Self {
        ObjectVersion(self.0.trim_matches('"').to_owned())
    }
}

/// The result of a conditional read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// The object does not exist.
    Absent,
    /// It still has the known version.
    Unchanged,
    /// Its bytes and their version.
    Found(Bytes, ObjectVersion),
}

/// The condition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition<'a> {
    /// None. Only for keys with a single writer.
    Always,
    /// The object does not exist.
    IsAbsent,
    /// The object has this version.
    Is(&'a ObjectVersion),
}

/// The outcome of a conditional write.
#[derive(Debug, Clone)]
pub enum WriteOutcome {
    /// The object was written and has this version.
    Won(ObjectVersion),
    /// The condition did not hold.
    Lost {
        /// Whether an earlier try got no response: it may have been the one that took effect, and so the
        /// reason why the condition failed.
        in_doubt: bool,
    },
    /// No try got a response.
    Unknown(Error),
}

/// Why a single request failed.
#[derive(Debug, Clone)]
pub struct RequestFailure {
    /// Whether a retry may help.
    pub is_passing: bool,
    /// The message.
    pub words: String,
}

impl RequestFailure {
    /// A failure that a retry may fix.
    pub fn passing(words: impl Into<String>) -> Self {
        RequestFailure { is_passing: true, words: words.into() }
    }

    /// A failure that a retry cannot fix.
    pub fn lasting(words: impl Into<String>) -> Self {
        RequestFailure { is_passing: false, words: words.into() }
    }
}

/// A page of a list of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPage {
    /// Keys; none is on another page.
    pub keys: Vec<String>,
    /// The token of the next page, if there is one.
    pub next: Option<String>,
}

/// Makes each request once.
pub trait ObjectBackend: std::fmt::Debug + Send + Sync {
    /// Reads an object of at most `max_bytes` whole, unless it has the known version.
    fn look(
        &self,
        key: &str,
        known: Option<&ObjectVersion>,
        max_bytes: usize,
    ) -> Result<Looked, RequestFailure>;

    /// Reads exactly this range; `None` if the object does not exist.
    fn read(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>, RequestFailure>;

    /// Writes a whole object; `None` if the condition does not hold.
    fn write(
        &self,
        key: &str,
        bytes: Bytes,
        condition: Condition<'_>,
    ) -> Result<Option<ObjectVersion>, RequestFailure>;

    /// Writes a long object in the parts that `part` returns one after another, without a condition. Failed
    /// parts are sent again.
    fn write_parts(
        &self,
        key: &str,
        part: &mut dyn FnMut() -> Result<Option<Bytes>, RequestFailure>,
    ) -> Result<(), RequestFailure>;

    /// Deletes an object, if it exists.
    fn delete(&self, key: &str) -> Result<(), RequestFailure>;

    /// Lists the keys with this prefix: the first page, or the one that an earlier page names.
    fn list(&self, prefix: &str, page: Option<&str>) -> Result<KeyPage, RequestFailure>;

    /// How many ranges may be read concurrently.
    fn parallel_reads(&self) -> usize;

    /// Sleeps for this time.
    fn pause(&self, time: Duration);

    /// The time since a fixed point.
    fn now(&self) -> Duration;
}

/// A bucket. Calls block.
#[derive(Debug, Clone)]
pub struct Bucket {
    backend: Arc<dyn ObjectBackend>,
    counts: Arc<RequestCounts>,
}

impl Bucket {
    /// The bucket behind this backend.
    pub fn new(backend: Arc<dyn ObjectBackend>) -> Self {
        Bucket { backend, counts: Arc::default() }
    }

    /// Counts of requests so far.
    pub fn counts(&self) -> &Arc<RequestCounts> {
        &self.counts
    }

    /// Reads an object of at most `max_bytes`, unless it has the known version.
    pub fn get_if_changed(
        &self,
        key: &str,
        known: Option<&ObjectVersion>,
        max_bytes: usize,
    ) -> Result<Looked, Error> {
        self.tried(RequestKind::Get, RETRY_TIME, || {
            let looked = self.backend.look(key, known, max_bytes);
            let outcome = |looked: &Looked| match looked {
                Looked::Absent => RequestOutcome::Refused,
                Looked::Unchanged => RequestOutcome::Unchanged,
                Looked::Found(..) => RequestOutcome::Done,
            };
            (looked.as_ref().map_or(RequestOutcome::Failed, outcome), looked)
        })
    }

    /// Reads a range of an object; `None` if the object does not exist.
    pub fn get_range(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>, Error> {
        let length = range.end.saturating_sub(range.start);
        self.tried(RequestKind::Range, RETRY_TIME, || {
            let read = self.backend.read(key, range.clone()).and_then(|read| match read {
                Some(bytes) if bytes.len() as u64 != length => {
                    Err(RequestFailure::passing("store sent the wrong part of an object"))
                }
                read => Ok(read),
            });
            let outcome = |read: &Option<Bytes>| match read {
                Some(_) => RequestOutcome::Done,
                None => RequestOutcome::Refused,
            };
            (read.as_ref().map_or(RequestOutcome::Failed, outcome), read)
        })
    }

    /// Creates an object, if it does not exist.
    pub fn put_new(&self, key: &str, bytes: &Bytes) -> Result<WriteOutcome, Error> {
        self.put_if(key, bytes, Condition::IsAbsent)
    }

    /// Replaces an object, if it still has the version that was read.
    pub fn swap(&self, key: &str, from: &ObjectVersion, bytes: &Bytes) -> Result<WriteOutcome, Error> {
        self.put_if(key, bytes, Condition::Is(from))
    }

    /// Sends the same bytes on the same condition until there is a response. After an unanswered try, the
    /// condition also fails if that try took effect: only a token in the bytes can tell.
    fn put_if(&self, key: &str, bytes: &Bytes, condition: Condition<'_>) -> Result<WriteOutcome, Error> {
        let mut in_doubt = false;
        let result = self.tried(RequestKind::Put, DOUBT_TIME, || {
            let written = self.backend.write(key, bytes.clone(), condition);
            let outcome = match &written {
                Ok(Some(_)) => RequestOutcome::Done,
                Ok(None) => RequestOutcome::Refused,
                Err(failure) => {
                    in_doubt |= failure.is_passing;
                    RequestOutcome::Failed
                }
            };
            (outcome, written)
        });
        match result {
            Ok(Some(version)) => Ok(WriteOutcome::Won(version)),
            Ok(None) => Ok(WriteOutcome::Lost { in_doubt }),
            Err(error) if in_doubt => Ok(WriteOutcome::Unknown(error)),
            Err(error) => Err(error),
        }
    }

    /// Writes an object under a key with a single writer: writing it again changes nothing.
    pub(crate) fn put_own(&self, key: &str, bytes: &Bytes) -> Result<(), Error> {
        self.tried(RequestKind::Put, RETRY_TIME, || {
            let written = self.backend.write(key, bytes.clone(), Condition::Always);
            (written.as_ref().map_or(RequestOutcome::Failed, |_| RequestOutcome::Done), written)
        })
        .map(drop)
    }

    /// The same for a long object, in parts of [`PART_BYTES`] that `part` returns one after another.
    pub(crate) fn put_own_parts(
        &self,
        key: &str,
        part: &mut dyn FnMut() -> Result<Option<Bytes>, Error>,
    ) -> Result<(), Error> {
        let mut failed = None;
        let written = self.backend.write_parts(key, &mut || {
            let taken = part().map_err(|error| {
                failed = Some(error.clone());
                RequestFailure::lasting(error.to_string())
            })?;
            if taken.is_some() {
                self.counts.add(RequestKind::Put, RequestOutcome::Done);
            }
            Ok(taken)
        });
        if written.is_err() && failed.is_none() {
            self.counts.add(RequestKind::Put, RequestOutcome::Failed);
        }
        match (written, failed) {
            (_, Some(error)) => Err(error),
            (Err(failure), None) => Err(told(failure)),
            (Ok(()), None) => Ok(()),
        }
    }

    /// Deletes an object, if it exists.
    pub fn delete(&self, key: &str) -> Result<(), Error> {
        self.tried(RequestKind::Delete, RETRY_TIME, || {
            let deleted = self.backend.delete(key);
            (deleted.as_ref().map_or(RequestOutcome::Failed, |()| RequestOutcome::Done), deleted)
        })
    }

    /// Calls `each` with every key that has this prefix, once, until it breaks.
    pub fn list(&self, prefix: &str, each: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<(), Error> {
        let mut next: Option<String> = None;
        loop {
            let page = self.tried(RequestKind::List, RETRY_TIME, || {
                let listed = self.backend.list(prefix, next.as_deref());
                (listed.as_ref().map_or(RequestOutcome::Failed, |_| RequestOutcome::Done), listed)
            })?;
            if page.keys.iter().try_for_each(|key| each(key)).is_break() || page.next.is_none() {
                return Ok(());
            }
            next = page.next;
        }
    }

    /// How many calls of [`get_range`](Self::get_range) one repository may make concurrently.
    pub(crate) fn parallel_reads(&self) -> usize {
        self.backend.parallel_reads()
    }

    /// The time since a fixed point.
    pub(crate) fn now(&self) -> Duration {
        self.backend.now()
    }

    /// Sleeps for this time.
    pub(crate) fn wait(&self, time: Duration) {
        self.backend.pause(time);
    }

    /// Makes a request, and retries while that may help and `retry_time` has not passed since the first try.
    fn tried<T>(
        &self,
        kind: RequestKind,
        retry_time: Duration,
        mut once: impl FnMut() -> (RequestOutcome, Result<T, RequestFailure>),
    ) -> Result<T, Error> {
        let mut pause = FIRST_PAUSE;
        let mut tries = 0;
        let end = self.backend.now() + retry_time;
        loop {
            tries += 1;
            let (outcome, result) = once();
            self.counts.add(kind, outcome);
            match result {
                Ok(value) => return Ok(value),
                Err(failure) if !failure.is_passing || tries == MAX_TRIES || self.backend.now() >= end => {
                    return Err(told(failure));
                }
                Err(_) => {}
            }
            // Half of the back-off is random, so that clients that failed together do not retry together.
            let jitter = pause / 2 * (packrace_os::durable::random_number() % 1024) / 1024;
            self.backend.pause(pause / 2 + jitter);
            pause *= 2;
        }
    }
}

fn told(failure: RequestFailure) -> Error {
    let kind = if failure.is_passing { ErrorKind::Unavailable } else { ErrorKind::Refused };
    Error::new(kind, failure.words)
}

#[cfg(test)]
mod tests;
