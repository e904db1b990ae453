//! Parts of a repository's objects: several are requested at once, and they are handed out in order.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use packrace_format::head::ObjectKey;

use super::fetch_error::FetchError;
use super::lock;
use crate::bucket::{Bucket, PART_BYTES};
use crate::error::{Error, ErrorKind};
use crate::layout::BucketName;

/// Limit of the parts that are requested and not yet handed out.
const MAX_AHEAD_BYTES: u64 = 4 * PART_BYTES;

/// A range of an object: at least one byte, at most [`PART_BYTES`].
#[derive(Debug)]
pub(super) struct ObjectPart {
    pub(super) key: ObjectKey,
    pub(super) range: Range<u64>,
}

impl ObjectPart {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// Hands out the bytes of parts.
pub(super) struct PartReader<'a> {
    bucket: &'a Bucket,
    name: &'a BucketName,
    parts: &'a [ObjectPart],
    progress: Mutex<PartProgress>,
    changed: Condvar,
}

#[derive(Default)]
struct PartProgress {
    /// Parts requested so far, in order.
    requested: usize,
    handed_out: usize,
    /// Bytes of the parts between the two.
    bytes: u64,
    arrived: HashMap<usize, Result<Bytes, FetchError>>,
    /// No more parts are wanted, or a thread has panicked.
    is_over: bool,
}

/// Lets `use_parts` read all parts while threads request them in advance.
pub(super) fn read<T>(
    bucket: &Bucket,
    name: &BucketName,
    parts: &[ObjectPart],
    use_parts: impl FnOnce(&PartReader<'_>) -> Result<T, FetchError>,
) -> Result<T, FetchError> {
    let progress = Mutex::default();
    let reader = PartReader { bucket, name, parts, progress, changed: Condvar::new() };
    std::thread::scope(|scope| {
        let _end = EndOnDrop { reader: &reader, is_consumer: true };
        for _ in 1..bucket.parallel_reads().min(parts.len()) {
            let thread = std::thread::Builder::new().name("bucket-parts".to_owned());
            // Without threads, `next` makes all requests itself.
            if thread.spawn_scoped(scope, || reader.request_in_advance()).is_err() {
                break;
            }
        }
        use_parts(&reader)
    })
}

/// Ends the other threads of a reader when the consumer returns, or any of them panics.
struct EndOnDrop<'a> {
    reader: &'a PartReader<'a>,
    is_consumer: bool,
}

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        if self.is_consumer || std::thread::panicking() {
            lock(&self.reader.progress).is_over = true;
            self.reader.changed.notify_all();
        }
    }
}

impl PartReader<'_> {
    /// The bytes of the next part; `None` after the last.
    pub(super) fn next(&self) -> Result<Option<Bytes>, FetchError> {
        let mut progress = lock(&self.progress);
        let at = progress.handed_out;
        let Some(part) = self.parts.get(at) else { return Ok(None) };
        let bytes = if progress.requested == at {
            progress.requested += 1;
            progress.bytes += part.len();
            drop(progress);
            let bytes = self.request(part);
            progress = lock(&self.progress);
            bytes
        } else {
            loop {
                if let Some(bytes) = progress.arrived.remove(&at) {
                    break bytes;
                }
                if progress.is_over {
                    let words = "a thread that fetches objects has panicked";
                    return Err(FetchError::Other(Error::new(ErrorKind::Unavailable, words)));
                }
                progress = self.wait(progress);
            }
        };
        progress.handed_out += 1;
        progress.bytes -= part.len();
        self.changed.notify_all();
        bytes.map(Some)
    }

    /// Requests parts until all are requested.
    fn request_in_advance(&self) {
        let _end = EndOnDrop { reader: self, is_consumer: false };
        let mut progress = lock(&self.progress);
        while !progress.is_over {
            let at = progress.requested;
            let Some(part) = self.parts.get(at) else { return };
            let has_room = progress.bytes + part.len() <= MAX_AHEAD_BYTES;
            if !has_room && at != progress.handed_out {
                progress = self.wait(progress);
                continue;
            }
            progress.requested += 1;
            progress.bytes += part.len();
            drop(progress);
            let bytes = self.request(part);
            progress = lock(&self.progress);
            progress.arrived.insert(at, bytes);
            self.changed.notify_all();
        }
    }

    fn wait<'p>(&self, progress: MutexGuard<'p, PartProgress>) -> MutexGuard<'p, PartProgress> {
        self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self, part: &ObjectPart) -> Result<Bytes, FetchError> {
        let object = self.name.object_key(&part.key);
        let found = self.bucket.get_range(&object, part.range.clone()).map_err(FetchError::Other)?;
        found.ok_or_else(|| {
            let words = format!(
                "'{}': {object} is missing from the bucket, but its head names it",
                self.name.as_str()
            );
            FetchError::Missing(Error::damaged(words))
        })
    }
}
