//! Where an object is stored, as far as this decides whether a pack needs it (git-pack-objects, "--local",
//! "--incremental", "--honor-pack-keep").

use packrace_object::oid;

use crate::error::Error;
use crate::objects::pack::Pack;
use crate::objects::snapshot::Snapshot;

impl Snapshot {
    /// Every pack that holds the object, in the repository and its alternates, in search order.
    pub fn packs_with(&self, id: &oid) -> impl Iterator<Item = &Pack> {
        self.packs().iter().filter(move |pack| pack.index().position_of(id).is_some())
    }

    /// Whether an alternate has the object, in a pack or loose.
    pub fn is_borrowed(&self, id: &oid) -> Result<bool, Error> {
        if self.packs_with(id).any(|pack| !pack.is_local()) {
            return Ok(true);
        }
        self.alternate_has_loose(id)
    }
}
