//! Files that settings name: how they are read, which permissions they may have, and where in them an error
//! is.

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Permissions that a file of secrets must not have: all of group and others, except that the group may read.
const LOOSE_MODE: u32 = 0o037;

/// The bytes of a regular file of at most `max_bytes`, and its permissions.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<(Vec<u8>, u32)> {
    let file = packrace_os::reach::open_anywhere(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > max_bytes {
        true => Err(io::Error::other(format!("larger than {max_bytes} bytes"))),
        false => Ok((bytes, metadata.mode() & 0o7777)),
    }
}

/// Whether a file of secrets has such permissions.
pub(crate) fn is_loose(mode: u32) -> bool {
    mode & LOOSE_MODE != 0
}

/// Line and column of a byte of a text, from 1, in characters.
pub fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
