//! Entries of stored packs: their offsets, headers and delta bases.

use packrace_format::pack::{self, EntryKind};
use packrace_store::PackIx;

use crate::error::{Error, Reason};
use crate::request_objects::{ObjectNo, RequestObjects};

/// A stored entry with its parsed header; its range is within the pack's bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredEntry {
    pub(crate) pack: PackIx,
    /// The place among the entries of the pack.
    pub(crate) position: u32,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) header: pack::EntryHeader,
}

impl StoredEntry {
    /// The entry at this position of a pack.
    pub(crate) fn at(request_objects: &RequestObjects, pack: PackIx, position: u32) -> Result<Self, Error> {
        let stored = &request_objects.snapshot().packs()[pack.0 as usize];
        let (start, end) = stored.entry_range(position);
        let bounds = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let bytes = bounds.and_then(|(start, end)| Some((start, end, stored.bytes().get(start..end)?)));
        let Some((start, end, bytes)) = bytes else {
            return Err(damaged(
                request_objects,
                pack,
                start,
                "the entry reaches beyond the end of the pack",
            ));
        };
        let header = pack::parse_entry_header(bytes, request_objects.hash())
            .map_err(|error| damaged(request_objects, pack, start as u64, error.what))?;
        Ok(StoredEntry { pack, position, start, end, header })
    }

    pub(crate) fn is_delta(&self) -> bool {
        !matches!(self.header.kind, EntryKind::Object(_))
    }

    /// Where the entry's data begins, after the header.
    pub(crate) fn body_at(&self) -> usize {
        self.start + self.header.length
    }

    /// The object.
    pub(crate) fn ix(&self, request_objects: &RequestObjects) -> Result<ObjectNo, Error> {
        let ix = request_objects.snapshot().ix_of_offset(self.pack, self.start as u64);
        Ok(ObjectNo(ix.ok_or_else(|| self.damaged(request_objects, "the entry is not in the index"))?.0))
    }

    /// The offset of the base of a delta with this distance.
    pub(crate) fn base_offset(&self, request_objects: &RequestObjects, distance: u64) -> Result<u64, Error> {
        let start = self.start as u64;
        let base = start.checked_sub(distance).filter(|base| *base < start);
        base.ok_or_else(|| self.damaged(request_objects, "delta base offset is out of bound"))
    }

    /// The object whose entry begins at this offset, the base of this entry.
    pub(crate) fn base_at(&self, request_objects: &RequestObjects, offset: u64) -> Result<ObjectNo, Error> {
        let base = request_objects.snapshot().ix_of_offset(self.pack, offset);
        Ok(ObjectNo(base.ok_or_else(|| self.damaged(request_objects, "delta base is not in the index"))?.0))
    }

    /// The delta base; `None` for a whole object, or if a base given by id does not exist here.
    pub(crate) fn base(&self, request_objects: &RequestObjects) -> Result<Option<ObjectNo>, Error> {
        match self.header.kind {
            EntryKind::Object(_) => Ok(None),
            EntryKind::OfsDelta { distance } => {
                self.base_at(request_objects, self.base_offset(request_objects, distance)?).map(Some)
            }
            EntryKind::RefDelta { base } => request_objects.find(&base),
        }
    }

    fn damaged(&self, request_objects: &RequestObjects, what: &str) -> Error {
        damaged(request_objects, self.pack, self.start as u64, what)
    }
}

fn damaged(request_objects: &RequestObjects, pack: PackIx, offset: u64, what: &str) -> Error {
    let pack = request_objects.snapshot().packs()[pack.0 as usize].name().to_string();
    Reason::DamagedEntry { pack, offset, what: what.to_owned() }.into()
}
