//! Files with credentials, which others must not read.

use std::path::Path;

use crate::settings_file::{self, is_loose, line_and_column};

/// The longest file of users, tokens or rules.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Write permission for the group or for others.
const OTHERS_WRITE: u32 = 0o022;

/// Why a file cannot be used: its name, a line and a column if known, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(String);

impl LoadError {
    pub(crate) fn of(path: &Path, why: impl std::fmt::Display) -> Self {
        LoadError(format!("{}: {why}", path.display()))
    }

    pub(crate) fn at_line(path: &Path, line: usize, why: impl std::fmt::Display) -> Self {
        LoadError(format!("{}:{line}: {why}", path.display()))
    }

    /// An error of a TOML file, at a byte of its text.
    pub(crate) fn at_byte(path: &Path, text: &str, byte: usize, why: impl std::fmt::Display) -> Self {
        let (line, column) = line_and_column(text, byte);
        LoadError(format!("{}:{line}:{column}: {why}", path.display()))
    }
}

/// Reads a text file of at most 64 MiB.
pub(super) fn read(path: &Path) -> Result<String, LoadError> {
    read_checked(path, |_| Ok(()))
}

/// Reads a text file that others must not read, and its group must not change.
pub(crate) fn read_secret(path: &Path) -> Result<String, LoadError> {
    read_checked(path, |mode| match is_loose(mode) {
        false => Ok(()),
        true => Err(format!("permissions {mode:04o} are too open: others can read it; try chmod 600")),
    })
}

/// Reads a text file that only its owner may change: it decides who gets access.
pub(crate) fn read_unshared(path: &Path) -> Result<String, LoadError> {
    read_checked(path, |mode| match mode & OTHERS_WRITE {
        0 => Ok(()),
        _ => Err(format!("permissions {mode:04o} are too open: others can change it; try chmod 644")),
    })
}

fn read_checked(path: &Path, check: impl Fn(u32) -> Result<(), String>) -> Result<String, LoadError> {
    let read = settings_file::read(path, MAX_FILE_BYTES);
    let (bytes, mode) = read.map_err(|error| LoadError::of(path, error))?;
    check(mode).map_err(|why| LoadError::of(path, why))?;
    String::from_utf8(bytes).map_err(|_| LoadError::of(path, "is not UTF-8"))
}
