//! Loose objects that are in a pack too (git-prune-packed).

use packrace_store::publish::remove_loose;

use crate::error::Error;
use crate::universe::Universe;
use crate::watch::{Phase, Watch};

/// Values of the first byte of a name, one a directory of loose objects.
const DIRECTORIES: u64 = 256;

/// Removes the repository's own loose objects of which `universe`, made after the packs were written and deleted, knows
/// a packed copy.
pub fn prune_packed(universe: &Universe, watch: &dyn Watch) -> Result<(), Error> {
    let snapshot = universe.snapshot();
    watch.progress(Phase::RemovingDuplicates, 0, DIRECTORIES);
    for id in snapshot.own_loose()? {
        watch.progress(Phase::RemovingDuplicates, u64::from(id.as_bytes()[0]), DIRECTORIES);
        if snapshot.lookup(&id).is_some() {
            remove_loose(&snapshot.own_loose_path(&id))?;
        }
    }
    watch.progress(Phase::RemovingDuplicates, DIRECTORIES, DIRECTORIES);
    Ok(())
}
