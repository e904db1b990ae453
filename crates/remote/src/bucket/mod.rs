//! Objects of a bucket: read if they have changed, read in part, created, swapped, deleted and listed.
//!
//! [`Bucket`] sends requests again; an [`ObjectBackend`] makes each once: [`s3`] over the network, and for tests `double` in
//! memory, with every fault that a store can have.

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

/// How often a request is made at most.
const MAX_TRIES: u32 = 4;

/// Reads and the like are not tried again when so much time has gone since the first try: those that fail at once are tried
/// [`MAX_TRIES`] times, and one that a silent store lets run into its deadline is the last.
const RETRY_TIME: Duration = Duration::from_secs(5);

/// The same for writes on a condition: another try says what became of one without an answer.
const DOUBT_TIME: Duration = Duration::from_secs(15);

/// How long is waited before a request is made for the second time; twice as long each time after.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Parts of long objects, and ranges of those that are read: this long.
pub const PART_BYTES: u64 = 8 << 20;

/// The version of an object, as the store says it (ETag). Versions that differ tell that something changed; equal ones tell nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVersion(pub String);

impl ObjectVersion {
    /// The same without quotes, which one store wants (Ceph's).
    pub fn unquoted(&self) -> Self {
        ObjectVersion(self.0.trim_matches('"').to_owned())
    }
}

/// What a look at an object found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// It is not there.
    Absent,
    /// It has the version that is known.
    Unchanged,
    /// Its bytes, and their version.
    Found(Bytes, ObjectVersion),
}

/// On which condition an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition<'a> {
    /// None. Only for keys that nobody else writes.
    Always,
    /// It is not there.
    IsAbsent,
    /// It has this version.
    Is(&'a ObjectVersion),
}

/// What became of an object that was to be written on a condition.
#[derive(Debug, Clone)]
pub enum WriteOutcome {
    /// It was written, and has this version.
    Won(ObjectVersion),
    /// The condition did not hold.
    Lost {
        /// Whether an earlier try had no answer: that may have been the one that counted, and it alone made the condition fail.
        in_doubt: bool,
    },
    /// No try had an answer.
    Unknown(Error),
}

/// Why one request came to nothing.
#[derive(Debug, Clone)]
pub struct RequestFailure {
    /// Whether another try may help.
    pub is_passing: bool,
    /// In words.
    pub words: String,
}

impl RequestFailure {
    /// One after which another try may help.
    pub fn passing(words: impl Into<String>) -> Self {
        RequestFailure { is_passing: true, words: words.into() }
    }

    /// One that stays.
    pub fn lasting(words: impl Into<String>) -> Self {
        RequestFailure { is_passing: false, words: words.into() }
    }
}

/// Some of the keys that are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPage {
    /// The keys, none of which is on another page.
    pub keys: Vec<String>,
    /// How the next page is called, if there is one.
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

    /// Reads a part, exactly; `None` if there is no such object.
    fn read(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>, RequestFailure>;

    /// Writes an object whole; `None` if the condition does not hold.
    fn write(
        &self,
        key: &str,
        bytes: Bytes,
        condition: Condition<'_>,
    ) -> Result<Option<ObjectVersion>, RequestFailure>;

    /// Writes a long object in parts, which `part` gives one after another. Parts are sent again; there is no condition.
    fn write_parts(
        &self,
        key: &str,
        part: &mut dyn FnMut() -> Result<Option<Bytes>, RequestFailure>,
    ) -> Result<(), RequestFailure>;

    /// Deletes an object, if it is there.
    fn delete(&self, key: &str) -> Result<(), RequestFailure>;

    /// Lists the keys of objects that begin like this: the first page, or the one that an earlier page names.
    fn list(&self, prefix: &str, page: Option<&str>) -> Result<KeyPage, RequestFailure>;

    /// How many parts may be read at once.
    fn parallel_reads(&self) -> usize;

    /// Waits for that long.
    fn pause(&self, time: Duration);

    /// Time since some fixed point.
    fn now(&self) -> Duration;
}

/// A bucket. Calls block.
#[derive(Debug, Clone)]
pub struct Bucket {
    backend: Arc<dyn ObjectBackend>,
    counts: Arc<RequestCounts>,
}

impl Bucket {
    /// The bucket that this leads to.
    pub fn new(backend: Arc<dyn ObjectBackend>) -> Self {
        Bucket { backend, counts: Arc::default() }
    }

    /// Requests so far.
    pub fn counts(&self) -> &Arc<RequestCounts> {
        &self.counts
    }

    /// An object of at most `max_bytes`, unless it has the known version.
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

    /// A part of an object; `None` if there is no such object.
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

    /// Creates an object.
    pub fn put_new(&self, key: &str, bytes: &Bytes) -> Result<WriteOutcome, Error> {
        self.put_if(key, bytes, Condition::IsAbsent)
    }

    /// Puts these bytes in the place of a version that was read.
    pub fn swap(&self, key: &str, from: &ObjectVersion, bytes: &Bytes) -> Result<WriteOutcome, Error> {
        self.put_if(key, bytes, Condition::Is(from))
    }

    /// The same bytes on the same condition, until there is an answer. After a try without one, the condition fails also if that
    /// try counted: only a token in the bytes can tell.
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

    /// Writes an object under a key that nobody else writes: sent again, it is the same.
    pub(crate) fn put_own(&self, key: &str, bytes: &Bytes) -> Result<(), Error> {
        self.tried(RequestKind::Put, RETRY_TIME, || {
            let written = self.backend.write(key, bytes.clone(), Condition::Always);
            (written.as_ref().map_or(RequestOutcome::Failed, |_| RequestOutcome::Done), written)
        })
        .map(drop)
    }

    /// The same for a long one, in parts of [`PART_BYTES`], which `part` gives one after another.
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

    /// Deletes an object, if it is there.
    pub fn delete(&self, key: &str) -> Result<(), Error> {
        self.tried(RequestKind::Delete, RETRY_TIME, || {
            let deleted = self.backend.delete(key);
            (deleted.as_ref().map_or(RequestOutcome::Failed, |()| RequestOutcome::Done), deleted)
        })
    }

    /// Calls `each` with the key of each object that begins like this, once, until it breaks.
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

    /// How many calls of [`get_range`](Self::get_range) may be made at once for one repository.
    pub(crate) fn parallel_reads(&self) -> usize {
        self.backend.parallel_reads()
    }

    /// Time since some fixed point.
    pub(crate) fn now(&self) -> Duration {
        self.backend.now()
    }

    /// Waits for that long.
    pub(crate) fn wait(&self, time: Duration) {
        self.backend.pause(time);
    }

    /// Makes a request again while that may help; not when `retry_time` has gone since it was first made.
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
            // Half of it by chance, so that those who failed together do not come back together.
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
