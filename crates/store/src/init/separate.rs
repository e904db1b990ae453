//! A git directory outside its work tree (gitrepository-layout, "gitfile").

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};

use super::{git_dir_at, sync_dirs};
use crate::error::{Error, ErrorKind, Reason};
use crate::line_file::read_line;
use crate::publish::{Component, WritePolicy, dir_of};
use crate::repository::discovery;

/// A git directory that moves, and the file that will point to it.
#[derive(Debug)]
pub struct Separation {
    /// The git directory.
    pub from: PathBuf,
    /// The file.
    pub gitfile: PathBuf,
}

impl Separation {
    /// What moves if the work tree at whose top `git` stands is separated from its repository: of a linked work
    /// tree, the repository of the main one.
    pub fn of(git: &Path) -> Result<Self, Error> {
        let real = |path: &Path| packrace_os::real_path(path).unwrap_or_else(|_| path.to_owned());
        let gitfile = real(git);
        let from = real(&git_dir_at(git)?);
        let common_dir = real(&discovery::common_dir_of(&from)?);
        if common_dir == from {
            return Ok(Separation { from, gitfile });
        }
        // Only the directory `.git` of the main work tree shows where that is.
        match common_dir.file_name().is_some_and(|name| name == ".git") {
            true => Ok(Separation { gitfile: common_dir.clone(), from: common_dir }),
            false => {
                let text = "--separate-git-dir incompatible with bare repository".to_owned();
                Err(Reason::Refused(text).into())
            }
        }
    }

    /// Moves the git directory and updates its linked work trees.
    pub fn carry_out(&self, to: &Path, policy: WritePolicy) -> Result<(), Error> {
        let from = &self.from;
        let links = links(&from.join("worktrees"))?;
        durable::move_dir(from, to, Role::Config).map_err(|error| {
            let why = packrace_os::reason(&error);
            let words = format!("unable to move {} to {}: {why}", from.display(), to.display());
            Error::caused(ErrorKind::Refused, words, error)
        })?;
        sync_dirs(&[dir_of(from), dir_of(to)], policy)?;
        for TreeLink { name, gitfile, is_relative } in links {
            let own = to.join("worktrees").join(name);
            if is_relative {
                write_line(&own.join("gitdir"), b"", &from_dir_to(&own, &gitfile), policy)?;
                write_gitfile(&gitfile, &from_dir_to(dir_of(&gitfile), &own), policy)?;
            } else {
                write_gitfile(&gitfile, &own, policy)?;
            }
        }
        write_gitfile(&self.gitfile, to, policy)
    }
}

/// A linked work tree that exists.
struct TreeLink {
    name: OsString,
    gitfile: PathBuf,
    /// Whether its paths are relative (`worktree.useRelativePaths`).
    is_relative: bool,
}

fn links(worktrees: &Path) -> Result<Vec<TreeLink>, Error> {
    let entries = match packrace_os::list_dir(worktrees, Role::Config) {
        Err(error) if packrace_os::is_absent(&error) => return Ok(Vec::new()),
        entries => entries.map_err(|error| Error::io(worktrees, error))?,
    };
    let mut links = Vec::new();
    for entry in entries {
        let own = worktrees.join(&entry.name);
        let Some(line) = read_line(&own.join("gitdir"))? else { continue };
        if let Ok(gitfile) = packrace_os::real_path(&discovery::join(&own, &line)) {
            links.push(TreeLink { name: entry.name, gitfile, is_relative: !line.starts_with(b"/") });
        }
    }
    Ok(links)
}

/// The relative path from a directory to a path, both absolute and without links.
fn from_dir_to(dir: &Path, path: &Path) -> PathBuf {
    let shared = dir.components().zip(path.components()).take_while(|(one, other)| one == other).count();
    let up = dir.components().skip(shared).map(|_| std::path::Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

/// Writes the gitfile that points to a git directory. It belongs to the work tree, so sharing does not
/// widen the umask.
pub fn write_gitfile(path: &Path, git_dir: &Path, policy: WritePolicy) -> Result<(), Error> {
    write_line(path, b"gitdir: ", git_dir, policy)
}

/// Replaces a file with one line that ends in a path.
fn write_line(path: &Path, before: &[u8], named: &Path, policy: WritePolicy) -> Result<(), Error> {
    let io = |error| Error::io(path, error);
    let mut file = NewFile::create_temporary(dir_of(path), ".git.tmp-", 0o666, Role::Config).map_err(io)?;
    file.write(before).map_err(io)?;
    file.write(named.as_os_str().as_bytes()).map_err(io)?;
    file.write(b"\n").map_err(io)?;
    if policy.syncs(Component::Reference) {
        file.sync().map_err(io)?;
    }
    file.replace(path).map_err(io)?;
    sync_dirs(&[dir_of(path)], policy)
}
