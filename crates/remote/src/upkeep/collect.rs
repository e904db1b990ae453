//! Collects objects that the head of their repository does not name.
//!
//! ```text
//! list ─ read the head ─ new head: floor = its own generation, dropped = unnamed objects ─ swap
//!      ─ delete the unnamed objects that an earlier collection had dropped
//! ```
//!
//! No clock decides. A writer uploads its object first and names it later; it may sleep in between for any
//! time. But no head names an object of a generation below its floor unless the previous head named it. So
//! once the floor is raised, an unnamed object below it stays unnamed, and a writer that wakes up uploads it
//! again under a new key. An object that has just lost its name stays until the next collection, for nodes
//! that have read an older head and are fetching it.

use std::collections::HashSet;
use std::ops::ControlFlow;

use packrace_format::head::{FilePlace, Head, ObjectKey};

use crate::bucket::Bucket;
use crate::commit::{MAX_ATTEMPTS, pause};
use crate::error::{Error, ErrorKind};
use crate::layout::BucketName;
use crate::repository::{ReadHead, Swapped, next_head, read_head};

/// Limit of the head's list (docs/formats/head.md). Further objects wait for the next collection.
const MAX_DROPPED: usize = 4096;

/// What happens to objects that have just lost their name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// They stay until the next collection.
    UntilNext,
    /// They are deleted. A node that is fetching one rereads the head.
    Nothing,
}

/// The result of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// Objects deleted.
    pub deleted: usize,
    /// Objects that the next collection deletes.
    pub waiting: usize,
}

/// The plan for a repository.
struct CollectionPlan {
    read: ReadHead,
    /// Unnamed objects below the next floor.
    deleted: Vec<ObjectKey>,
    waiting: Vec<ObjectKey>,
}

/// Collects the objects of a repository that its head does not name.
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
            // Nothing was deleted; the next collection finds all of it.
            Swapped::Unknown(error) => return Err(error),
        }
    }
    let words = format!("'{}' is changed too often by other nodes; try again later", name.as_str());
    Err(Error::new(ErrorKind::Unavailable, words))
}

/// The result that [`collect`] would have. Changes nothing.
pub fn would_collect(bucket: &Bucket, name: &BucketName, grace: Grace) -> Result<Collected, Error> {
    let CollectionPlan { deleted, waiting, .. } = plan(bucket, name, grace, &list(bucket, name)?)?;
    Ok(Collected { deleted: deleted.len(), waiting: waiting.len() })
}

/// Lists the objects of a repository. Objects that arrive later are left to the next collection.
fn list(bucket: &Bucket, name: &BucketName) -> Result<Vec<ObjectKey>, Error> {
    let mut listed = Vec::new();
    bucket.list(&name.object_prefix(), &mut |key| {
        listed.extend(name.of_object_key(key));
        ControlFlow::Continue(())
    })?;
    Ok(listed)
}

/// Finds the listed objects that the newest head does not name.
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
    // Objects of writes in progress may have the next generation.
    let nameless = listed.iter().filter(|key| key.generation <= head.generation && !named.contains(key));
    let dropped: HashSet<&ObjectKey> = head.dropped.iter().collect();
    let (deleted, mut waiting): (Vec<ObjectKey>, Vec<_>) =
        nameless.partition(|key| grace == Grace::Nothing || dropped.contains(key));
    waiting.truncate(MAX_DROPPED);
    Ok(CollectionPlan { read, deleted, waiting })
}

/// The objects that contain the files of a head.
fn names(head: &Head) -> impl Iterator<Item = ObjectKey> {
    let packs = head.packs.iter().flat_map(|pack| pack.files.iter().map(|(_, file)| file));
    let files = packs.chain(head.tables.iter().map(|table| &table.file));
    files.filter_map(|file| match &file.place {
        FilePlace::Object { key, .. } => Some(*key),
        FilePlace::Inline(_) => None,
    })
}
