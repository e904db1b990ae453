//! Which refs are left out because their objects are missing (`GIT_REF_PARANOIA=0`).

use packrace_object::oid;

use crate::error::Error;
use crate::refs::{RefObjects as _, StoredObjects};
use crate::repository::Repository;

/// Leaves out refs to missing objects. Only a user who asks for it has it; for others, no object is looked up.
pub struct SkippedRefs(Option<StoredObjects>);

impl SkippedRefs {
    /// For refs that were read before, so that no object is missed that arrived with one of them.
    pub fn of(repository: &Repository) -> Result<Self, Error> {
        if !repository.skips_broken_refs() {
            return Ok(SkippedRefs(None));
        }
        Ok(SkippedRefs(Some(StoredObjects::new(&repository.snapshot()?))))
    }

    /// Whether a ref is left out, which is reported.
    pub fn has(&mut self, name: &[u8], id: &oid) -> Result<bool, Error> {
        let Some(objects) = &mut self.0 else { return Ok(false) };
        let is_missing = objects.kind(id)?.is_none();
        if is_missing {
            tracing::error!("{} does not point to a valid object!", String::from_utf8_lossy(name));
        }
        Ok(is_missing)
    }
}
