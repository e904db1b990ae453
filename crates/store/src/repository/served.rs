//! Decides which repositories below a served folder are served: docs/decisions/0031-what-is-served.md.
//!
//! A folder with `HEAD`, `objects` and `refs` is a repository anywhere, even among the files of a commit. So
//! a folder in the work tree or git directory of another repository is content and is not served.

use std::path::Path;

use super::discovery::{FoundGitDir, is_git_dir};
use crate::config::Served;
use crate::error::{Error, Reason};
use crate::file_dependencies::FileDependencies;

/// Refuses a repository that must not be served. `is_root`: the served folder itself was requested, which its
/// owner chose to serve. Adds its dependencies to `seen`.
pub(super) fn check(
    found: &FoundGitDir,
    common_dir: &Path,
    served: &Served,
    is_root: bool,
    seen: &mut FileDependencies,
) -> Result<(), Error> {
    let real = |path: &Path| packrace_os::real_path(path).map_err(|error| Error::io(path, error));
    let (git_dir, common) = (real(&found.git_dir)?, real(common_dir)?);
    if !is_root {
        for dir in [&git_dir, &common] {
            if !dir.starts_with(&served.root) {
                return Err(refused("leads out of the served folder"));
            }
        }
        // The directory of a linked work tree is inside its repository (gitrepository-layout, "worktrees"),
        // which is then what is served.
        let is_below = git_dir.parent().is_some_and(|parent| parent == common.join("worktrees"));
        let is_linked = is_below && found.gitfile.is_some();
        if git_dir != common && !is_linked {
            return Err(refused("names another repository in commondir"));
        }
        check_ancestors(&common, served, seen)?;
    }
    // Gives a clear error here. Every access below is checked anyway (`os::reach`), so this need not be
    // checked again.
    for name in ["objects", "objects/pack", "refs", "refs/heads", "logs"] {
        let dir = common.join(name);
        if packrace_os::real_path(&dir).is_ok_and(|real| !packrace_os::reach::is_allowed(&real)) {
            return Err(refused(&format!("its {name} lead out of the served folder")));
        }
    }
    Ok(())
}

/// Checks every folder from above `git_dir`, which has no links, up to the served one.
fn check_ancestors(git_dir: &Path, served: &Served, seen: &mut FileDependencies) -> Result<(), Error> {
    for above in git_dir.ancestors().skip(1).take_while(|above| above.starts_with(&served.root)) {
        let shown = above.strip_prefix(&served.root).unwrap_or(above).display();
        let shown = if above == served.root { "the served folder".to_owned() } else { shown.to_string() };
        let own = above.join(".git");
        if own != git_dir && is_there(&own, seen) {
            return Err(refused(&format!("lies in another repository's work tree: {shown}")));
        }
        if is_there(&above.join("HEAD"), seen) && is_git_dir(above, seen)? {
            return Err(refused(&format!("lies in another repository: {shown}")));
        }
    }
    Ok(())
}

fn is_there(path: &Path, seen: &mut FileDependencies) -> bool {
    seen.owner(path);
    packrace_os::owner(path).is_ok()
}

fn refused(why: &str) -> Error {
    Reason::Refused(why.to_owned()).into()
}
