//! The work tree that a command runs in, and paths in it as they were typed.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_store::Repository;

use super::{Fatal, in_directory};
use crate::args::Globals;
use crate::environment::Environment;

/// A work tree, and where in it we are.
pub struct WorkTree {
    /// Its top, without links.
    pub top: PathBuf,
    /// From the top to the current directory, with a slash behind each name.
    prefix: Vec<u8>,
}

impl WorkTree {
    /// That of a repository; none for a bare one, and for who is in no work tree.
    pub fn find(
        repository: &Repository,
        globals: &Globals,
        environment: &Environment,
    ) -> Result<Option<Self>, Fatal> {
        let here = in_directory(globals, Path::new("."))?;
        let here = packrace_os::real_path(&here).map_err(Fatal::new)?;
        let is_named = globals.git_dir.is_some() || environment.git_dir.is_some();
        let top = match &environment.init.work_tree {
            Some(named) if is_named => Some(in_directory(globals, named)?),
            // Where only the repository is named, one is at the top.
            _ if is_named && repository.config().string("core.worktree").is_none() => {
                let is_bare = repository.config().boolean("core.bare")?.unwrap_or(false);
                (!is_bare).then(|| here.clone())
            }
            _ => repository.work_tree()?,
        };
        let Some(top) = top else { return Ok(None) };
        let top = packrace_os::real_path(&top).map_err(Fatal::new)?;
        let git_dir = packrace_os::real_path(repository.git_dir()).map_err(Fatal::new)?;
        if !is_named && here.starts_with(&git_dir) {
            return Ok(None);
        }
        let mut prefix = Vec::new();
        for part in here.strip_prefix(&top).unwrap_or(Path::new("")) {
            prefix.extend_from_slice(part.as_bytes());
            prefix.push(b'/');
        }
        Ok(Some(WorkTree { top, prefix }))
    }

    /// From the top to the current directory, with a slash at its end unless it is the top.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// A path that was typed, from the top; a slash at its end stays, so that it is seen to be none of a file.
    pub fn path(&self, typed: &[u8]) -> Result<Vec<u8>, Fatal> {
        let outside = || {
            let (typed, top) = (String::from_utf8_lossy(typed), self.top.display());
            Fatal::new(format!("'{typed}' is outside repository at '{top}'"))
        };
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
        if ends_with_slash && !path.is_empty() && !typed.is_empty() {
            path.push(b'/');
        }
        Ok(path)
    }

    /// What follows the top in an absolute path, which may lead there over links.
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
