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

    /// Where the chain of a tag ends.
    pub fn end_of(&mut self, id: &oid) -> Result<TagEnd, Error> {
        match self.kind(id)? {
            None => Ok(TagEnd::Unreadable),
            Some(Kind::Tag) => TagEnd::of_tag(&mut self.reader, id.to_owned()),
            Some(_) => Ok(TagEnd::NotATag),
        }
    }
}

impl RefObjects for StoredObjects {
    fn kind(&mut self, id: &oid) -> Result<Option<Kind>, Error> {
        if let Some((last, kind)) = &self.last
            && **last == *id
        {
            return Ok(Some(*kind));
        }
        let found = self.reader.kind_of_whole(id)?;
        if let Some(kind) = found {
            self.last = Some((id.to_owned(), kind));
        }
        Ok(found)
    }

    fn peel(&mut self, id: &oid) -> Result<Peeled, Error> {
        Ok(match self.end_of(id)? {
            TagEnd::NotATag => Peeled::NotATag,
            TagEnd::At(id, _) => Peeled::To(id),
            TagEnd::Missing(_) | TagEnd::Mistold { .. } | TagEnd::Unreadable => Peeled::Unknown,
        })
    }
}

/// Where the chain of an annotated tag ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagEnd {
    /// The object is no tag.
    NotATag,
    /// At this object, of this kind.
    At(ObjectId, Kind),
    /// At this one, which does not exist.
    Missing(ObjectId),
    /// A tag names another kind than that of its target.
    Mistold {
        /// The tag.
        tag: ObjectId,
        /// What it names.
        told: Kind,
        /// The target.
        target: ObjectId,
        /// Its kind.
        kind: Kind,
    },
    /// The object or a tag is missing or damaged, or there are too many tags.
    Unreadable,
}

impl TagEnd {
    /// Follows the tag `id`.
    pub fn of_tag(reader: &mut ObjectReader, id: ObjectId) -> Result<Self, Error> {
        let mut tag = id;
        for _ in 1..MAX_TAG_DEPTH {
            let Ok(parsed) = parse_tag(&reader.read(&tag)?.data, id.kind()) else {
                return Ok(TagEnd::Unreadable);
            };
            let (target, told) = (parsed.target, parsed.target_kind);
            match reader.kind_and_size(&target)?.map(|(kind, _)| kind) {
                None if told == Kind::Tag => return Ok(TagEnd::Unreadable),
                None => return Ok(TagEnd::Missing(target)),
                Some(kind) if kind != told => return Ok(TagEnd::Mistold { tag, told, target, kind }),
                Some(Kind::Tag) => tag = target,
                Some(kind) => return Ok(TagEnd::At(target, kind)),
            }
        }
        Ok(TagEnd::Unreadable)
    }

    /// Tells of a tag that names another kind than that of its target.
    pub fn report(&self) {
        if let TagEnd::Mistold { tag, told, target, kind } = self {
            tracing::error!("object {target} is a {kind}, not a {told}");
            tracing::error!("bad tag pointer to {target} in {tag}");
        }
    }

    /// The object that lists of refs show as that of the tag. As in git, it need not exist.
    pub fn shown(&self) -> Option<ObjectId> {
        match self {
            TagEnd::At(id, _) | TagEnd::Missing(id) => Some(*id),
            TagEnd::NotATag | TagEnd::Mistold { .. } | TagEnd::Unreadable => None,
        }
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
