use std::path::Path;

use packrace_os::DirEntry;
use packrace_os::count::Role;

use crate::error::Error;

/// The entries of a folder, which may be missing.
pub(crate) fn list(dir: &Path, role: Role) -> Result<Vec<DirEntry>, Error> {
    match packrace_os::list_dir(dir, role) {
        Ok(entries) => Ok(entries),
        Err(error) if packrace_os::is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(Error::file(dir, error)),
    }
}
