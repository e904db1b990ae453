//! Promised objects (technical/partial-clone): the repository lacks them, and objects in promisor packs refer
//! to them.

use packrace_store::cache_bytes;
use std::collections::HashSet;
use std::sync::Arc;

use packrace_object::tree::Entries;
use packrace_object::{Kind, ObjectId, oid, parse_commit, parse_tag};

use crate::error::{Error, Reason};
use crate::progress::ProgressSink;
use crate::request_objects::{ObjectNo, RequestObjects};

/// Objects read between two checks for cancellation.
const OBJECTS_BETWEEN_LOOKS: usize = 1024;

impl RequestObjects {
    /// Whether a promisor remote has promised this object. The first call reads every commit, tree and tag in
    /// promisor packs and keeps the id of each missing object.
    pub fn is_promised(&self, id: &oid, progress: &dyn ProgressSink) -> Result<bool, Error> {
        let mut promised = self.promised.lock().expect("no panic while held");
        if promised.is_none() {
            *promised = Some(Arc::new(find(self, progress)?));
        }
        Ok(promised.as_ref().is_some_and(|promised| promised.contains(id)))
    }
}

/// Missing objects that objects of promisor packs refer to.
fn find(request_objects: &RequestObjects, progress: &dyn ProgressSink) -> Result<HashSet<ObjectId>, Error> {
    let snapshot = request_objects.snapshot();
    let mut promised = HashSet::new();
    if !snapshot.packs().iter().any(|pack| pack.is_promisor()) {
        return Ok(promised);
    }
    // In pack order: adjacent entries are often deltas of each other.
    let located = snapshot.packed().map(|ix| (snapshot.locate(ix), ix.0));
    let mut entries: Vec<_> = located
        .filter(|(at, _)| {
            let pack = &snapshot.packs()[at.pack.0 as usize];
            pack.is_promisor() && pack.is_usable()
        })
        .map(|(at, ix)| (at.pack.0, at.offset, ix))
        .collect();
    entries.sort_unstable();
    let mut reader = snapshot.reader(cache_bytes::WHOLE_HISTORY);
    let mut content = Vec::new();
    let hash = request_objects.hash();
    for (count, (_, _, ix)) in entries.into_iter().enumerate() {
        if count.is_multiple_of(OBJECTS_BETWEEN_LOOKS) && progress.cancelled() {
            return Err(Reason::Cancelled.into());
        }
        let kind = request_objects.kind(&mut reader, ObjectNo(ix))?;
        if kind == Kind::Blob {
            continue;
        }
        request_objects.read(&mut reader, ObjectNo(ix), &mut content)?;
        let malformed = |source| Reason::Malformed { id: request_objects.id(ObjectNo(ix)), source };
        let mut add = |id: &oid| {
            if request_objects.find(id)?.is_none() {
                promised.insert(id.to_owned());
            }
            Ok::<_, Error>(())
        };
        match kind {
            Kind::Commit => {
                let commit = parse_commit(&content, hash).map_err(malformed)?;
                add(&commit.tree)?;
                commit.parents.iter().try_for_each(|parent| add(parent))?;
            }
            Kind::Tag => add(&parse_tag(&content, hash).map_err(malformed)?.target)?,
            Kind::Tree => {
                for entry in Entries::new(&content, hash) {
                    add(entry.map_err(malformed)?.id)?;
                }
            }
            Kind::Blob => {}
        }
    }
    Ok(promised)
}
