use std::collections::HashSet;
use std::path::Path;

use packrace_os::count::Role;
use packrace_os::{DirEntry, EntryType};

use crate::directory::list;
use crate::error::Error;
use crate::settings::MaintenanceSettings;

/// Maximum depth of folders below `refs/`.
const MAX_DEPTH: usize = 32;

/// Sizes by names and lengths alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Packs, with or without an index.
    pub packs: u64,
    /// Loose objects, up to the counted maximum.
    pub loose_objects: u64,
    /// Bytes of packs and all files beside them.
    pub pack_bytes: u64,
}

impl Sizes {
    /// Measures an object directory.
    pub fn of(object_dir: &Path) -> Result<Self, Error> {
        let dir = object_dir.join("pack");
        let mut sizes = Sizes {
            loose_objects: loose_objects(object_dir, crate::facts::Facts::MAX_COUNTED)?,
            ..Sizes::default()
        };
        for entry in list(&dir, Role::Pack)? {
            let length = packrace_os::identity(&dir.join(&entry.name), Role::Pack);
            // A file that vanishes meanwhile counts as absent.
            sizes.pack_bytes += length.ok().flatten().map_or(0, |file| file.length);
            sizes.packs += u64::from(entry.name.as_encoded_bytes().ends_with(b".pack"));
        }
        Ok(sizes)
    }
}

/// Counts loose objects by name, up to `most`.
pub fn loose_objects(object_dir: &Path, most: u64) -> Result<u64, Error> {
    let mut count = 0;
    for first in 0..=u8::MAX {
        count += loose_in(&object_dir.join(format!("{first:02x}")))?;
        if count >= most {
            return Ok(most);
        }
    }
    Ok(count)
}

/// Whether a repository has more loose objects than `gc.auto` or more packs than `gc.autoPackLimit`
/// allows, by git's estimate after each push: from the names of packs, and of the loose objects in one
/// directory of 256.
pub fn exceeds_gc_limits(object_dir: &Path, settings: &MaintenanceSettings) -> Result<bool, Error> {
    if loose_in(&object_dir.join("17"))? > settings.gc_loose.div_ceil(256) {
        return Ok(true);
    }
    let files = list(&object_dir.join("pack"), Role::Pack)?;
    let with = |suffix: &str| {
        let stem = |entry: &DirEntry| entry.name.to_str()?.strip_suffix(suffix).map(str::to_owned);
        files.iter().filter_map(stem).collect::<HashSet<_>>()
    };
    let packs = with(".pack").difference(&with(".keep")).count();
    Ok(settings.gc_packs > 0 && packs > settings.gc_packs)
}

fn loose_in(dir: &Path) -> Result<u64, Error> {
    let is_hex = |name: &[u8]| name.len() >= 38 && name.iter().all(u8::is_ascii_hexdigit);
    let names = list(dir, Role::Objects)?;
    Ok(names.iter().filter(|entry| is_hex(entry.name.as_encoded_bytes())).count() as u64)
}

/// Counts files of refs, up to `most`.
pub(super) fn loose_refs(refs: &Path, most: u64) -> Result<u64, Error> {
    let mut waiting = vec![(refs.to_owned(), MAX_DEPTH)];
    let mut count = 0;
    while let Some((dir, depth)) = waiting.pop() {
        for entry in list(&dir, Role::Refs)? {
            let name = entry.name.as_encoded_bytes();
            match entry.kind {
                EntryType::Dir if depth > 0 => waiting.push((dir.join(&entry.name), depth - 1)),
                EntryType::File if !name.ends_with(b".lock") => count += 1,
                _ => {}
            }
        }
        if count >= most {
            return Ok(most);
        }
    }
    Ok(count)
}

/// Counts the tables of a stack.
pub(super) fn tables(dir: &Path) -> Result<u64, Error> {
    let is_table = |entry: &&DirEntry| entry.name.as_encoded_bytes().ends_with(b".ref");
    Ok(list(dir, Role::Refs)?.iter().filter(is_table).count() as u64)
}
