//! Work trees whose branch is pushed to (git-config, "receive.denyCurrentBranch"; githooks,
//! "push-to-checkout").
//!
//! Git checks and changes a work tree and its index: packrace has no commands for that.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_os::EntryType;
use packrace_os::child::Program;
use packrace_os::count::Role;
use packrace_store::refs::Value;
use packrace_store::{HooksFrom, Repository, Snapshot};

use super::commands::Push;
use super::hook_run::run;
use crate::error::Error;

/// The longest file that names a work tree.
const MAX_NAME_BYTES: u64 = 64 << 10;

/// A work tree and its branch.
#[derive(Debug)]
pub(super) struct NamedWorkTree {
    git_dir: PathBuf,
    /// Its top; `None` if unknown.
    top: Option<PathBuf>,
    /// The branch that is checked out.
    pub(super) head: Option<Vec<u8>>,
}

/// The work trees of a repository, its own first.
pub(super) fn work_trees(repository: &Repository) -> Result<Vec<NamedWorkTree>, Error> {
    let common = repository.common_dir();
    let mut trees = Vec::new();
    let mut add = |git_dir: PathBuf, top: Option<PathBuf>| -> Result<(), Error> {
        let head = branch_of(repository.refs().of_work_tree(git_dir.clone()).read(b"HEAD")?);
        trees.push(NamedWorkTree { git_dir, top, head });
        Ok(())
    };
    if !repository.is_bare()? {
        add(common.to_owned(), repository.work_tree()?)?;
    }
    let linked = common.join("worktrees");
    let entries = match packrace_os::list_dir(&linked, Role::Refs) {
        Ok(entries) => entries,
        Err(error) if packrace_os::is_absent(&error) => Vec::new(),
        Err(error) => return Err(Error::caused(linked.display(), error)),
    };
    for entry in entries.into_iter().filter(|entry| entry.kind == EntryType::Dir) {
        let git_dir = linked.join(entry.name);
        let top = top_of(&git_dir);
        add(git_dir, top)?;
    }
    Ok(trees)
}

/// The branch that `HEAD` of a work tree points to.
fn branch_of(head: Option<Value>) -> Option<Vec<u8>> {
    match head {
        Some(Value::Symbolic(target)) => Some(target),
        _ => None,
    }
}

/// The file `gitdir` names the gitfile at the top (gitrepository-layout, "worktrees").
fn top_of(git_dir: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let mut line = packrace_os::read_file(&git_dir.join("gitdir"), Role::Refs, MAX_NAME_BYTES).ok()?;
    line.truncate(line.trim_ascii_end().len());
    let gitfile = git_dir.join(OsString::from_vec(line));
    gitfile.parent().map(Path::to_owned)
}

impl Push<'_> {
    /// Updates a work tree to the commit that its branch is about to point to; returns why that is
    /// impossible.
    pub(super) fn update_work_tree(
        &self,
        tree: &NamedWorkTree,
        new: &ObjectId,
        snapshot: &Arc<Snapshot>,
    ) -> Result<Option<String>, Error> {
        const HOOK: &str = "push-to-checkout";
        let Some(top) = &tree.top else {
            return Ok(Some("denyCurrentBranch = updateInstead needs a worktree".to_owned()));
        };
        // Git reads all of the repository's own configuration, and runs the programs that it names.
        if self.call.hooks != HooksFrom::Repository
            || !self.call.subject.repository.config().ignored().is_empty()
        {
            return Ok(Some("denyCurrentBranch = updateInstead is not allowed by this server".to_owned()));
        }
        let real = |path: &Path| packrace_os::real_path(path).unwrap_or_else(|_| path.to_owned());
        let (top, git_dir) = (real(top), real(&tree.git_dir));
        let id = new.to_string();
        if self.hooks.is_any(HOOK)? {
            let variables = vec![
                ("GIT_DIR".into(), Some(git_dir.into_os_string())),
                ("GIT_WORK_TREE".into(), Some(top.into_os_string())),
            ];
            let is_content = self.run_hook(HOOK, &[id.as_bytes()], b"", variables)?;
            return Ok((!is_content).then(|| "push-to-checkout hook declined".to_owned()));
        }
        let head = match &tree.head {
            Some(name) => self.call.subject.repository.refs().resolve(name)?.map(|resolved| resolved.id),
            None => None,
        };
        let has_history = match &head {
            Some(id) => snapshot.contains(id)?,
            None => false,
        };
        let empty = snapshot.hash_kind().empty_tree().to_string();
        let base = if has_history { "HEAD" } else { &empty };
        let steps: [(&[&str], &str); 4] = [
            (&["update-index", "-q", "--ignore-submodules", "--refresh"], "Up-to-date check failed"),
            (
                &["diff-files", "--quiet", "--ignore-submodules", "--"],
                "Working directory has unstaged changes",
            ),
            (
                &["diff-index", "--quiet", "--cached", "--ignore-submodules", base, "--"],
                "Working directory has staged changes",
            ),
            (&["read-tree", "-u", "-m", &id], "Could not update working tree to new HEAD"),
        ];
        for (arguments, failed) in steps {
            let argv = ["git"].iter().chain(arguments).map(OsString::from).collect();
            let environment = vec![("GIT_DIR".into(), Some(git_dir.clone().into_os_string()))];
            let confinement = self.call.subject.confinement.clone();
            let program = Program {
                argv,
                hook: None,
                directory: top.clone(),
                environment,
                reads_messages: true,
                confinement,
            };
            if !run(&program, b"", &self.client)? {
                return Ok(Some(failed.to_owned()));
            }
        }
        Ok(None)
    }
}
