use std::path::Path;

use packrace_os::count::Role;
use packrace_os::durable;

use super::with_extension;
use crate::error::Error;

/// Stock git's order of removal. Without its index a pack cannot be found; files that mark it as special are
/// removed later, so that no reader takes it for an ordinary one.
const EXTENSIONS: [&str; 7] = ["idx", "pack", "rev", "keep", "bitmap", "promisor", "mtimes"];

/// Removes a pack: all files with this `stem`. A pack with a `.keep` is left alone; the result is then false.
///
/// Readers that have mapped the files are not affected; readers that are opening them list packs again.
/// Callers must first have published the replacement, and a multi-pack-index that does not name the pack.
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

/// Removes the bitmap of a pack, if it has one.
pub fn remove_bitmap(stem: &Path) -> Result<(), Error> {
    let path = with_extension(stem, "bitmap");
    durable::remove_file(&path, Role::Pack).map(drop).map_err(|error| Error::io(&path, error))
}
