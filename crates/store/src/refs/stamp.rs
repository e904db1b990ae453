//! Detects changes of refs since they were read: one system call for each file read then
//! (docs/decisions/0025-repository-cache.md).
//!
//! | backend | names |
//! |---|---|
//! | files | `HEAD`, `packed-refs`, every listed directory, every loose ref, targets of symbolic refs |
//! | reftable | `tables.list`: tables never change, and get new names when they are compacted |

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

use packrace_object::{HashKind, ObjectId, TrailerHasher};
use packrace_os::count::Role;
use packrace_os::{FileIdentity, Mapped, Standing, clock};

use super::{Holder, RefDirs, RefError};

/// An error if a file that is only ever replaced is damaged or has other contents now.
pub(super) fn check_unchanged(map: &Mapped) -> Result<(), RefError> {
    match map.look(Role::Refs) {
        Standing::Same | Standing::Elsewhere => Ok(()),
        // Creating a hard link changes only one of its times.
        Standing::Touched(now) if now.modified == map.identity().and_then(|file| file.modified) => Ok(()),
        Standing::Touched(_) => Err(map.mark_damaged().into()),
        Standing::Damaged(damaged) => Err(damaged.into()),
    }
}

/// The list of the tables of a stack.
pub(super) const TABLES_LIST: &[u8] = b"reftable/tables.list";

/// The directory of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StampDir {
    /// That of a linked work tree.
    Own = b'o' as isize,
    /// That of the repository.
    Common = b'c' as isize,
}

/// Detects whether refs may have changed. Stores the names of the files read and one hash.
#[derive(Debug)]
pub struct RefStamp {
    dirs: RefDirs,
    /// For each file its place, its name and a NUL.
    names: Box<[u8]>,
    /// Hash of the observed states, in the order of `names`.
    digest: ObjectId,
    /// Whether every later change is visible.
    is_settled: bool,
}

impl RefStamp {
    /// Whether refs read when the stamp was made would read the same now. False when in doubt, such as after
    /// a change so recent that a further one might not show.
    pub fn holds(&self) -> bool {
        if !self.is_settled {
            return false;
        }
        let mut builder = StampBuilder::at(&self.dirs);
        let names = self.names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        for name in names {
            let place = if name[0] == StampDir::Own as u8 { StampDir::Own } else { StampDir::Common };
            let found = builder.identity(place, &name[1..]);
            builder.digest(found);
        }
        builder.hasher.finish() == self.digest && !builder.has_doubt
    }

    /// Whether the stamp can hold at all.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Its memory use.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.names.len()
    }
}

/// Records the files that are examined while refs are read, or nothing.
pub(super) struct StampBuilder {
    dirs: Option<RefDirs>,
    /// The time before the first file was examined.
    began: SystemTime,
    names: Vec<u8>,
    hasher: TrailerHasher,
    has_doubt: bool,
}

impl StampBuilder {
    /// Records nothing and makes no system call.
    pub(super) fn off() -> Self {
        StampBuilder {
            dirs: None,
            began: SystemTime::UNIX_EPOCH,
            names: Vec::new(),
            hasher: TrailerHasher::new(HashKind::Sha256),
            has_doubt: true,
        }
    }

    /// Records files in these directories.
    pub(super) fn at(dirs: &RefDirs) -> Self {
        let began = clock::time_of_day();
        StampBuilder { dirs: Some(dirs.clone()), began, has_doubt: false, ..StampBuilder::off() }
    }

    /// Examines a file that is about to be read.
    pub(super) fn look(&mut self, place: StampDir, name: &[u8]) {
        if self.dirs.is_some() {
            let found = self.identity(place, name);
            self.file(place, name, found);
        }
    }

    /// As above, for a loose ref or a directory of refs.
    pub(super) fn look_ref(&mut self, name: &[u8]) {
        let Some(dirs) = &self.dirs else { return };
        let place = dirs.place(name);
        match place.holder {
            Holder::Common => self.look(StampDir::Common, place.name),
            Holder::Own => self.look(StampDir::Own, place.name),
            // The name is its path.
            Holder::Linked(_) => self.look(StampDir::Common, name),
        }
    }

    /// Records a file that the caller examined before reading it.
    pub(super) fn file(&mut self, place: StampDir, name: &[u8], found: Option<FileIdentity>) {
        self.names.push(place as u8);
        self.names.extend_from_slice(name);
        self.names.push(0);
        self.has_doubt |= found.is_some_and(|found| !found.is_settled(self.began)) || name.contains(&0);
        self.digest(found);
    }

    /// Records a dependency that no file state reveals.
    pub(super) fn doubt(&mut self) {
        self.has_doubt = true;
    }

    pub(super) fn stamp(self) -> RefStamp {
        let dirs = self.dirs.expect("only what notes anything is made a stamp");
        let (digest, is_settled) = (self.hasher.finish(), !self.has_doubt);
        RefStamp { dirs, names: self.names.into(), digest, is_settled }
    }

    fn identity(&mut self, place: StampDir, name: &[u8]) -> Option<FileIdentity> {
        let found = packrace_os::identity(&self.path_of(place, name)?, Role::Refs);
        self.has_doubt |= found.is_err();
        found.ok().flatten()
    }

    fn path_of(&self, place: StampDir, name: &[u8]) -> Option<PathBuf> {
        let dirs = self.dirs.as_ref()?;
        let dir = match place {
            StampDir::Own => &dirs.git_dir,
            StampDir::Common => &dirs.common_dir,
        };
        Some(dir.join(OsStr::from_bytes(name)))
    }

    fn digest(&mut self, found: Option<FileIdentity>) {
        match found {
            Some(found) => {
                self.hasher.update(b"f");
                self.hasher.update(&found.to_bytes());
            }
            None => self.hasher.update(b"-"),
        }
    }
}
