//! Objects of the repository that a pack builds on.

use std::sync::Arc;

use packrace_object::{ObjectId, object_id};
use packrace_store::{Object, ObjectReader, Snapshot};

use super::error::IngestReason;

/// Reads objects of the repository and compares them with their names. zlib's checksum covers neither the kind of an object
/// nor the base of a delta, and what is made from a wrong base gets a wrong name.
pub(super) struct ExistingReader {
    snapshot: Arc<Snapshot>,
    reader: ObjectReader,
    cache_bytes: usize,
}

impl ExistingReader {
    pub(super) fn new(snapshot: &Arc<Snapshot>, cache_bytes: usize) -> Self {
        ExistingReader { snapshot: snapshot.clone(), reader: snapshot.reader(cache_bytes), cache_bytes }
    }

    /// Reads an object, or another copy of it if it is damaged.
    pub(super) fn read(&mut self, id: &ObjectId) -> Result<Object, IngestReason> {
        let object = self.reader.read(id)?;
        if is_named(&object, id) {
            return Ok(object);
        }
        let object = self.snapshot.reader(self.cache_bytes).checking_crcs().read(id)?;
        if is_named(&object, id) { Ok(object) } else { Err(IngestReason::CorruptBase(*id)) }
    }
}

fn is_named(object: &Object, id: &ObjectId) -> bool {
    object_id(id.kind(), object.kind, &object.data).is_ok_and(|found| found == *id)
}
