//! Lists repositories.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_os::count::Role;
use packrace_os::{DirEntry, EntryType, is_absent, list_dir};

use super::names::{self, MAX_DEPTH};
use super::{RepositoryError, RepositoryFolder};

/// What a folder is, by the names in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FolderKind {
    /// A git directory.
    Bare,
    /// It contains a git directory, or a file that points to one.
    WorkTree,
    /// There may be repositories below it.
    Other,
}

impl FolderKind {
    pub(super) fn of(entries: &[DirEntry]) -> Self {
        let has = |name: &str| entries.iter().any(|entry| entry.name == name);
        match () {
            () if has("HEAD") && has("objects") && has("refs") => FolderKind::Bare,
            () if has(".git") => FolderKind::WorkTree,
            () => FolderKind::Other,
        }
    }
}

/// A repository that was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRepository {
    /// Below the folder; empty for the folder itself.
    pub path: PathBuf,
}

impl ListedRepository {
    /// The path as text: bytes that are not UTF-8 are replaced. The folder itself is a dot.
    pub fn name(&self) -> String {
        match self.path.as_os_str().is_empty() {
            true => ".".to_owned(),
            false => self.path.to_string_lossy().into_owned(),
        }
    }
}

impl RepositoryFolder {
    /// Calls `visit` with each repository below the folder, until it breaks; folder by folder, in the byte
    /// order of the names. Begins after `after`. Follows no links, searches no repository, and goes 16
    /// folders deep.
    pub fn list(
        &self,
        after: Option<&Path>,
        visit: &mut dyn FnMut(ListedRepository) -> ControlFlow<()>,
    ) -> Result<(), RepositoryError> {
        self.list_below(Path::new(""), after, MAX_DEPTH, visit).map(drop)
    }

    fn list_below(
        &self,
        folder: &Path,
        after: Option<&Path>,
        depth: usize,
        visit: &mut dyn FnMut(ListedRepository) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, RepositoryError> {
        let path = if folder.as_os_str().is_empty() { self.root.clone() } else { self.root.join(folder) };
        let entries = match list_dir(&path, Role::Config) {
            Ok(entries) => entries,
            // It was deleted, or the server may not read it.
            Err(error) if is_absent(&error) => return Ok(ControlFlow::Continue(())),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && depth < MAX_DEPTH => {
                return Ok(ControlFlow::Continue(()));
            }
            Err(error) => return Err(RepositoryError::disk(&path, error)),
        };
        if FolderKind::of(&entries) != FolderKind::Other {
            let is_new = after.is_none_or(|after| folder > after);
            return Ok(match is_new {
                true => visit(ListedRepository { path: folder.to_owned() }),
                false => ControlFlow::Continue(()),
            });
        }
        if depth == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        for entry in entries {
            if entry.kind != EntryType::Dir || names::is_reserved(entry.name.as_bytes()) {
                continue;
            }
            let inner = folder.join(&entry.name);
            // Nothing in it comes after `after`.
            if after.is_some_and(|after| inner.as_path() < after && !after.starts_with(&inner)) {
                continue;
            }
            if self.list_below(&inner, after, depth - 1, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
