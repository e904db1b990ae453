//! `GIT_TRACE_SETUP` (git(1)): the repository and the directories of a command, once they are found.

use std::path::{Path, PathBuf};

use packrace_store::Repository;

use crate::call::Call;
use crate::call::discovery::in_directory;
use crate::work_tree::{WorkTree, shown_git_dir};

/// The lines in git's order; `None` if the current directory cannot be read. Git would be at the top of the work tree by now.
pub(super) fn lines(call: &Call, repository: &Repository, tree: Option<&WorkTree>) -> Option<Vec<String>> {
    let start = packrace_os::real_path(&in_directory(call, Path::new(".")).ok()?).ok()?;
    let here = tree.map_or_else(|| Some(start.clone()), |tree| packrace_os::real_path(&tree.base).ok())?;
    let git_dir = shown_git_dir(repository, call, tree)?;
    let is_linked = repository.git_dir() != repository.common_dir();
    let common_dir = match is_linked {
        true => packrace_os::real_path(repository.common_dir()).ok()?,
        false => git_dir.clone(),
    };
    // Also one that does not exist.
    let named_top = call.environment.init.work_tree.as_ref().map(|top| real_or_below(&start.join(top)));
    let top = tree.map(|tree| tree.top.clone()).or(named_top);
    let none = || "(null)".to_owned();
    let prefix = tree.map(|tree| String::from_utf8_lossy(&tree.prefix).into_owned());
    Some(vec![
        format!("setup: git_dir: {}", git_dir.display()),
        format!("setup: git_common_dir: {}", common_dir.display()),
        format!("setup: worktree: {}", top.map_or_else(none, |top| top.display().to_string())),
        format!("setup: cwd: {}", here.display()),
        format!("setup: prefix: {}", prefix.filter(|prefix| !prefix.is_empty()).unwrap_or_else(none)),
    ])
}

/// The path without links and `..`; its last part need not exist.
fn real_or_below(path: &Path) -> PathBuf {
    let below = || Some(packrace_os::real_path(path.parent()?).ok()?.join(path.file_name()?));
    packrace_os::real_path(path).ok().or_else(below).unwrap_or_else(|| path.to_owned())
}
