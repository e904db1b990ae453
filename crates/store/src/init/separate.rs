//! A git directory outside its work tree (gitrepository-layout, "gitfile").

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};

use super::sync_dirs;
use crate::error::{Error, ErrorKind, Reason};
use crate::line_file::read_line;
use crate::publish::{Component, WritePolicy, dir_of};
use crate::repository::discovery;

/// Moves a git directory and updates its linked work trees.
pub fn move_repository(from: &Path, to: &Path, policy: WritePolicy) -> Result<(), Error> {
    if discovery::common_dir_of(from)? != from {
        let text = "--separate-git-dir is not supported in a linked work tree".to_owned();
        return Err(Reason::Refused(text).into());
    }
    durable::move_dir(from, to, Role::Config).map_err(|error| {
        let why = packrace_os::reason(&error);
        let words = format!("unable to move {} to {}: {why}", from.display(), to.display());
        Error::caused(ErrorKind::Refused, words, error)
    })?;
    sync_dirs(&[dir_of(from), dir_of(to)], policy)?;
    let worktrees = to.join("worktrees");
    let entries = match packrace_os::list_dir(&worktrees, Role::Config) {
        Err(error) if packrace_os::is_absent(&error) => return Ok(()),
        entries => entries.map_err(|error| Error::io(&worktrees, error))?,
    };
    for entry in entries {
        let own = worktrees.join(entry.name);
        if let Some(line) = read_line(&own.join("gitdir"))? {
            let gitfile = discovery::join(&own, &line);
            let is_there = packrace_os::identity(&gitfile, Role::Config).is_ok_and(|found| found.is_some());
            if is_there {
                write_gitfile(&gitfile, &own, policy)?;
            }
        }
    }
    Ok(())
}

/// Writes the gitfile that points to a git directory. It belongs to the work tree, so sharing does not
/// widen the umask.
pub fn write_gitfile(path: &Path, git_dir: &Path, policy: WritePolicy) -> Result<(), Error> {
    let io = |error| Error::io(path, error);
    let mut file = NewFile::create_temporary(dir_of(path), ".git.tmp-", 0o666, Role::Config).map_err(io)?;
    file.write(b"gitdir: ").map_err(io)?;
    file.write(git_dir.as_os_str().as_bytes()).map_err(io)?;
    file.write(b"\n").map_err(io)?;
    if policy.syncs(Component::Reference) {
        file.sync().map_err(io)?;
    }
    file.replace(path).map_err(io)?;
    sync_dirs(&[dir_of(path)], policy)
}
