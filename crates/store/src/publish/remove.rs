use std::path::Path;

use packrace_os::count::Role;
use packrace_os::durable;

use super::with_extension;
use crate::error::Error;

/// The order in which stock git removes them. Without the index nobody finds the pack any more; what says that a pack is
/// special goes after it, so that no reader takes it for an ordinary one.
const EXTENSIONS: [&str; 7] = ["idx", "pack", "rev", "keep", "bitmap", "promisor", "mtimes"];

/// Removes a pack: all files that begin with `stem`. Leaves one alone that has a `.keep`, and gives false.
///
/// A reader that has mapped the files reads on; one that is just opening them looks for packs again. Callers have
/// published what replaces the pack before, and a multi-pack-index that does not name it.
pub fn remove_pack(stem: &Path) -> Result<bool, Error> {
    let keep = with_extension(stem, "keep");
    if packrace_os::identity(&keep, Role::Pack).map_err(|error| Error::io(&keep, error))?.is_some() {
        return Ok(false);
    }
    for extension in EXTENSIONS {
        let path = with_extension(stem, extension);
        durable::remove_file(&path, Role::Pack).map_err(|error| Error::io(&path, error))?;
    }
    Ok(true)
}
