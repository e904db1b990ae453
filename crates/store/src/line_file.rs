//! Files of one line, like `HEAD`, `commondir` and gitfiles.

use std::path::Path;

use packrace_os::count::Role;

use crate::error::{Error, Reason};

/// Longest gitfile, `commondir` and similar one-line file.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// A small file without its trailing line ends; `None` if there is no file.
pub(crate) fn read_line(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let mut text = match packrace_os::read_file(path, Role::Config, MAX_LINE_BYTES) {
        Ok(text) => text,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            return Err(Reason::Refused(format!("file is too large: {}", path.display())).into());
        }
        Err(error) => return Err(Error::io(path, error)),
    };
    while text.ends_with(b"\n") || text.ends_with(b"\r") {
        text.pop();
    }
    Ok(Some(text))
}
