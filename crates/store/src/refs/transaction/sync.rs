//! Syncs directories that other processes create and remove.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use packrace_os::count::Role;
use packrace_os::durable::{self, ToSync};
use packrace_os::is_absent;

use super::super::RefError;

/// Makes the names in a directory durable. If it was removed meanwhile, syncs its nearest existing parent
/// instead, which makes the removal durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), RefError> {
    match (durable::sync_dir(dir, Role::Refs), dir.parent()) {
        (Err(error), Some(parent)) if is_absent(&error) => sync_dir(parent),
        (result, _) => result.map_err(|source| RefError::Io { path: dir.to_owned(), source }),
    }
}

/// Makes a file and the names in directories durable, in one wait.
pub(super) fn sync_all(file: Option<&Path>, dirs: &BTreeSet<PathBuf>) -> Result<(), RefError> {
    let dirs_to_sync = dirs.iter().map(|dir| ToSync::Dir(dir));
    let to_sync = file.into_iter().map(ToSync::File).chain(dirs_to_sync).collect();
    match durable::sync_together(to_sync, Role::Refs) {
        // A directory was removed meanwhile, and nothing else failed.
        Err(failed) if is_absent(&failed.source) => dirs.iter().try_for_each(|dir| sync_dir(dir)),
        result => result.map_err(|failed| RefError::Io { path: failed.path, source: failed.source }),
    }
}
