//! The main work tree of a repository and its linked ones.

use std::path::{Path, PathBuf};

use packrace_os::EntryType;
use packrace_os::count::Role;

use crate::error::{Error, Reason};
use crate::line_file::read_line;
use crate::refs::{RefStore, is_per_worktree};
use crate::repository::{Repository, discovery};

/// Where a caller says that the work tree is.
#[derive(Debug, Clone, Default)]
pub struct WorkTreePlace {
    /// Its top, whatever the repository says (`GIT_WORK_TREE`).
    pub named: Option<PathBuf>,
    /// Its top unless the repository says otherwise. Without it, this is where the gitfile is that led to the repository.
    pub default: Option<PathBuf>,
    /// Only a name makes one: the caller's, or that of `core.worktree` (`GIT_IMPLICIT_WORK_TREE=0`).
    pub is_never_implied: bool,
}

impl Repository {
    /// Whether it has no work tree: by `core.bare`, which does not apply to linked work trees, or else by its name.
    /// As in git, only the repository itself sets it, and `core.worktree`.
    pub fn is_bare(&self) -> Result<bool, Error> {
        if self.work_tree.named.is_some() {
            return Ok(false);
        }
        if self.work_tree.is_never_implied && self.own_work_tree().is_none() {
            return Ok(true);
        }
        if self.is_linked() {
            return Ok(false);
        }
        let by_name = || {
            let has_other_name = self.git_dir.file_name().is_none_or(|name| name != ".git");
            has_other_name && self.work_tree.default.is_none() && self.own_work_tree().is_none()
        };
        Ok(self.config.own_boolean("core.bare")?.unwrap_or_else(by_name))
    }

    /// The top of the work tree; `None` for a bare repository, or if it cannot be determined.
    pub fn work_tree(&self) -> Result<Option<PathBuf>, Error> {
        if self.is_bare()? {
            return Ok(None);
        }
        let chosen = self.work_tree.named.clone().or_else(|| self.own_work_tree());
        if let Some(top) = chosen.or_else(|| self.work_tree.default.clone()) {
            return Ok(Some(top));
        }
        if self.is_linked() {
            // A linked work tree has a gitfile at its top, named here (gitrepository-layout, "worktrees").
            let gitfile = read_line(&self.git_dir.join("gitdir"))?;
            let gitfile = gitfile.map(|line| discovery::join(&self.git_dir, &line));
            return Ok(gitfile.and_then(|path| path.parent().map(Path::to_owned)));
        }
        Ok(self.git_dir.parent().map(Path::to_owned))
    }

    /// The top that `core.worktree` names, which does not apply to linked work trees.
    pub fn own_work_tree(&self) -> Option<PathBuf> {
        Some(discovery::join(&self.git_dir, self.work_tree_setting()?))
    }

    /// The value of this `core.worktree`.
    pub fn work_tree_setting(&self) -> Option<&[u8]> {
        let own = self.config.own_entries().filter(|(name, _)| *name == b"core.worktree");
        own.last().filter(|_| !self.is_linked()).and_then(|(_, value)| value)
    }

    fn is_linked(&self) -> bool {
        self.git_dir != self.common_dir
    }

    /// Which of these is the git directory, by whatever name.
    fn position_in(&self, dirs: &[PathBuf]) -> Option<usize> {
        let by_name = dirs.iter().position(|dir| *dir == self.git_dir);
        by_name.or_else(|| {
            let own = packrace_os::real_path(&self.git_dir).ok()?;
            dirs.iter().position(|dir| packrace_os::real_path(dir).is_ok_and(|real| real == own))
        })
    }
}

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
    if repository.position_in(&dirs).is_none() {
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
/// that work trees share belong to the one that the repository was opened in.
pub fn all_reflogs(repository: &Repository) -> Result<Vec<WorkTreeReflogs>, Error> {
    let mut reflogs = Vec::new();
    let dirs = git_dirs(repository)?;
    let here = repository.position_in(&dirs);
    for (number, dir) in dirs.into_iter().enumerate() {
        let refs = repository.refs().of_work_tree(dir);
        let mut names = refs.logged_names().map_err(Reason::Refs)?;
        names.retain(|name| here == Some(number) || is_per_worktree(name));
        reflogs.push(WorkTreeReflogs { refs, names });
    }
    Ok(reflogs)
}
