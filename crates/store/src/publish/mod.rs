//! Publishes finished files in a repository, durably and safely for concurrent readers.
//!
//! A pack appears with all its files or not at all: all are written under temporary names and synced, then
//! named, the index last, because readers look for the index. Removal is in reverse: the index first. Names,
//! modes and orders are those observed in stock git.

mod compression;
mod lock;
mod loose;
mod loose_batch;
mod loose_limit;
mod multi_pack_index;
mod object_batch;
mod objects_stored;
mod pack_writer;
mod policy;
mod remove;
mod scratch;
mod sealed_pack;
mod written_pack;

pub use crate::paths::{dir_of, with_extension};
pub use compression::{loose_compression, pack_compression};
pub use lock::{FileKind, FileWriter, LockFile, publish_file, publish_locked};
pub use loose::remove_loose;
pub(crate) use loose::{in_fan_out, make_fan_out};
pub(crate) use loose_batch::sync_loose;
pub use loose_batch::{LooseBatch, PublishedLoose};
pub use loose_limit::{DEFAULT_LOOSE_LIMIT, Form, LooseLimit};
pub use multi_pack_index::{ChainLayer, MultiPackIndexFile, MultiPackIndexLock};
pub use object_batch::{BatchOptions, ObjectBatch, PublishedObjects, StreamError, name_blob_stream};
pub use objects_stored::ObjectsStored;
pub use pack_writer::PackWriter;
pub use policy::{Component, Sharing, WritePolicy};
pub use remove::{PackRemoval, remove_bitmap, remove_pack};
pub use scratch::{Scratch, ScratchFile};
pub use sealed_pack::{PackName, PublishOptions, PublishedPack, SealedPack, publish_index};
pub use written_pack::WrittenPack;

use std::path::Path;

use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};

use crate::error::Error;

/// The folder of bundles that a server keeps of a repository, beside its refs.
pub const BUNDLE_DIR: &str = "packrace-bundles";

/// Creates a temporary file in `dir`. If `dir` is missing, creates it and its parent, with names as durable
/// as the file's own name will be.
fn create_temporary(
    dir: &Path,
    prefix: &str,
    mode: u32,
    role: Role,
    policy: WritePolicy,
    component: Component,
) -> Result<NewFile, Error> {
    let mut result = NewFile::create_temporary(dir, prefix, mode, role);
    if result.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        make_durable_dir(dir, role, policy, component)?;
        result = NewFile::create_temporary(dir, prefix, mode, role);
    }
    let mut file = result.map_err(|error| Error::io(dir.join(format!("{prefix}XXXXXX")), error))?;
    policy.prepare(&mut file).map_err(|error| Error::io(file.path(), error))?;
    Ok(file)
}

/// Creates a directory of a repository and, if missing, its parent. If files of this component are durable,
/// so are both names: a crash must not remove the path to durable files.
pub(crate) fn make_durable_dir(
    dir: &Path,
    role: Role,
    policy: WritePolicy,
    component: Component,
) -> Result<(), Error> {
    let make = |dir: &Path| durable::make_dir(dir, |mode| policy.dir_mode(mode), role);
    let sync = |dir: &Path| match policy.syncs_names(component) {
        true => durable::sync_dir(dir, role).map_err(|error| Error::io(dir, error)),
        false => Ok(()),
    };
    let parent = dir_of(dir);
    let mut made = make(dir);
    if made.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        make(parent).map_err(|error| Error::io(parent, error))?;
        sync(dir_of(parent))?;
        made = make(dir);
    }
    made.map_err(|error| Error::io(dir, error))?;
    // Even if another process has just made it.
    sync(parent)
}

/// Creates a directory and its missing parents below `top`. The caller makes their names durable.
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

#[cfg(test)]
mod tests;
