//! Files with credentials, which nobody else may read.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Longest file of users, tokens or rules.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Permission bits of others, and of the group to write.
const LOOSE_BITS: u32 = 0o027;

/// Why a file cannot be used: its name, where known a line and a column, and the reason.
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
        let before = text.get(..byte).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let (line, column) = (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1);
        LoadError(format!("{}:{line}:{column}: {why}", path.display()))
    }
}

/// Reads a text file of at most 64 MiB.
pub(super) fn read(path: &Path) -> Result<String, LoadError> {
    read_opened(path, |_| Ok(()))
}

/// Reads a text file that others must not be able to read, nor its group to change.
pub(super) fn read_secret(path: &Path) -> Result<String, LoadError> {
    read_opened(path, |mode| match mode & LOOSE_BITS {
        0 => Ok(()),
        _ => {
            Err(format!("permissions {:04o} are too open: others can read it; try chmod 600", mode & 0o7777))
        }
    })
}

fn read_opened(path: &Path, check: impl Fn(u32) -> Result<(), String>) -> Result<String, LoadError> {
    let failed = |error: std::io::Error| LoadError::of(path, error);
    let file = std::fs::File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(LoadError::of(path, "is not a regular file"));
    }
    check(metadata.mode()).map_err(|why| LoadError::of(path, why))?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    match text.len() as u64 {
        0..=MAX_FILE_BYTES => Ok(text),
        _ => Err(LoadError::of(path, "is larger than 64 MiB")),
    }
}
