//! Putting finished files into a repository, durably and beside its readers.
//!
//! A pack appears with everything that belongs to it, or not at all: all its files are written under temporary names
//! and synced, then named, the index last, because it is the index that readers look for. What is removed goes in the
//! other order: the index first. Names, modes and orders are those that stock git was seen to use.

mod durable_objects;
mod lock;
mod loose;
mod multi_pack_index;
mod pack_writer;
mod policy;
mod remove;
mod scratch;
mod sealed_pack;

pub use durable_objects::DurableObjects;
pub use lock::{FileKind, LockFile, publish_file, publish_locked};
pub use loose::{remove_loose, write_loose};
pub use multi_pack_index::MultiPackIndexLock;
pub use pack_writer::PackWriter;
pub use policy::{Component, Sharing, WritePolicy};
pub use remove::remove_pack;
pub use scratch::{Scratch, ScratchFile};
pub use sealed_pack::{PackName, PublishOptions, PublishedPack, SealedPack, publish_index};

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};

use crate::error::Error;

/// Makes a temporary in `dir`; where that is missing, as in a quarantine, makes it and its parent first.
fn create_temporary(
    dir: &Path,
    prefix: &str,
    mode: u32,
    role: Role,
    policy: WritePolicy,
) -> Result<NewFile, Error> {
    let mut result = NewFile::create_temporary(dir, prefix, mode, role);
    if result.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        make_dir(dir, role, policy)?;
        result = NewFile::create_temporary(dir, prefix, mode, role);
    }
    let mut file = result.map_err(|error| Error::io(dir.join(format!("{prefix}XXXXXX")), error))?;
    policy.share(&mut file).map_err(|error| Error::io(file.path(), error))?;
    Ok(file)
}

/// Makes a directory of a repository and, where that is missing too, the one that it is in.
fn make_dir(dir: &Path, role: Role, policy: WritePolicy) -> Result<(), Error> {
    let top = dir.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    make_dir_below(top, dir, role, policy)
}

/// Makes a directory and those that it is in, where they are missing, but not `top`.
pub(crate) fn make_dir_below(top: &Path, dir: &Path, role: Role, policy: WritePolicy) -> Result<(), Error> {
    let make = || durable::make_dir(dir, |mode| policy.dir_mode(mode), role).map(drop);
    let made = match (make(), dir.parent()) {
        (Err(error), Some(parent)) if error.kind() == std::io::ErrorKind::NotFound && parent != top => {
            make_dir_below(top, parent, role, policy)?;
            make()
        }
        (made, _) => made,
    };
    made.map_err(|error| Error::io(dir, error))
}

/// `stem` with an extension added; a dot in `stem` begins none.
pub(crate) fn with_extension(stem: &Path, extension: &str) -> PathBuf {
    let mut name = OsString::from(stem);
    name.push(".");
    name.push(extension);
    name.into()
}

/// The directory that a file is in; the present one for a bare name.
pub(crate) fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests;
