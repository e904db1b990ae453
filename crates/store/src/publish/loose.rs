use std::path::Path;

use packrace_os::count::Role;
use packrace_os::durable;

use super::dir_of;
use crate::error::Error;

/// Removes a loose object, and its directory if that is then empty.
pub fn remove_loose(path: &Path) -> Result<(), Error> {
    durable::remove_file(path, Role::Objects).map_err(|error| Error::io(path, error))?;
    let dir = dir_of(path);
    durable::remove_empty_dir(dir, Role::Objects).map_err(|error| Error::io(dir, error))
}
