//! The files of a stack: tables and their list, written whole and made durable.

use std::path::Path;

use packrace_format::reftable::TableName;
use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};

use super::super::RefError;
use super::RefWrites;
use crate::publish::LockFile;

/// Writes a table whole, names it, and makes both durable, regardless of configuration: one broken or missing
/// table makes the whole stack unreadable. Only for a copy ([`RefWrites::of_copy`]) nothing is synced.
pub(super) fn write_table(
    dir: &Path,
    name: &TableName,
    writes: &RefWrites,
    fill: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), RefError>,
) -> Result<(), RefError> {
    let path = dir.join(name.to_string());
    let io = |source| RefError::Io { path: path.clone(), source };
    let mut file = NewFile::create_temporary(dir, &format!("{name}.temp."), 0o666, Role::Refs).map_err(io)?;
    let policy = if writes.tables.synced { writes.policy.of_rewrites() } else { writes.policy };
    policy.prepare(&mut file).map_err(io)?;
    let mut result = Ok(());
    fill(&mut |bytes: &[u8]| {
        if result.is_ok() {
            result = file.write(bytes);
        }
    })?;
    result.map_err(io)?;
    if !writes.tables.synced {
        file.flush().map_err(io)?;
        return file.replace(&path).map_err(io);
    }
    file.sync().map_err(io)?;
    file.replace(&path).map_err(io)?;
    sync_dir(dir).inspect_err(|_| {
        // Nothing refers to the table; the first error is reported.
        let _ = durable::remove_file(&path, Role::Refs);
    })
}

/// Replaces a locked list, in a directory that the caller makes durable.
pub(super) fn publish_list(mut lock: LockFile, dir: &Path, list: &[u8]) -> Result<(), RefError> {
    lock.write(list).and_then(|()| lock.settle())?;
    lock.rename().map_err(|source| RefError::Io { path: dir.join("tables.list"), source })
}

/// Makes the names in the directory of a stack durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), RefError> {
    durable::sync_dir(dir, Role::Refs).map_err(|source| RefError::Io { path: dir.to_owned(), source })
}

pub(super) fn failed(error: impl std::fmt::Display) -> RefError {
    RefError::Write(error.to_string())
}
