//! The directories of loose refs and reflogs.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_os::count::Role;
use packrace_os::{EntryType, durable, is_absent};

use super::super::RefError;
use crate::publish::LockFile;

/// Removes a tree of empty directories, or a tree with its files.
pub(in crate::refs) fn remove_tree(path: &Path, with_files: bool) -> Result<(), RefError> {
    let io = |source| RefError::Io { path: path.to_owned(), source };
    let entries = match packrace_os::list_dir(path, Role::Refs) {
        Err(error) if is_absent(&error) => return Ok(()),
        result => result.map_err(io)?,
    };
    for entry in entries {
        let below = path.join(&entry.name);
        match entry.kind {
            EntryType::Dir => remove_tree(&below, with_files)?,
            _ if with_files => drop(durable::remove_file(&below, Role::Refs).map_err(io)?),
            _ => {}
        }
    }
    durable::remove_empty_dir(path, Role::Refs).map_err(io)
}

/// Removes reflogs and directories in the way of a new reflog below `logs`, and says whether there were any. The ref's name
/// is available, so they belong to deleted refs and were left by a kill or a crash. Git keeps them and cannot create such
/// a ref. Files in place of `logs/refs/heads` and the like belong to no ref, and stay.
pub(super) fn clear_way(logs: &Path, path: &Path) -> Result<bool, RefError> {
    let is_log = |above: &&Path| above.strip_prefix(logs).is_ok_and(|name| name.components().count() > 2);
    for above in path.ancestors().skip(1).take_while(is_log) {
        let io = |source| RefError::Io { path: above.to_owned(), source };
        if packrace_os::identity(above, Role::Refs).map_err(io)?.is_some_and(|file| file.is_file) {
            return durable::remove_file(above, Role::Refs).map_err(io);
        }
    }
    let is_in_the_way = is_dir(path);
    remove_tree(path, true)?;
    Ok(is_in_the_way)
}

/// Whether this is a directory, or a link to one.
pub(super) fn is_dir(path: &Path) -> bool {
    packrace_os::identity(path, Role::Refs).is_ok_and(|file| file.is_some_and(|file| file.is_dir))
}

/// Removes empty directories where a ref gets its file.
pub(super) fn make_way(path: &Path, name: &[u8]) -> Result<(), RefError> {
    if !is_dir(path) {
        return Ok(());
    }
    remove_tree(path, false)?;
    match is_dir(path) {
        true => Err(RefError::Conflict(format!("couldn't set '{}'", String::from_utf8_lossy(name)))),
        false => Ok(()),
    }
}

/// Renames a lock to its ref.
pub(super) fn rename(lock: LockFile, path: &Path, name: &[u8]) -> Result<(), RefError> {
    make_way(path, name)?;
    lock.rename().map_err(|source| RefError::Io { path: path.to_owned(), source })
}

/// Removes the empty directories above a removed ref or log, except `refs/heads` and the like.
/// Leftovers do no harm.
pub(super) fn remove_empty_parents(top: &Path, name: &[u8]) {
    let least = if name.starts_with(b"logs/") { 3 } else { 2 };
    let mut parts: Vec<&[u8]> = name.split(|byte| *byte == b'/').collect();
    while parts.len() > least + 1 {
        parts.pop();
        let dir = top.join(OsStr::from_bytes(&parts.join(&b'/')));
        let is_empty = packrace_os::list_dir(&dir, Role::Refs).is_ok_and(|entries| entries.is_empty());
        if !is_empty || durable::remove_empty_dir(&dir, Role::Refs).is_err() {
            return;
        }
    }
}

/// The first file below a directory that can be a ref.
pub(super) fn first_file(dir: &Path, prefix: &[u8]) -> Result<Option<Vec<u8>>, RefError> {
    let mut entries = match packrace_os::list_dir(dir, Role::Refs) {
        Err(error) if is_absent(&error) || error.kind() == ErrorKind::NotADirectory => return Ok(None),
        result => result.map_err(|source| RefError::Io { path: dir.to_owned(), source })?,
    };
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    for entry in entries {
        let bytes = entry.name.as_bytes();
        if bytes.starts_with(b".") || bytes.ends_with(b".lock") {
            continue;
        }
        let name = [prefix, bytes].concat();
        if entry.kind != EntryType::Dir {
            return Ok(Some(name));
        }
        if let Some(found) = first_file(&dir.join(&entry.name), &[&name, b"/".as_slice()].concat())? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Directory listings, so that looking up many files costs one call per directory.
#[derive(Debug, Default)]
pub(super) struct Listings(HashMap<PathBuf, HashSet<OsString>>);

impl Listings {
    /// Whether a file or directory exists.
    pub(super) fn has(&mut self, path: &Path) -> Result<bool, RefError> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Ok(false) };
        if let Some(names) = self.0.get(dir) {
            return Ok(names.contains(name));
        }
        let names = match packrace_os::list_dir(dir, Role::Refs) {
            Ok(entries) => entries.into_iter().map(|entry| entry.name).collect(),
            Err(error) if is_absent(&error) || error.kind() == ErrorKind::NotADirectory => HashSet::new(),
            Err(source) => return Err(RefError::Io { path: dir.to_owned(), source }),
        };
        let names = self.0.entry(dir.to_owned()).or_insert(names);
        Ok(names.contains(name))
    }
}
