//! The main work tree of a repository and its linked ones.

use std::path::{Path, PathBuf};

use packrace_os::EntryType;
use packrace_os::count::Role;

use crate::error::{Error, Reason};
use crate::refs::{RefStore, is_per_worktree};
use crate::repository::Repository;

/// The git directories of all work trees: the main one, then the linked ones by name.
pub(super) fn git_dirs(repository: &Repository) -> Result<Vec<PathBuf>, Error> {
    let common = repository.common_dir();
    let mut dirs = vec![common.to_owned()];
    let parent = common.join("worktrees");
    let mut linked = list(&parent)?;
    linked.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    dirs.extend(
        linked.into_iter().filter(|(_, kind)| *kind == EntryType::Dir).map(|(name, _)| parent.join(name)),
    );
    if !dirs.iter().any(|dir| dir == repository.git_dir()) {
        dirs.push(repository.git_dir().to_owned());
    }
    Ok(dirs)
}

/// The entries of a directory; none if it does not exist.
pub(super) fn list(dir: &Path) -> Result<Vec<(PathBuf, EntryType)>, Error> {
    match packrace_os::list_dir(dir, Role::Refs) {
        Ok(entries) => Ok(entries.into_iter().map(|entry| (entry.name.into(), entry.kind)).collect()),
        Err(error) if packrace_os::is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(Error::io(dir, error)),
    }
}

/// Refs of a work tree that have reflogs.
#[derive(Debug, Clone)]
pub struct WorkTreeReflogs {
    /// The refs as seen from the work tree.
    pub refs: RefStore,
    /// The names of those with a reflog.
    pub names: Vec<Vec<u8>>,
}

/// The names of all refs that have reflogs, with the refs of the work tree that they belong to. Each reflog occurs once: those
/// that work trees share belong to the main one.
pub fn all_reflogs(repository: &Repository) -> Result<Vec<WorkTreeReflogs>, Error> {
    let mut reflogs = Vec::new();
    for (number, dir) in git_dirs(repository)?.into_iter().enumerate() {
        let refs = repository.refs().of_work_tree(dir);
        let mut names = refs.logged_names().map_err(Reason::Refs)?;
        names.retain(|name| number == 0 || is_per_worktree(name));
        reflogs.push(WorkTreeReflogs { refs, names });
    }
    Ok(reflogs)
}
