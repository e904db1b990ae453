//! Names of related files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// `stem` with an extension added; a dot in `stem` is not one.
pub fn with_extension(stem: &Path, extension: &str) -> PathBuf {
    let mut name = OsString::from(stem);
    name.push(".");
    name.push(extension);
    name.into()
}

/// The directory of a file; the current one for a bare name.
pub fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
