//! Where an object is stored, as far as this decides whether a pack needs it (git-pack-objects, "--local").

use packrace_object::oid;

use crate::error::Error;
use crate::objects::pack::Pack;
use crate::objects::snapshot::Snapshot;

impl Snapshot {
    /// Whether one of these packs holds the object. The indexes of others are not searched.
    pub fn is_in_pack(&self, id: &oid, is_one: impl Fn(&Pack) -> bool) -> bool {
        self.packs().iter().any(|pack| is_one(pack) && pack.index().position_of(id).is_some())
    }

    /// Whether an alternate has the object, in a pack or loose.
    pub fn is_borrowed(&self, id: &oid) -> Result<bool, Error> {
        if self.is_in_pack(id, |pack| !pack.is_local()) {
            return Ok(true);
        }
        self.alternate_has_loose(id)
    }
}
