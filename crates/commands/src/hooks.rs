//! Hooks of a repository, for commands.

use packrace_store::{Hooks, MessageSink, Repository};

use crate::call::Call;
use crate::call::discovery::named_git_dir;
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
    let hooks = Hooks::of(repository, call.environment.for_hooks(&call.globals), outlet)?;
    let is_named = named_git_dir(call).is_some() || call.environment.init.work_tree.is_some();
    Ok(if is_named { hooks } else { hooks.of_found_repository() })
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
