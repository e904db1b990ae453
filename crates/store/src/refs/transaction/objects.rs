use crate::objects::cache_bytes;
use std::sync::Arc;

use packrace_object::{Kind, MAX_TAG_DEPTH, ObjectId, oid, parse_tag};

use super::{Cause, PrepareError};
use crate::error::Error;
use crate::objects::reader::ObjectReader;
use crate::objects::snapshot::Snapshot;
use crate::refs::Peeled;

/// What a transaction must know about the objects of new values.
pub trait RefObjects {
    /// The kind of an object, if it exists.
    fn kind(&mut self, id: &oid) -> Result<Option<Kind>, Error>;

    /// The object that a tag finally points to; [`Peeled::Unknown`] if unreadable.
    fn peel(&mut self, id: &oid) -> Result<Peeled, Error>;
}

/// The objects of a snapshot.
pub struct StoredObjects {
    reader: ObjectReader,
    /// The last answer: many refs often point at one object.
    last: Option<(ObjectId, Kind)>,
}

impl StoredObjects {
    /// The objects of `snapshot`.
    pub fn new(snapshot: &Arc<Snapshot>) -> Self {
        StoredObjects { reader: snapshot.reader(cache_bytes::MANY_OBJECTS), last: None }
    }
}

impl RefObjects for StoredObjects {
    fn kind(&mut self, id: &oid) -> Result<Option<Kind>, Error> {
        if let Some((last, kind)) = &self.last
            && **last == *id
        {
            return Ok(Some(*kind));
        }
        let found = self.reader.kind_and_size(id)?.map(|(kind, _)| kind);
        if let Some(kind) = found {
            self.last = Some((id.to_owned(), kind));
        }
        Ok(found)
    }

    fn peel(&mut self, id: &oid) -> Result<Peeled, Error> {
        let mut at = id.to_owned();
        let mut told = None;
        for _ in 0..MAX_TAG_DEPTH {
            match (self.kind(&at)?, told) {
                (None, _) => return Ok(Peeled::Unknown),
                // The tag says another kind.
                (Some(kind), Some(told)) if kind != told => return Ok(Peeled::Unknown),
                (Some(Kind::Tag), _) => {}
                (Some(_), None) => return Ok(Peeled::NotATag),
                (Some(_), Some(_)) => return Ok(Peeled::To(at)),
            }
            let tag = self.reader.read(&at)?;
            let Ok(tag) = parse_tag(&tag.data, at.kind()) else { return Ok(Peeled::Unknown) };
            (at, told) = (tag.target, Some(tag.target_kind));
        }
        Ok(Peeled::Unknown)
    }
}

/// Whether the ref may point at the object.
pub(super) fn check(
    objects: &mut dyn RefObjects,
    name: &[u8],
    id: ObjectId,
) -> Result<Option<Cause>, PrepareError> {
    let name = || name.to_vec();
    Ok(match objects.kind(&id).map_err(PrepareError::Objects)? {
        None => Some(Cause::NoObject { name: name(), id }),
        Some(Kind::Commit) => None,
        Some(_) if name().starts_with(b"refs/heads/") || name() == b"HEAD" => {
            Some(Cause::NotACommit { name: name(), id })
        }
        Some(_) => None,
    })
}
