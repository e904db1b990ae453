//! Removes loose objects that are also in a pack (git-prune-packed).

use packrace_store::publish::remove_loose;

use crate::error::Error;
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::RequestObjects;

/// Values of the first byte of an id; each has a directory of loose objects.
const DIRECTORIES: u64 = 256;

/// Removes the repository's own loose objects that have a packed copy in `request_objects`, which must be
/// created after the packs were written and deleted.
pub fn prune_packed(request_objects: &RequestObjects, progress: &dyn ProgressSink) -> Result<(), Error> {
    let snapshot = request_objects.snapshot();
    progress.report(Phase::RemovingDuplicates, 0, DIRECTORIES);
    for id in snapshot.own_loose()? {
        progress.report(Phase::RemovingDuplicates, u64::from(id.as_bytes()[0]), DIRECTORIES);
        if snapshot.lookup(&id).is_some() {
            remove_loose(&snapshot.own_loose_path(&id))?;
        }
    }
    progress.report(Phase::RemovingDuplicates, DIRECTORIES, DIRECTORIES);
    Ok(())
}
