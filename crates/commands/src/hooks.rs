//! Hooks of a repository, for commands.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use packrace_store::{Hooks, MessageSink, Repository};

use crate::call::Call;
use crate::call::discovery::{in_directory, named_git_dir};
use crate::call::fatal::Fatal;

/// What a new index came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexChange {
    /// Nothing else.
    Alone,
    /// Files of the work tree changed, too.
    WithWorkTree,
    /// The bit `skip-worktree` of entries may have changed.
    WithSkipWorktree,
}

/// The hooks of a repository; what they print goes to standard error.
pub fn of(call: &Call, repository: &Repository) -> Result<Hooks, Fatal> {
    // If standard error is closed, messages are lost.
    let errors = call.streams.errors.clone();
    let outlet = MessageSink::new(move |bytes| drop(errors.say(bytes)));
    let has_tree = repository.work_tree()?.is_some();
    let hooks = Hooks::of(repository, variables(call, has_tree), outlet)?;
    let hooks = hooks.called_in(in_directory(call, Path::new("."))?);
    Ok(if is_named(call) { hooks } else { hooks.of_found_repository() })
}

/// What filters get beside the variables of this process, in a work tree with this top, if there is one. The current
/// directory is `prefix`.
pub fn variables_of_filters(
    call: &Call,
    repository: &Repository,
    top: Option<&Path>,
    prefix: &[u8],
) -> Vec<(OsString, OsString)> {
    let mut variables = variables(call, top.is_some());
    variables.push(("GIT_PREFIX".into(), OsString::from_vec(prefix.to_vec())));
    // As for hooks, what a filter finds by itself is not named.
    let is_found = |git_dir: &Path| !is_named(call) && top.is_some_and(|top| top.join(".git") == git_dir);
    let git_dir = repository.git_dir();
    if !is_found(git_dir) {
        let git_dir = packrace_os::real_path(git_dir).unwrap_or_else(|_| git_dir.to_owned());
        if !is_found(&git_dir) {
            variables.push(("GIT_DIR".into(), git_dir.into_os_string()));
        }
    }
    variables
}

/// What all programs get that run at the top of a work tree.
fn variables(call: &Call, has_tree: bool) -> Vec<(OsString, OsString)> {
    let mut variables = call.environment.for_hooks(&call.globals);
    if has_tree && call.environment.init.work_tree.is_some() {
        variables.push(("GIT_WORK_TREE".into(), ".".into()));
    }
    variables
}

/// Whether the user says where the repository or its work tree is.
fn is_named(call: &Call) -> bool {
    named_git_dir(call).is_some() || call.environment.init.work_tree.is_some()
}

/// Runs the hook `post-index-change` (githooks). The index has changed already, so the hook's exit code does not matter.
pub fn index_changed(call: &Call, repository: &Repository, change: IndexChange) -> Result<(), Fatal> {
    const NAME: &str = "post-index-change";
    let flag = |is_set: bool| if is_set { b"1" } else { b"0" };
    let work_tree = flag(change == IndexChange::WithWorkTree);
    let skip_worktree = flag(change == IndexChange::WithSkipWorktree);
    if let Err(error) = of(call, repository)?.run(NAME, &[work_tree, skip_worktree], b"") {
        error_line!(call, "error: cannot run {NAME}: {error}");
    }
    Ok(())
}
