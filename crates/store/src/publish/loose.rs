use std::io::ErrorKind;
use std::path::Path;

use packrace_os::count::Role;
use packrace_os::durable;

use super::{WritePolicy, dir_of};
use crate::error::Error;

/// How often a directory is made anew.
const MAX_DIR_LOST: usize = 100;

/// Removes a loose object, and its directory if that is then empty.
pub fn remove_loose(path: &Path) -> Result<(), Error> {
    durable::remove_file(path, Role::Objects).map_err(|error| Error::io(path, error))?;
    let dir = dir_of(path);
    durable::remove_empty_dir(dir, Role::Objects).map_err(|error| Error::io(dir, error))
}

/// Makes a directory of loose objects, if it is missing.
pub(crate) fn make_fan_out(dir: &Path, policy: WritePolicy) -> Result<(), Error> {
    match durable::make_dir(dir, |mode| policy.dir_mode(mode), Role::Objects) {
        // Already removed again.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        made => made.map(drop).map_err(|error| Error::io(dir, error)),
    }
}

/// Does something in a directory of loose objects, which is made if it is missing. A concurrent repack removes empty
/// directories (`git prune-packed`), even one just made: then it is made anew.
pub(crate) fn in_fan_out<T>(
    dir: &Path,
    policy: WritePolicy,
    mut act: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    for _ in 0..MAX_DIR_LOST {
        match act() {
            Err(error) if error.is_not_found() => make_fan_out(dir, policy)?,
            result => return result,
        }
    }
    act()
}
