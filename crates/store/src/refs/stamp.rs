//! Whether refs are unchanged since they were read: one system call for each file that was read then
//! (docs/decisions/0025-repository-cache.md).
//!
//! | backend | names |
//! |---|---|
//! | files | `HEAD`, `packed-refs`, every directory that was listed, every loose ref, and what symbolic ones lead to |
//! | reftable | `tables.list`: tables never change, and get new names when they are compacted |

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

use packrace_object::{HashKind, ObjectId, TrailerHasher};
use packrace_os::count::Role;
use packrace_os::{FileIdentity, clock};

use super::RefDirs;

/// The list of the tables of a stack.
pub(super) const TABLES_LIST: &[u8] = b"reftable/tables.list";

/// Which directory a file is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StampDir {
    /// That of a linked work tree.
    Own = b'o' as isize,
    /// That of the repository.
    Common = b'c' as isize,
}

/// What tells whether refs may have changed. Takes the memory of the names that were read and a hash.
#[derive(Debug)]
pub struct RefStamp {
    dirs: RefDirs,
    /// For each name its place and a NUL behind it.
    names: Box<[u8]>,
    /// Of what the looks have shown, in the order of the names.
    digest: ObjectId,
    /// Every later change is visible.
    is_settled: bool,
}

impl RefStamp {
    /// Whether refs that were read when the stamp was made would be read the same now. When in doubt, no: also where one
    /// changed so shortly before that a further change might not show.
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

    /// Whether it may hold at any time.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// The memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.names.len()
    }
}

/// Records which files are looked at while refs are read, or nothing.
pub(super) struct StampBuilder {
    dirs: Option<RefDirs>,
    /// The time before the first look.
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

    /// Records files in these places.
    pub(super) fn at(dirs: &RefDirs) -> Self {
        let began = clock::time_of_day();
        StampBuilder { dirs: Some(dirs.clone()), began, has_doubt: false, ..StampBuilder::off() }
    }

    /// Looks at a file that is read next.
    pub(super) fn look(&mut self, place: StampDir, name: &[u8]) {
        if self.dirs.is_some() {
            let found = self.identity(place, name);
            self.file(place, name, found);
        }
    }

    /// Records a file that the caller looked at before reading it.
    pub(super) fn file(&mut self, place: StampDir, name: &[u8], found: Option<FileIdentity>) {
        self.names.push(place as u8);
        self.names.extend_from_slice(name);
        self.names.push(0);
        self.has_doubt |= found.is_some_and(|found| !found.is_settled(self.began)) || name.contains(&0);
        self.digest(found);
    }

    /// Records that something matters which no file shows.
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
