//! Moves and removes files and directories.

use std::collections::BTreeSet;
use std::path::Path;

use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};
use packrace_os::{EntryType, is_absent};

use super::super::transaction::remove_tree;
use super::super::{RefError, Value};
use crate::publish::{WritePolicy, make_dir_below};

/// Moves the contents of a directory into another, which is created if missing, and syncs that.
pub(super) fn move_tree(from: &Path, to: &Path, policy: WritePolicy) -> Result<(), RefError> {
    let parent = to.parent().unwrap_or(to);
    make_dir_below(parent, to, Role::Refs, policy).map_err(RefError::from)?;
    for entry in packrace_os::list_dir(from, Role::Refs).map_err(|source| io(from, source))? {
        let (from, to) = (from.join(&entry.name), to.join(&entry.name));
        match entry.kind {
            EntryType::Dir => move_tree(&from, &to, policy)?,
            _ => durable::rename_file(&from, &to, Role::Refs).map_err(|source| io(&to, source))?,
        }
    }
    sync_dir(to)?;
    durable::remove_empty_dir(from, Role::Refs).map_err(|source| io(from, source))
}

/// Makes the names in a directory and in all directories below durable.
pub(super) fn sync_tree(dir: &Path) -> Result<(), RefError> {
    for entry in packrace_os::list_dir(dir, Role::Refs).map_err(|source| io(dir, source))? {
        if entry.kind == EntryType::Dir {
            sync_tree(&dir.join(&entry.name))?;
        }
    }
    sync_dir(dir)
}

/// Empties a directory.
pub(super) fn empty_dir(dir: &Path) -> Result<(), RefError> {
    for entry in packrace_os::list_dir(dir, Role::Refs).map_err(|source| io(dir, source))? {
        let path = dir.join(&entry.name);
        match entry.kind {
            EntryType::Dir => remove_tree(&path, true)?,
            _ => drop(durable::remove_file(&path, Role::Refs).map_err(|source| io(&path, source))?),
        }
    }
    Ok(())
}

pub(super) fn has_entries(dir: &Path) -> Result<bool, RefError> {
    match packrace_os::list_dir(dir, Role::Refs) {
        Ok(entries) => Ok(!entries.is_empty()),
        Err(error) if is_absent(&error) => Ok(false),
        Err(source) => Err(io(dir, source)),
    }
}

/// Writes a file that does not exist yet.
pub(super) fn write(path: &Path, bytes: &[u8], policy: WritePolicy) -> Result<(), RefError> {
    let written = || {
        let mut file = NewFile::create(path, 0o666, Role::Refs)?;
        file.change_mode(|mode| policy.file_mode(mode))?;
        file.write(bytes)?;
        file.sync()?;
        file.keep()
    };
    written().map_err(|source| io(path, source))
}

pub(super) fn sync_dir(dir: &Path) -> Result<(), RefError> {
    durable::sync_dir(dir, Role::Refs).map_err(|source| io(dir, source))
}

fn io(path: &Path, source: std::io::Error) -> RefError {
    RefError::Io { path: path.to_owned(), source }
}

/// The names of reflogs that can coexist as files. Reftables can keep reflogs of deleted refs while refs
/// exist above or below their names; files cannot.
pub(super) fn free_names(names: Vec<Vec<u8>>, refs: &[(Vec<u8>, Value)]) -> Vec<Vec<u8>> {
    let is_ref = |name: &Vec<u8>| refs.binary_search_by(|(other, _)| other.cmp(name)).is_ok();
    let (mut free, others): (BTreeSet<Vec<u8>>, Vec<Vec<u8>>) = {
        let (kept, others): (Vec<_>, Vec<_>) = names.into_iter().partition(is_ref);
        (kept.into_iter().collect(), others)
    };
    for name in others {
        let above = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let is_below = above.map(|(end, _)| &name[..end]).any(|dir| free.contains(dir));
        let dir = [name.as_slice(), b"/"].concat();
        let first = free.range(dir.clone()..).next();
        if is_below || first.is_some_and(|first| first.starts_with(&dir)) {
            tracing::warn!(
                "cannot keep the reflog of {}: its name conflicts with another",
                String::from_utf8_lossy(&name)
            );
            continue;
        }
        free.insert(name);
    }
    free.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reflogs_have_a_place() {
        let check = |names: &[&str], refs: &[&str], expect: &[&str]| {
            let bytes = |names: &[&str]| -> Vec<Vec<u8>> {
                names.iter().map(|name| name.as_bytes().to_vec()).collect()
            };
            let refs: Vec<_> =
                bytes(refs).into_iter().map(|name| (name, Value::Symbolic(b"HEAD".to_vec()))).collect();
            assert_eq!(free_names(bytes(names), &refs), bytes(expect), "{names:?}");
        };
        check(&["a", "a-b", "a/b"], &["a/b"], &["a-b", "a/b"]);
        check(&["a", "a-b", "a/b"], &["a"], &["a", "a-b"]);
        check(&["a", "a/b/c"], &[], &["a"]);
        check(&["a", "b"], &[], &["a", "b"]);
    }
}
