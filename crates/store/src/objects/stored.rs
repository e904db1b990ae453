//! The size of objects on disk (git-cat-file, "CAVEATS").

use packrace_format::pack::{EntryKind, parse_entry_header};
use packrace_object::{ObjectId, oid};
use packrace_os::count::Role;

use crate::error::Error;
use crate::objects::snapshot::Snapshot;

/// How an object is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its size on disk.
    pub bytes: u64,
    /// The base, if it is stored as a delta.
    pub base: Option<ObjectId>,
}

impl Snapshot {
    /// How an object is stored; `None` if it is not.
    pub fn stored(&self, id: &oid) -> Result<Option<Stored>, Error> {
        let id = &*self.replacement(id)?;
        let Some(ix) = self.lookup(id) else {
            for path in self.loose_paths(id) {
                let found = packrace_os::identity(&path, Role::Objects);
                if let Some(file) = found.map_err(|source| Error::io(path, source))? {
                    return Ok(Some(Stored { bytes: file.length, base: None }));
                }
            }
            return Ok(None);
        };
        let at = self.locate(ix);
        let pack = &self.packs()[at.pack.0 as usize];
        let Some(position) = pack.position_of_offset(at.offset) else { return Ok(None) };
        let (start, end) = pack.entry_range(position);
        let entry = &pack.bytes()[start as usize..end as usize];
        let base = match parse_entry_header(entry, self.hash_kind()).map(|header| header.kind) {
            Ok(EntryKind::OfsDelta { distance }) => {
                let base = start.checked_sub(distance).and_then(|offset| self.ix_of_offset(at.pack, offset));
                base.map(|base| self.id(base).to_owned())
            }
            Ok(EntryKind::RefDelta { base }) => Some(base),
            _ => None,
        };
        Ok(Some(Stored { bytes: end - start, base }))
    }
}
