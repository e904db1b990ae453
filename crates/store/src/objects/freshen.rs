//! Existing objects that are stored again: the time of their files is updated, so that they do not count as
//! unneeded (git-prune, git-gc).

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use packrace_object::oid;
use packrace_os::count::Role;
use packrace_os::{durable, is_empty_file};

use crate::objects::numbers::PackIx;
use crate::objects::snapshot::Snapshot;

/// After this many objects, list the directories of loose objects once: cheaper than a call per new object.
const LISTED_FROM: usize = 16;

/// The files touched since a snapshot was taken.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Packs already touched: once is enough for all their objects.
    packs: Mutex<HashSet<PackIx>>,
    /// How many objects were looked up as loose objects.
    looks: AtomicUsize,
    /// For each object directory, which fan-out directories exist. Later ones are not seen; their objects are
    /// stored again, which is harmless.
    fan_outs: OnceLock<Vec<[bool; 256]>>,
}

impl Touched {
    /// Whether object directory `number` may have the loose object.
    fn may_have(&self, snapshot: &Snapshot, number: usize, id: &oid) -> bool {
        if self.looks.fetch_add(1, Ordering::Relaxed) < LISTED_FROM {
            return true;
        }
        let fan_outs = self.fan_outs.get_or_init(|| snapshot.object_dirs().map(fan_out_of).collect());
        fan_outs.get(number).is_none_or(|fan_out| fan_out[usize::from(id.as_bytes()[0])])
    }
}

/// Which fan-out directories exist; all if they cannot be listed.
fn fan_out_of(dir: &Path) -> [bool; 256] {
    let Ok(entries) = packrace_os::list_dir(dir, Role::Objects) else { return [true; 256] };
    let mut fan_out = [false; 256];
    for entry in entries {
        let name = entry.name.to_str().filter(|name| name.len() == 2);
        if let Some(first) = name.and_then(|name| u8::from_str_radix(name, 16).ok()) {
            fan_out[usize::from(first)] = true;
        }
    }
    fan_out
}

/// Where an object was found and touched.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Freshened {
    /// Nowhere, or only in a file that is empty, or that we may not touch, which its owner may remove at any time.
    No,
    /// In a pack.
    Packed,
    /// In this file.
    Loose(PathBuf),
}

impl Snapshot {
    /// Touches an existing object. `touched` belongs to this snapshot. Objects in cruft packs count as
    /// absent: they have their own times.
    pub(crate) fn freshen(&self, id: &oid, touched: &Touched) -> Freshened {
        if let Some(ix) = self.lookup(id) {
            let number = self.locate(ix).pack;
            let pack = &self.packs()[number.0 as usize];
            if !pack.is_cruft() {
                let mut packs = touched.packs.lock().unwrap_or_else(PoisonError::into_inner);
                let path = || self.pack_dir_of(pack).join(format!("{}.pack", pack.name()));
                if packs.contains(&number) || durable::touch(&path(), Role::Pack).is_ok() {
                    packs.insert(number);
                    return Freshened::Packed;
                }
            }
        }
        let paths = self.loose_paths(id).enumerate();
        let mut paths = paths.filter(|(number, _)| touched.may_have(self, *number, id)).map(|(_, path)| path);
        let has_content = |path: &Path| is_empty_file(path, Role::Objects).is_ok_and(|is_empty| !is_empty);
        let young = paths.find(|path| durable::touch(path, Role::Objects).is_ok() && has_content(path));
        young.map_or(Freshened::No, Freshened::Loose)
    }
}
