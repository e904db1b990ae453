//! Conflicts that were resolved before (git-rerere).

use std::process::Stdio;

use super::Context;
use crate::call::fatal::Fatal;

/// Lets git record conflicts, and resolve those that it knows: without git, they stay. The index has been written.
pub(super) fn resolve_known(context: &Context<'_>) -> Result<(), Fatal> {
    let Context { repository, call, .. } = context;
    let is_on = match repository.config().boolean("rerere.enabled")? {
        Some(is_on) => is_on,
        None => repository.common_dir().join("rr-cache").is_dir(),
    };
    let Some(mut git) = is_on.then(call.git).flatten() else { return Ok(()) };
    git.arg("rerere").current_dir(&context.top);
    git.env("GIT_DIR", repository.git_dir()).envs(call.environment.for_hooks(&call.globals));
    git.stdin(Stdio::null()).stdout(Stdio::null());
    if let Some(errors) = call.streams.errors.descriptor().map_err(Fatal::new)? {
        git.stderr(errors);
    }
    // Git says itself what goes wrong; the conflicts are there all the same.
    let _ = git.status();
    Ok(())
}
