//! Leftovers of dead processes.
//!
//! | what | where | removed |
//! |---|---|---|
//! | temporaries: `tmp_*`, `.tmp-*` (not a pack with its index, which is read) | in `objects/` and folders below it, `reftable/`, `info/`, `packrace-bundles/`; `tmp_info_*` and `shallow_*` beside `HEAD` | after a day; at once if a killed job of packrace made them |
//! | quarantines of pushes: `tmp_objdir-incoming-*`, `incoming-*` | `objects/` | as above, counted from the last file in them |
//! | files of packs without index, without `.keep` | `objects/pack/` | after an hour: a live writer adds the index soon after them |
//! | `multi-pack-index.lock`, `multi-pack-index-chain.lock`, `commit-graph.lock`, `commit-graph-chain.lock`, `packed-refs.lock`, `HEAD.lock`, locks of refs below `refs/` and of reftables | git's places | after a day; after ten minutes if a killed job of packrace may have taken them |
//!
//! Nothing else is removed: not `index.lock`, `config.lock` or `shallow.lock`, which users may hold for any
//! time. `HEAD.lock` is the lock of a ref: pushes to its branch take it. Ages are by this machine's clock: setting it
//! forward by more than a day removes locks still held.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use packrace_os::count::Role;
use packrace_os::{DirEntry, EntryType, FileIdentity, durable};
use packrace_store::Repository;
use packrace_store::publish::BUNDLE_DIR;

use crate::directory::list;
use crate::error::Error;
use crate::facts::StaleFacts;
use crate::lock::Predecessor;

/// A live process has written to its temporary file and released its lock by then.
const AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// As above, for packs without index, and for locks that a killed job may have left.
const PACK_AGE: Duration = Duration::from_secs(60 * 60);
const LOCK_AGE: Duration = Duration::from_secs(10 * 60);

/// Name prefixes of temporary files.
const TEMPORARIES: [&str; 2] = ["tmp_", ".tmp-"];

/// Maximum depth of folders below `refs/`.
const MAX_DEPTH: usize = 32;

/// Maximum number found at once; the next run finds more.
const MAX_FOUND: usize = 100_000;

/// Leftover files and folders.
#[derive(Debug, Default)]
pub struct StaleFiles {
    found: Vec<StaleFile>,
}

#[derive(Debug)]
struct StaleFile {
    path: PathBuf,
    bytes: u64,
    is_dir: bool,
}

impl StaleFiles {
    /// Their number and size.
    pub fn facts(&self) -> StaleFacts {
        StaleFacts { count: self.found.len() as u64, bytes: self.found.iter().map(|file| file.bytes).sum() }
    }

    /// Removes them. Files that cannot be removed are reported and stay.
    pub fn remove(self) -> StaleFacts {
        let mut removed = StaleFacts::default();
        for file in self.found {
            let done = match file.is_dir {
                true => durable::remove_tree(&file.path, Role::Objects),
                false => durable::remove_file(&file.path, Role::Objects).map(drop),
            };
            match done {
                Ok(()) => {
                    tracing::debug!("removed leftover {}", file.path.display());
                    removed.count += 1;
                    removed.bytes += file.bytes;
                }
                Err(error) => tracing::warn!("cannot remove {}: {error}", file.path.display()),
            }
        }
        removed
    }
}

/// Finds them. Leftovers of `predecessor`, a killed job, need not be old.
pub fn find(
    repository: &Repository,
    now: SystemTime,
    predecessor: Option<Predecessor>,
) -> Result<StaleFiles, Error> {
    let mut search = StaleSearch { now, predecessor, files: StaleFiles::default() };
    let (objects, common) = (repository.object_dir(), repository.common_dir());
    let refs = repository.refs().dir();
    search.temporaries(objects, &TEMPORARIES)?;
    search.quarantines(objects)?;
    for first in 0..=u8::MAX {
        search.temporaries(&objects.join(format!("{first:02x}")), &TEMPORARIES)?;
    }
    for dir in ["pack", "pack/multi-pack-index.d", "info", "info/commit-graphs"] {
        search.temporaries(&objects.join(dir), &TEMPORARIES)?;
    }
    for dir in [refs.join("reftable"), common.join("info"), common.join(BUNDLE_DIR)] {
        search.temporaries(&dir, &TEMPORARIES)?;
    }
    search.temporaries(common, &["tmp_info_", "shallow_"])?;
    search.packs(&objects.join("pack"))?;
    for lock in [
        objects.join("pack/multi-pack-index.lock"),
        objects.join("pack/multi-pack-index.d/multi-pack-index-chain.lock"),
        objects.join("info/commit-graph.lock"),
        objects.join("info/commit-graphs/commit-graph-chain.lock"),
        refs.join("packed-refs.lock"),
        refs.join("HEAD.lock"),
    ] {
        search.lock(lock)?;
    }
    search.locks_below(&refs.join("refs"))?;
    search.locks_below(&refs.join("reftable"))?;
    Ok(search.files)
}

struct StaleSearch {
    now: SystemTime,
    predecessor: Option<Predecessor>,
    files: StaleFiles,
}

impl StaleSearch {
    /// Whether the killed job left it, by name and time: `since` is when it took the lock.
    fn is_of_predecessor(&self, name: &str, modified: SystemTime) -> bool {
        self.predecessor
            .is_some_and(|gone| modified >= gone.since && durable::is_temporary_of(gone.temporary_key, name))
    }

    fn is_older(&self, modified: SystemTime, age: Duration) -> bool {
        self.now.duration_since(modified).is_ok_and(|since| since > age)
    }

    fn push(&mut self, path: PathBuf, bytes: u64, is_dir: bool) {
        if self.files.found.len() < MAX_FOUND {
            self.files.found.push(StaleFile { path, bytes, is_dir });
        }
    }

    fn temporaries(&mut self, dir: &Path, prefixes: &[&str]) -> Result<(), Error> {
        let entries = list(dir, Role::Objects)?;
        let is_of_pack = |name: &str| {
            let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
            ["idx", "pack"].iter().all(|ending| has(&entries, &format!("{stem}.{ending}")))
        };
        for entry in &entries {
            let name = entry.name.to_string_lossy().into_owned();
            if entry.kind != EntryType::File || !prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            if is_of_pack(&name) {
                continue;
            }
            let path = dir.join(&entry.name);
            let Some((file, modified)) = look(&path) else { continue };
            if self.is_older(modified, AGE) || self.is_of_predecessor(&name, modified) {
                self.push(path, file.length, false);
            }
        }
        Ok(())
    }

    fn quarantines(&mut self, objects: &Path) -> Result<(), Error> {
        for entry in list(objects, Role::Objects)? {
            let name = entry.name.to_string_lossy().into_owned();
            let is_quarantine = name.starts_with("tmp_objdir-") || name.starts_with("incoming-");
            if entry.kind != EntryType::Dir || !is_quarantine {
                continue;
            }
            let path = objects.join(&entry.name);
            let Some((_, own)) = look(&path) else { continue };
            let mut newest = own;
            for dir in [path.clone(), path.join("pack")] {
                for inner in list(&dir, Role::Objects)? {
                    newest =
                        look(&dir.join(&inner.name)).map_or(newest, |(_, modified)| newest.max(modified));
                }
            }
            if self.is_older(newest, AGE) || self.is_of_predecessor(&name, own) {
                self.push(path, 0, true);
            }
        }
        Ok(())
    }

    /// Finds files of packs that no reader can find.
    fn packs(&mut self, dir: &Path) -> Result<(), Error> {
        let entries = list(dir, Role::Pack)?;
        for entry in &entries {
            let name = entry.name.to_string_lossy();
            let Some((stem, extension)) = name.rsplit_once('.') else { continue };
            let is_of_pack = matches!(extension, "pack" | "rev" | "bitmap" | "mtimes" | "promisor");
            if !is_of_pack || !stem.starts_with("pack-") || entry.kind != EntryType::File {
                continue;
            }
            if has(&entries, &format!("{stem}.idx")) || has(&entries, &format!("{stem}.keep")) {
                continue;
            }
            let path = dir.join(&entry.name);
            let Some((file, modified)) = look(&path) else { continue };
            if self.is_older(modified, PACK_AGE) && self.is_older(file.changed(), PACK_AGE) {
                self.push(path, file.length, false);
            }
        }
        Ok(())
    }

    fn lock(&mut self, path: PathBuf) -> Result<(), Error> {
        let Some((file, modified)) = look(&path) else { return Ok(()) };
        let may_be_of_predecessor = self.predecessor.is_some_and(|gone| modified >= gone.since);
        let age = if may_be_of_predecessor { LOCK_AGE } else { AGE };
        if file.is_file && self.is_older(modified, age) {
            self.push(path, file.length, false);
        }
        Ok(())
    }

    fn locks_below(&mut self, dir: &Path) -> Result<(), Error> {
        let mut waiting = vec![(dir.to_owned(), MAX_DEPTH)];
        while let Some((dir, depth)) = waiting.pop() {
            for entry in list(&dir, Role::Refs)? {
                match entry.kind {
                    EntryType::Dir if depth > 0 => waiting.push((dir.join(&entry.name), depth - 1)),
                    EntryType::File if entry.name.as_encoded_bytes().ends_with(b".lock") => {
                        self.lock(dir.join(&entry.name))?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Whether there is a file of this name.
fn has(entries: &[DirEntry], name: &str) -> bool {
    entries.binary_search_by(|entry| entry.name.as_os_str().cmp(name.as_ref())).is_ok()
}

/// The identity and modification time of a file, if it still exists.
fn look(path: &Path) -> Option<(FileIdentity, SystemTime)> {
    let file = packrace_os::identity(path, Role::Objects).ok().flatten()?;
    Some((file, file.modified?))
}
