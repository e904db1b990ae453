//! Where a command works: the top of the work tree, and the current directory in it.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_store::Repository;

use crate::args::Globals;
use crate::commands::{Fatal, in_directory};
use crate::environment::Environment;

/// A work tree and the current directory in it.
#[derive(Debug, Clone)]
pub struct WorkTree {
    /// The top, without links on the way.
    pub top: PathBuf,
    /// The same as the system finds it with least work: `.` where that is the current directory.
    pub place: PathBuf,
    /// The current directory, relative to the top, with a slash at its end unless it is the top.
    pub prefix: Vec<u8>,
}

impl WorkTree {
    /// That of a repository; a failure in git's words where it has none, or where the current directory is in the repository.
    pub fn of(repository: &Repository, globals: &Globals, environment: &Environment) -> Result<Self, Fatal> {
        let missing = || Fatal::new("this operation must be run in a work tree");
        let current = packrace_os::real_path(&in_directory(globals, Path::new("."))?).map_err(Fatal::new)?;
        let is_named = globals.git_dir.is_some() || environment.git_dir.is_some();
        let named = environment.init.work_tree.as_ref();
        let has_own = repository.config().string("core.worktree").is_some();
        let top = match named {
            Some(path) => current.join(path),
            None if is_named && !has_own && !repository.is_bare()? => current.clone(),
            None => repository.work_tree()?.ok_or_else(missing)?,
        };
        let top = packrace_os::real_path(&top).map_err(|_| missing())?;
        let git_dir = packrace_os::real_path(repository.git_dir()).map_err(Fatal::new)?;
        if current.starts_with(&git_dir) && named.is_none() && !is_named {
            return Err(missing());
        }
        let prefix = match current.strip_prefix(&top) {
            Ok(rest) if rest.as_os_str().is_empty() => Vec::new(),
            Ok(rest) => [rest.as_os_str().as_bytes(), b"/"].concat(),
            Err(_) => Vec::new(),
        };
        let is_here = current == top && globals.directories.is_empty();
        let place = if is_here { PathBuf::from(".") } else { top.clone() };
        Ok(WorkTree { top, place, prefix })
    }
}
