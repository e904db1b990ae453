//! The work tree in which a branch is checked out (gitrepository-layout, "worktrees").

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_os::EntryType;
use packrace_os::count::Role;
use packrace_store::Repository;

use super::names::symbolic_end;
use crate::call::fatal::Fatal;

/// Paths of work trees by checked-out branch.
pub type Heads = HashMap<Vec<u8>, Vec<u8>>;

/// Longest file with a work tree's path.
const MAX_GITDIR_BYTES: u64 = 64 << 10;

/// Reads `HEAD` of the main work tree and of linked ones.
pub fn heads(repository: &Repository) -> Result<Heads, Fatal> {
    let mut heads = Heads::new();
    let common = packrace_os::real_path(repository.common_dir()).map_err(Fatal::new)?;
    let main = match common.file_name().is_some_and(|name| name == ".git") {
        true => common.parent().map(Path::to_owned).unwrap_or_default(),
        false => common.clone(),
    };
    add(repository, common.clone(), &main, &mut heads)?;
    let linked = common.join("worktrees");
    let entries = match packrace_os::list_dir(&linked, Role::Refs) {
        Ok(entries) => entries,
        Err(error) if packrace_os::is_absent(&error) => return Ok(heads),
        Err(error) => return Err(Fatal::new(format!("{}: {error}", linked.display()))),
    };
    for entry in entries.iter().filter(|entry| entry.kind == EntryType::Dir) {
        let dir = linked.join(&entry.name);
        let Ok(text) = packrace_os::read_file(&dir.join("gitdir"), Role::Config, MAX_GITDIR_BYTES) else {
            continue;
        };
        if text.is_empty() {
            continue;
        }
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(text.trim_ascii_end()));
        let path = if path.is_absolute() { path } else { dir.join(path) };
        let path =
            if path.ends_with(".git") { path.parent().map(Path::to_owned).unwrap_or_default() } else { path };
        add(repository, dir, &path, &mut heads)?;
    }
    Ok(heads)
}

fn add(repository: &Repository, git_dir: PathBuf, path: &Path, heads: &mut Heads) -> Result<(), Fatal> {
    let refs = repository.refs().of_work_tree(git_dir).snapshot(&[b"refs/worktree/"]).map_err(Fatal::new)?;
    if let Some(head) = symbolic_end(&refs, b"HEAD")? {
        heads.entry(head).or_insert_with(|| path.as_os_str().as_bytes().to_vec());
    }
    Ok(())
}
