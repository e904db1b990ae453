//! Loose objects that are in a pack too (git-prune-packed).

use packrace_store::publish::remove_loose;

use crate::error::Error;
use crate::universe::Universe;

/// Removes the repository's own loose objects of which `universe`, made after the packs were written and deleted, knows
/// a packed copy.
pub fn prune_packed(universe: &Universe) -> Result<(), Error> {
    let snapshot = universe.snapshot();
    for id in snapshot.own_loose()? {
        if snapshot.lookup(&id).is_some() {
            remove_loose(&snapshot.own_loose_path(&id))?;
        }
    }
    Ok(())
}
