//! Deletes objects of a repository that its head does not name.
//!
//! ```text
//! list ─ read the head ─ a new head: floor is raised to it, dropped says what nobody names ─ swap ─ delete what was dropped before
//! ```
//!
//! No clock says what may go. A writer uploads its object first, and names it later: it may sleep in between for as long as it
//! likes. But a head names no object of a generation below its floor that the head before did not name. So once the floor is raised,
//! what is below it and has no name gets none, and whoever wakes up uploads again under a new key. What has just lost its name
//! stays until the next collection, for nodes that have read an older head and fetch what it names.

use std::collections::HashSet;
use std::ops::ControlFlow;

use packrace_format::head::{FilePlace, Head, ObjectKey};

use crate::bucket::Bucket;
use crate::commit::{MAX_ATTEMPTS, pause};
use crate::error::{Error, ErrorKind};
use crate::layout::BucketName;
use crate::repository::{ReadHead, Swapped, next_head, read_head};

/// Entries of a head's list (docs/formats/head.md). What comes beyond waits for the next time.
const MAX_DROPPED: usize = 4096;

/// What becomes of objects that have just lost their name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// They stay until the next collection.
    UntilNext,
    /// None: they go. Whoever fetches one of them reads the head again, once.
    Nothing,
}

/// What became of objects without a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// So many were deleted.
    pub deleted: usize,
    /// So many go at the next collection.
    pub waiting: usize,
}

/// What is to be done with a repository.
struct CollectionPlan {
    read: ReadHead,
    /// Below the next floor, and without a name.
    deleted: Vec<ObjectKey>,
    waiting: Vec<ObjectKey>,
}

/// Deletes objects of a repository that its head does not name.
pub fn collect(bucket: &Bucket, name: &BucketName, grace: Grace) -> Result<Collected, Error> {
    let listed = list(bucket, name)?;
    for attempt in 0..MAX_ATTEMPTS {
        if attempt > 0 {
            pause(bucket, attempt);
        }
        let CollectionPlan { read, deleted, waiting } = plan(bucket, name, grace, &listed)?;
        if deleted.is_empty() && waiting.is_empty() && read.head.dropped.is_empty() {
            return Ok(Collected::default());
        }
        let collected = Collected { deleted: deleted.len(), waiting: waiting.len() };
        let (_, head) = next_head(&read.head)?;
        let head = Head { floor: head.generation, dropped: waiting, ..head };
        match read.basis().swap(bucket, name, head)? {
            Swapped::Won(_) => {
                for key in &deleted {
                    bucket.delete(&name.object_key(key))?;
                }
                return Ok(collected);
            }
            Swapped::Lost => {}
            // Nothing was deleted, and the next collection finds all of it.
            Swapped::Unknown(error) => return Err(error),
        }
    }
    let words = format!("'{}' is changed too often by other nodes; try again later", name.as_str());
    Err(Error::new(ErrorKind::Unavailable, words))
}

/// What [`collect`] would do. Changes nothing.
pub fn would_collect(bucket: &Bucket, name: &BucketName, grace: Grace) -> Result<Collected, Error> {
    let CollectionPlan { deleted, waiting, .. } = plan(bucket, name, grace, &list(bucket, name)?)?;
    Ok(Collected { deleted: deleted.len(), waiting: waiting.len() })
}

/// The objects of a repository. What comes after this is left to the next collection.
fn list(bucket: &Bucket, name: &BucketName) -> Result<Vec<ObjectKey>, Error> {
    let mut listed = Vec::new();
    bucket.list(&name.object_prefix(), &mut |key| {
        listed.extend(name.of_object_key(key));
        ControlFlow::Continue(())
    })?;
    Ok(listed)
}

/// What of the listed objects the newest head does not name.
fn plan(
    bucket: &Bucket,
    name: &BucketName,
    grace: Grace,
    listed: &[ObjectKey],
) -> Result<CollectionPlan, Error> {
    let absent = || Error::new(ErrorKind::Absent, format!("'{}' is not in the bucket", name.as_str()));
    let read = read_head(bucket, name, None)?.ok_or_else(absent)?;
    let head = &read.head;
    let named: HashSet<ObjectKey> = names(head).collect();
    // Those of a write that is under way now may have the next generation.
    let nameless = listed.iter().filter(|key| key.generation <= head.generation && !named.contains(key));
    let dropped: HashSet<&ObjectKey> = head.dropped.iter().collect();
    let (deleted, mut waiting): (Vec<ObjectKey>, Vec<_>) =
        nameless.partition(|key| grace == Grace::Nothing || dropped.contains(key));
    waiting.truncate(MAX_DROPPED);
    Ok(CollectionPlan { read, deleted, waiting })
}

/// The objects in which the files of a head lie.
fn names(head: &Head) -> impl Iterator<Item = ObjectKey> {
    let packs = head.packs.iter().flat_map(|pack| pack.files.iter().map(|(_, file)| file));
    let files = packs.chain(head.tables.iter().map(|table| &table.file));
    files.filter_map(|file| match &file.place {
        FilePlace::Object { key, .. } => Some(*key),
        FilePlace::Inline(_) => None,
    })
}
