//! A copy of a stack of refs, in which transactions run before readers may see them.

use std::path::{Path, PathBuf};

use packrace_format::head::{Head, StoredTable};
use packrace_format::reftable;
use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};
use packrace_store::refs::{Backend, RefStore};

use crate::cache::FilesAtHand;
use crate::error::Error;

/// Longest list of tables.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// Removed on drop, with all its contents.
#[derive(Debug)]
pub(super) struct RefsCopy {
    dir: PathBuf,
    store: RefStore,
}

impl RefsCopy {
    /// Copies the stack that the head names from `repository`, by hard links.
    pub(super) fn of(parent: &Path, repository: &Path, head: &Head) -> Result<Self, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| Error::disk(&path, &error)
        };
        let dir = durable::make_temporary_dir(parent, "stack-", Role::Refs).map_err(failed(parent))?;
        let store = RefStore::open(dir.clone(), dir.clone(), Backend::Reftable, head.hash);
        // From here on, drop removes the directory.
        let scratch = RefsCopy { dir, store };
        let stack = scratch.dir.join("reftable");
        durable::make_dir(&stack, |mode| mode, Role::Refs).map_err(failed(&stack))?;
        for table in &head.tables {
            let name = String::from_utf8_lossy(&table.name).into_owned();
            let from = repository.join("reftable").join(&name);
            durable::link_file(&from, &stack.join(name), Role::Refs).map_err(failed(&from))?;
        }
        let list = stack.join("tables.list");
        let text = reftable::format_list(head.tables.iter().map(|table| &table.name));
        let write = || {
            let mut file = NewFile::create(&list, 0o644, Role::Refs)?;
            file.write(&text)?;
            file.keep()
        };
        write().map_err(failed(&list))?;
        Ok(scratch)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn store(&self) -> &RefStore {
        &self.store
    }

    /// The current list of tables: every transaction that changes something changes it.
    pub(super) fn list(&self) -> Result<Vec<u8>, Error> {
        let list = self.dir.join("reftable/tables.list");
        packrace_os::read_file(&list, Role::Refs, MAX_LIST_BYTES).map_err(|error| Error::disk(&list, &error))
    }

    /// Adds the tables that `known` lacks to the files that the cache need not fetch.
    pub(super) fn add_at_hand(&self, tables: &[StoredTable], known: &Head, at_hand: &mut FilesAtHand) {
        for table in tables.iter().filter(|table| !known.tables.contains(table)) {
            let name = String::from_utf8_lossy(&table.name).into_owned();
            at_hand.insert(table.file.sha256, self.dir.join("reftable").join(name));
        }
    }
}

impl Drop for RefsCopy {
    fn drop(&mut self) {
        if let Err(error) = durable::remove_tree(&self.dir, Role::Refs) {
            tracing::warn!("cannot remove {}: {error}", self.dir.display());
        }
    }
}
