//! The top of a command's work tree, and the current directory in it.

pub mod pathspec_file;

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use packrace_os::trace;
use packrace_store::{Config, Repository};
use packrace_worktree::index::IndexError;
use packrace_worktree::paths::said_of_outside;

use crate::call::Call;
use crate::call::discovery::{in_directory, named_git_dir, repository_as_it_is};
use crate::call::fatal::Fatal;

/// A work tree and the current directory in it.
#[derive(Debug, Clone)]
pub struct WorkTree {
    /// The top, with links resolved.
    pub top: PathBuf,
    /// The same as a path that is cheap to resolve: `.` if it is the current directory.
    pub place: PathBuf,
    /// Where git goes: the top, or the current directory if it is outside of the work tree.
    pub base: PathBuf,
    /// The current directory, relative to the top, with a slash at its end unless it is the top.
    pub prefix: Vec<u8>,
}

/// A path that git takes as it was typed, after it went to the top of the work tree: from there, or from the current directory if
/// that is in no work tree.
pub fn path_from_top(repository: &Repository, call: &Call, path: &Path) -> Result<PathBuf, Fatal> {
    path_from_top_of(WorkTree::find(repository, call)?.as_ref(), call, path)
}

/// The same for a work tree that was found, if there is one.
pub fn path_from_top_of(tree: Option<&WorkTree>, call: &Call, path: &Path) -> Result<PathBuf, Fatal> {
    match tree {
        Some(tree) => Ok(tree.base.join(path)),
        None => in_directory(call, path),
    }
}

/// Fails where a command cannot begin: outside of a repository, or without a work tree that it needs.
pub fn check_place(call: &Call, needs_work_tree: bool) -> Result<(), Fatal> {
    let repository = repository_as_it_is(call)?;
    if needs_work_tree {
        WorkTree::of(&repository, call)?;
    }
    Ok(())
}

/// An object directory that was typed, as git shows it.
pub fn typed_object_dir(repository: &Repository, call: &Call, typed: &Path) -> Result<PathBuf, Fatal> {
    if typed.as_os_str().is_empty() {
        return Err(Fatal::new("The empty string is not a valid path"));
    }
    let path = path_from_top(repository, call, typed)?;
    let shorter = path.strip_prefix(".").ok().filter(|path| !path.as_os_str().is_empty());
    Ok(shorter.map_or_else(|| path.clone(), Path::to_owned))
}

/// How git calls the git directory: as the caller names it, unless git has gone elsewhere or it is a file; or else as it is
/// seen from where git is, unless it has gone to the top of a work tree that was named. `None` if the current directory
/// cannot be read.
pub fn shown_git_dir(repository: &Repository, call: &Call, tree: Option<&WorkTree>) -> Option<PathBuf> {
    let start = packrace_os::real_path(&in_directory(call, Path::new(".")).ok()?).ok()?;
    let here = tree.map_or_else(|| Some(start.clone()), |tree| packrace_os::real_path(&tree.base).ok())?;
    let real = packrace_os::real_path(repository.git_dir()).ok()?;
    if let Some(named) = named_git_dir(call) {
        let is_directory = in_directory(call, named).is_ok_and(|path| path.is_dir());
        return Some(if start == here && is_directory { named.clone() } else { real });
    }
    let has_named_tree =
        call.environment.init.work_tree.is_some() || repository.config().string("core.worktree").is_some();
    Some(match () {
        () if start != here && has_named_tree => real,
        () if real == here => PathBuf::from("."),
        () if real == here.join(".git") => PathBuf::from(".git"),
        () => real,
    })
}

/// How git calls the object directory: below the git directory, if it is there.
pub fn shown_object_dir(repository: &Repository, call: &Call) -> PathBuf {
    let dir = repository.object_dir();
    let is_below = dir == repository.git_dir().join("objects");
    let tree = WorkTree::find(repository, call).ok().flatten();
    match shown_git_dir(repository, call, tree.as_ref()).filter(|_| is_below) {
        Some(git_dir) => git_dir.join("objects"),
        None => packrace_os::real_path(dir).unwrap_or_else(|_| dir.to_owned()),
    }
}

/// Why a repository of another hash cannot be added: its ids do not fit into the index.
pub(crate) const OTHER_HASH: &str = "cannot add a submodule of a different hash algorithm";

/// Starts git's file system monitor for a work tree, as git does; false if there is no git, or it cannot.
pub(crate) fn start_monitor(call: &Call, repository: &Repository, top: &Path) -> bool {
    let Some(mut git) = (call.git)() else { return false };
    git.args(["fsmonitor--daemon", "start"]).current_dir(top);
    git.env("GIT_DIR", repository.git_dir()).env("GIT_WORK_TREE", top);
    git.envs(call.environment.for_hooks(&call.globals));
    git.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let traced = trace::child_inside(&["git", "fsmonitor--daemon", "start"]);
    trace::during(traced, || git.status()).is_ok_and(|status| status.success())
}

/// The hint that git gives when it expands the directories of a sparse index.
pub(crate) fn sparse_index_expanded(call: &Call, config: &Config) -> Result<(), Fatal> {
    let text = "The sparse index is expanding to a full index, a slow operation.\n\
                Your working directory likely has contents that are outside of\n\
                your sparse-checkout patterns. Use 'git sparse-checkout list' to\n\
                see your sparse-checkout definition and compare it to your working\n\
                directory contents. Cleaning up any merge conflicts or staged\n\
                changes before running 'git sparse-checkout clean' or 'git\n\
                sparse-checkout reapply' may assist in this cleanup.";
    call.hint(config, "sparseIndexExpanded", text)
}

/// What is said of an index that cannot be used. A damaged one is called as git calls it.
pub(crate) fn damaged_index(
    error: IndexError,
    repository: &Repository,
    call: &Call,
    tree: Option<&WorkTree>,
) -> Fatal {
    let shown = |path: PathBuf| {
        let dir = || shown_git_dir(repository, call, tree);
        let named = call.environment.index_file.clone().filter(|_| path == repository.index_file());
        let name = path.strip_prefix(repository.git_dir()).ok();
        named.or_else(|| Some(dir()?.join(name?))).unwrap_or(path)
    };
    match error {
        IndexError::Damaged { path, source } => IndexError::Damaged { path: shown(path), source }.into(),
        IndexError::Unreadable { path, source } => {
            IndexError::Unreadable { path: shown(path), source }.into()
        }
        other => other.into(),
    }
}

impl WorkTree {
    /// The work tree of a repository; an error with git's message if there is none, or inside the git
    /// directory.
    pub fn of(repository: &Repository, call: &Call) -> Result<Self, Fatal> {
        WorkTree::find(repository, call)?.ok_or_else(|| WorkTree::missing(repository))
    }

    /// That there is none, in git's words.
    pub fn missing(repository: &Repository) -> Fatal {
        match repository.own_work_tree().is_some() && repository.is_bare().unwrap_or(false) {
            true => Fatal::new("unable to set up work tree using invalid config"),
            false => Fatal::new("this operation must be run in a work tree"),
        }
    }

    /// The same for a command that can run without a work tree.
    pub fn find(repository: &Repository, call: &Call) -> Result<Option<Self>, Fatal> {
        let current = packrace_os::real_path(&in_directory(call, Path::new("."))?).map_err(Fatal::new)?;
        let is_chosen = named_git_dir(call).is_some()
            || call.environment.init.work_tree.is_some()
            || repository.own_work_tree().is_some();
        let Some(top) = repository.work_tree()?.and_then(|top| packrace_os::real_path(&top).ok()) else {
            return Ok(None);
        };
        let git_dir = packrace_os::real_path(repository.git_dir()).map_err(Fatal::new)?;
        if !is_chosen && current.starts_with(&git_dir) {
            return Ok(None);
        }
        let prefix = match current.strip_prefix(&top) {
            Ok(rest) if rest.as_os_str().is_empty() => Vec::new(),
            Ok(rest) => [rest.as_os_str().as_bytes(), b"/"].concat(),
            Err(_) => Vec::new(),
        };
        let is_here = current == top && call.globals.directories.is_empty();
        let place = if is_here { PathBuf::from(".") } else { top.clone() };
        let base = if current.starts_with(&top) { place.clone() } else { current };
        Ok(Some(WorkTree { top, place, base, prefix }))
    }

    /// A typed path, relative to the top; a trailing slash stays: it marks a directory.
    pub fn path(&self, typed: &[u8]) -> Result<Vec<u8>, Fatal> {
        let outside = || Fatal::new(said_of_outside(typed, self.top.as_os_str().as_bytes()));
        let below = match typed.strip_prefix(b"/") {
            None => [self.prefix.as_slice(), typed].concat(),
            Some(_) => self.below_top(typed).ok_or_else(outside)?,
        };
        let mut parts: Vec<&[u8]> = Vec::new();
        let mut ends_with_slash = false;
        for part in below.split(|byte| *byte == b'/') {
            ends_with_slash = part.is_empty() || part == b"." || part == b"..";
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop().ok_or_else(outside)?),
                name => parts.push(name),
            }
        }
        let mut path = parts.join(&b'/');
        if ends_with_slash && !path.is_empty() {
            path.push(b'/');
        }
        Ok(path)
    }

    /// The part of an absolute path below the top, which may be reached over links.
    fn below_top(&self, typed: &[u8]) -> Option<Vec<u8>> {
        let path = Path::new(std::ffi::OsStr::from_bytes(typed));
        if let Ok(below) = path.strip_prefix(&self.top) {
            return Some(below.as_os_str().as_bytes().to_vec());
        }
        let mut above = path.parent();
        while let Some(dir) = above {
            if packrace_os::real_path(dir).is_ok_and(|real| real == self.top) {
                return path.strip_prefix(dir).ok().map(|below| below.as_os_str().as_bytes().to_vec());
            }
            above = dir.parent();
        }
        None
    }
}
