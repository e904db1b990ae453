use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use packrace_format::{loose_object, zlib};
use packrace_object::Kind;
use packrace_os::count::Role;
use packrace_os::durable;

use super::{Component, WritePolicy, create_temporary, dir_of};
use crate::error::Error;

/// As git makes them.
const MODE: u32 = 0o444;

/// Writes a loose object where `path` says, with this time, in seconds since 1970; one that is there stays.
pub fn write_loose(
    path: &Path,
    kind: Kind,
    content: &[u8],
    level: i32,
    seconds: u32,
    policy: WritePolicy,
) -> Result<(), Error> {
    let mut plain = Vec::with_capacity(content.len() + 32);
    loose_object::write_header(kind, content.len() as u64, &mut plain);
    plain.extend_from_slice(content);
    let mut deflated = Vec::new();
    zlib::deflate(&plain, level, &mut deflated);
    let component = Component::LooseObject;
    let mut file = create_temporary(dir_of(path), "tmp_obj_", MODE, Role::Objects, policy, component)?;
    let mut done = file.write(&deflated);
    done = done.and_then(|()| file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds.into())));
    if policy.syncs(Component::LooseObject) {
        done = done.and_then(|()| file.sync());
    }
    done.map_err(|error| Error::io(file.path(), error))?;
    match file.publish(path).map_err(|error| Error::io(path, error))? {
        None => Ok(()),
        Some(ours) => ours.discard().map_err(|error| Error::io(path, error)),
    }
}

/// Removes a loose object, and its directory if it was the last in it.
pub fn remove_loose(path: &Path) -> Result<(), Error> {
    durable::remove_file(path, Role::Objects).map_err(|error| Error::io(path, error))?;
    let dir = dir_of(path);
    durable::remove_empty_dir(dir, Role::Objects).map_err(|error| Error::io(dir, error))
}
