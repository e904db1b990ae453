//! Names of files that belong together.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// `stem` with an extension added; a dot in `stem` begins none.
pub fn with_extension(stem: &Path, extension: &str) -> PathBuf {
    let mut name = OsString::from(stem);
    name.push(".");
    name.push(extension);
    name.into()
}

/// The directory that a file is in; the present one for a bare name.
pub fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
