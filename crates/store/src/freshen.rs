//! Objects that are there already and are stored once more: they are kept, and made young, so that nobody takes them for
//! objects that are no longer needed (git-prune, git-gc).

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use packrace_object::oid;
use packrace_os::count::Role;
use packrace_os::durable;

use crate::snapshot::{PackIx, Snapshot};

/// Packs that are young since a snapshot was taken: to make them younger for each object that is in them is not worth a call.
#[derive(Debug, Default)]
pub(crate) struct Touched(Mutex<HashSet<PackIx>>);

/// Where an object was found, and its file has the present time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Freshened {
    /// Nowhere, or only where its file must not be touched: by its owner it may be removed any time.
    No,
    /// In a pack.
    Packed,
    /// In this file.
    Loose(PathBuf),
}

impl Snapshot {
    /// Makes an object young that is there. `touched` belongs to this snapshot. What is in a cruft pack counts as not there: it
    /// has a time of its own.
    pub(crate) fn freshen(&self, id: &oid, touched: &Touched) -> Freshened {
        if let Some(ix) = self.lookup(id) {
            let number = self.locate(ix).pack;
            let pack = &self.packs()[number.0 as usize];
            if !pack.is_cruft() {
                let mut touched = touched.0.lock().unwrap_or_else(PoisonError::into_inner);
                let path = || self.pack_dir_of(pack).join(format!("{}.pack", pack.name()));
                if touched.contains(&number) || durable::touch(&path(), Role::Pack).is_ok() {
                    touched.insert(number);
                    return Freshened::Packed;
                }
            }
        }
        let young = self.loose_paths(id).find(|path| durable::touch(path, Role::Objects).is_ok());
        young.map_or(Freshened::No, Freshened::Loose)
    }
}
