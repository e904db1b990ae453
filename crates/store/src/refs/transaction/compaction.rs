//! Compacts a stack: merges tables, so that there are never more than a few (technical/reftable, "Compaction").
//!
//! ```text
//! tables.list.lock → <table>.lock of each → list free again ─ one table written ─ tables.list.lock → list without them → away
//! ```
//!
//! The list is unlocked while the table is written, so writers need not wait. The locks of the tables exclude
//! other compactions; if a table has left the list meanwhile, the new table is discarded.

use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;

use packrace_format::reftable::{CompactError, TableName, compact, format_list, geometric};
use packrace_object::HashKind;
use packrace_os::count::Role;
use packrace_os::durable::{self, random_number};
use packrace_os::is_absent;

use super::super::RefError;
use super::super::reftable::{Stack, StackTable};
use super::RefWrites;
use super::stack_files::{failed, publish_list, sync_dir, write_table};
use crate::publish::{FileKind, LockFile};

/// Merges tables after a change, if that is not turned off.
pub(super) fn after_change(dir: &Path, writes: &RefWrites, hash: HashKind) -> Result<(), RefError> {
    match writes.tables.compacts {
        true => match geometrically(dir, writes, hash) {
            Err(RefError::Conflict(_)) => Ok(()),
            compacted => compacted,
        },
        false => Ok(()),
    }
}

/// Merges tables that are too small relative to newer ones, if need be without the oldest of them: another compaction may
/// hold those.
pub(super) fn geometrically(dir: &Path, writes: &RefWrites, hash: HashKind) -> Result<(), RefError> {
    let lock = lock_list(dir, writes)?;
    let stack = Stack::read(dir.parent().unwrap_or(dir), hash)?;
    let sizes: Vec<u64> = stack.tables.iter().map(|table| table.table.content_bytes()).collect();
    match geometric(&sizes, writes.tables.factor) {
        Some(range) => run(dir, lock, &stack, range, true, writes),
        None => Ok(()),
    }
}

/// Merges all tables.
pub(super) fn all(dir: &Path, writes: &RefWrites, hash: HashKind) -> Result<(), RefError> {
    if !dir.is_dir() {
        return Err(RefError::Conflict("unable to compact stack: I/O error".to_owned()));
    }
    let lock = lock_list(dir, writes)?;
    let stack = Stack::read(dir.parent().unwrap_or(dir), hash)?;
    match stack.tables.len() {
        0 | 1 => Ok(()),
        count => run(dir, lock, &stack, 0..count, false, writes),
    }
}

fn locked() -> RefError {
    RefError::Conflict("unable to compact stack: data is locked".to_owned())
}

fn lock_list(dir: &Path, writes: &RefWrites) -> Result<LockFile, RefError> {
    let taken = LockFile::take(&dir.join("tables.list"), FileKind::Refs, writes.policy);
    taken.map_err(|error| if error.is_locked() { locked() } else { error.into() })
}

fn run(
    dir: &Path,
    lock: LockFile,
    stack: &Stack,
    mut range: Range<usize>,
    takes_fewer: bool,
    writes: &RefWrites,
) -> Result<(), RefError> {
    let mut locks = Vec::new();
    for at in range.clone().rev() {
        match LockFile::take(&stack.tables[at].path, FileKind::Refs, writes.policy) {
            Ok(lock) => locks.push(lock),
            Err(error) if error.is_locked() && takes_fewer && locks.len() > 1 => {
                range.start = at + 1;
                break;
            }
            Err(error) if error.is_locked() => return Err(locked()),
            Err(error) => return Err(error.into()),
        }
    }
    let old = &stack.tables[range.clone()];
    drop(lock);
    let (min_update_index, max_update_index) = old
        .iter()
        .map(|table| table.table.update_indexes())
        .fold((u64::MAX, 0), |(least, most), (min, max)| (least.min(min), most.max(max)));
    let name = TableName { min_update_index, max_update_index, random: random_number() };
    let is_empty = write_compacted(dir, &name, stack, range.clone(), writes)?;
    let new = dir.join(name.to_string());
    let replaced = replace(dir, old, (!is_empty).then_some(&name), writes);
    if !matches!(replaced, Ok(true)) || is_empty {
        // Nothing refers to the new table.
        remove(&new)?;
    }
    if replaced? {
        // If the new list might be lost, the old tables stay.
        if writes.tables.synced {
            sync_dir(dir)?;
        }
        // Removes the others even if one cannot be removed.
        return old.iter().map(|table| remove(&table.path)).fold(Ok(()), Result::and);
    }
    Ok(())
}

/// Returns whether the table is empty.
fn write_compacted(
    dir: &Path,
    name: &TableName,
    stack: &Stack,
    range: Range<usize>,
    writes: &RefWrites,
) -> Result<bool, RefError> {
    let tables: Vec<_> = stack.tables.iter().map(|table| table.table.clone()).collect();
    let mut is_empty = false;
    write_table(dir, name, writes, |sink| {
        let written = compact(&tables, range, &writes.tables.options, |_| true, sink);
        let written = written.map_err(|error| match error {
            CompactError::Read(error) => stack.tables[error.table].damaged(error.source),
            error => failed(format!("unable to compact stack: {error}")),
        })?;
        is_empty = written.refs + written.logs == 0;
        // Otherwise records of a truncated table would be lost for good.
        stack.check_unchanged()
    })?;
    Ok(is_empty)
}

/// Replaces `old` by the new table in the list; false if they are no longer in it.
fn replace(
    dir: &Path,
    old: &[StackTable],
    new: Option<&TableName>,
    writes: &RefWrites,
) -> Result<bool, RefError> {
    let list = dir.join("tables.list");
    let taken = LockFile::take_within(&list, FileKind::Refs, writes.policy, writes.reftable_patience);
    let lock = match taken {
        Ok(lock) => lock,
        Err(error) if error.is_locked() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let names = Stack::names(dir)?;
    let gone = names_of(old);
    let Some(at) = names.windows(gone.len()).position(|names| names == gone) else { return Ok(false) };
    let before = names[..at].iter().map(|name| name.as_encoded_bytes().to_vec());
    let after = names[at + gone.len()..].iter().map(|name| name.as_encoded_bytes().to_vec());
    let new = new.map(|name| name.to_string().into_bytes());
    publish_list(lock, dir, &format_list(before.chain(new).chain(after)))?;
    Ok(true)
}

fn names_of(tables: &[StackTable]) -> Vec<OsString> {
    tables.iter().filter_map(|table| table.path.file_name()).map(OsString::from).collect()
}

fn remove(path: &Path) -> Result<(), RefError> {
    match durable::remove_file(path, Role::Refs) {
        Err(error) if !is_absent(&error) => Err(RefError::Io { path: path.to_owned(), source: error }),
        _ => Ok(()),
    }
}
