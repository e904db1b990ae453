use std::io;
use std::path::Path;

use super::{remove_file, remove_unnamed, rename_file, rename_to_free};
use crate::count::Role;
use crate::file::is_empty_file;
use crate::interruption::UnnamedPath;

/// A complete file under a temporary name.
#[derive(Debug)]
pub struct ClosedFile {
    /// `None` once it has its name or was removed.
    pub(super) path: Option<UnnamedPath>,
    pub(super) role: Role,
}

impl ClosedFile {
    /// Renames it to this name if unused, or if an empty file has it; otherwise removes it. Returns whether it got the name.
    pub fn publish(mut self, to: &Path) -> io::Result<bool> {
        let mut path = self.path.take().expect("taken only by what consumes the file");
        path.forget();
        let named = rename_to_free_or_empty(&path, to, self.role);
        if !named.as_ref().is_ok_and(|is_named| *is_named) {
            let removed = remove_file(&path, self.role);
            return named.and(removed).map(|_| false);
        }
        named
    }
}

impl Drop for ClosedFile {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            // No caller is left to receive an error; the name marks it as temporary.
            let _ = remove_unnamed(path, self.role);
        }
    }
}

/// Renames a file unless the new name exists, and returns whether it did. An empty file gives way.
pub fn rename_to_free_or_empty(from: &Path, to: &Path, role: Role) -> io::Result<bool> {
    if rename_to_free(from, to, role)? {
        return Ok(true);
    }
    let is_empty = is_empty_file(to, role)?;
    if is_empty {
        rename_file(from, to, role)?;
    }
    Ok(is_empty)
}
