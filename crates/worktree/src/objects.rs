//! The objects of a repository and new objects in memory, with the interface of `gix-object`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use gix_error::{ErrorExt as _, ResultExt as _};
use packrace_object::{HashKind, Kind, ObjectId, object_id, oid};
use packrace_store::publish::{ObjectBatch, ObjectsStored};
use packrace_store::{Object, ObjectReader, Snapshot, cache_bytes};

use crate::error::WorkError;
use crate::index::{TreeError, TreeStore};

/// The objects of a snapshot, and new ones that are only in memory.
pub struct Objects {
    hash: HashKind,
    snapshot: RefCell<Arc<Snapshot>>,
    reader: RefCell<ObjectReader>,
    made: RefCell<HashMap<ObjectId, Object>>,
}

impl Objects {
    /// The objects of a snapshot.
    pub fn new(snapshot: &Arc<Snapshot>) -> Self {
        let reader = RefCell::new(snapshot.reader(cache_bytes::WHOLE_HISTORY));
        let hash = snapshot.hash_kind();
        Objects { hash, snapshot: RefCell::new(snapshot.clone()), reader, made: RefCell::default() }
    }

    /// The hash of object names.
    pub fn hash_kind(&self) -> HashKind {
        self.hash
    }

    /// Reads an object from the snapshot or from memory.
    pub fn read(&self, id: &oid) -> Result<Object, WorkError> {
        if let Some(made) = self.made.borrow().get(id) {
            return Ok(made.clone());
        }
        Ok(self.reader.borrow_mut().read(id)?)
    }

    /// Reads an object that must have this kind.
    pub fn read_as(&self, id: &oid, kind: Kind) -> Result<Vec<u8>, WorkError> {
        let object = self.read(id)?;
        match object.kind == kind {
            true => Ok(object.data),
            false => Err(WorkError::Damaged { id: id.to_owned(), why: format!("is not a {kind}") }),
        }
    }

    /// The kind and size of an object; `None` if it does not exist.
    pub fn kind_and_size(&self, id: &oid) -> Result<Option<(Kind, u64)>, WorkError> {
        if let Some(made) = self.made.borrow().get(id) {
            return Ok(Some((made.kind, made.data.len() as u64)));
        }
        Ok(self.reader.borrow_mut().kind_and_size(id)?)
    }

    /// Adds an object in memory and returns its name.
    pub fn make(&self, kind: Kind, content: Vec<u8>) -> Result<ObjectId, WorkError> {
        let id = object_id(self.hash, kind, &content)?;
        self.made.borrow_mut().entry(id).or_insert(Object { kind, data: content });
        Ok(id)
    }

    /// Whether a missing object is fetched when it is read.
    pub fn fetches_on_read(&self) -> bool {
        self.snapshot.borrow().fetches_on_read()
    }

    /// Fetches those of these objects that a partial clone lacks, in one request.
    pub fn prefetch(&self, ids: impl IntoIterator<Item = ObjectId>) -> Result<(), packrace_store::Error> {
        let made = self.made.borrow();
        let ids = ids.into_iter().filter(|id| !made.contains_key(id));
        let fetched = self.snapshot.borrow().prefetch(ids)?;
        if let Some(later) = fetched {
            self.reader.replace(later.reader(cache_bytes::WHOLE_HISTORY));
            self.snapshot.replace(later);
        }
        Ok(())
    }

    /// Removes and returns a new object; `None` if it was not made here.
    pub fn take_made(&self, id: &oid) -> Option<Object> {
        self.made.borrow_mut().remove(id)
    }

    /// Stores what is in the batch, and all new objects.
    pub fn publish_made(&self, batch: ObjectBatch) -> Result<ObjectsStored, WorkError> {
        for (id, object) in self.made.borrow_mut().drain() {
            batch.add(&id, object.kind, &object.data)?;
        }
        Ok(batch.publish()?.stored())
    }
}

impl TreeStore for Objects {
    fn contains(&self, id: &ObjectId) -> Result<bool, TreeError> {
        Ok(self.made.borrow().contains_key(id) || self.snapshot.borrow().contains(id)?)
    }

    fn prefetch(&self, ids: &mut dyn Iterator<Item = ObjectId>) -> Result<bool, TreeError> {
        Objects::prefetch(self, ids)?;
        Ok(self.snapshot.borrow().can_fetch())
    }

    fn add_tree(&self, id: ObjectId, content: Vec<u8>) -> Result<(), TreeError> {
        self.made.borrow_mut().entry(id).or_insert(Object { kind: Kind::Tree, data: content });
        Ok(())
    }
}

impl gix_object::Find for Objects {
    fn try_find<'a>(
        &self,
        id: &oid,
        buffer: &'a mut Vec<u8>,
    ) -> gix_error::Result<Option<gix_object::Data<'a>>> {
        if self.kind_and_size(id).or_error()?.is_none() {
            return Ok(None);
        }
        let object = self.read(id).or_error()?;
        *buffer = object.data;
        Ok(Some(gix_object::Data::new(buffer, their_kind(object.kind), self.hash)))
    }
}

impl gix_object::FindHeader for Objects {
    fn try_header(&self, id: &oid) -> gix_error::Result<Option<gix_object::Header>> {
        let found = self.kind_and_size(id).map_err(|error| error.raise())?;
        Ok(found.map(|(kind, size)| gix_object::Header { kind: their_kind(kind), size }))
    }
}

fn their_kind(kind: Kind) -> gix_object::Kind {
    match kind {
        Kind::Commit => gix_object::Kind::Commit,
        Kind::Tree => gix_object::Kind::Tree,
        Kind::Blob => gix_object::Kind::Blob,
        Kind::Tag => gix_object::Kind::Tag,
    }
}
