//! What git does, if there is one: it knows earlier resolutions of conflicts (git-rerere), and statuses of operations that packrace
//! has not.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use packrace_os::count::Role;
use packrace_worktree::index::Mode;
use packrace_worktree::stash::StashSession;

use super::Context;
use crate::call::fatal::Fatal;

/// What is in the git directory during operations that a status tells of, except merges.
const OPERATIONS: [&str; 6] =
    ["BISECT_LOG", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-apply", "rebase-merge", "sequencer"];

/// Settings of a status that packrace follows.
const KNOWN_OF_STATUS: [&[u8]; 5] = [
    b"status.relativepaths",
    b"status.renames",
    b"status.renamelimit",
    b"status.short",
    b"status.showuntrackedfiles",
];

/// Lets git record conflicts, and resolve those that it knows: without git, they stay. The index has been written.
pub(super) fn resolve_known(context: &Context<'_>) -> Result<(), Fatal> {
    let repository = context.repository;
    let is_on = match repository.config().boolean("rerere.enabled")? {
        Some(is_on) => is_on,
        None => repository.common_dir().join("rr-cache").is_dir(),
    };
    if let Some(mut git) = is_on.then(|| git(context)).transpose()?.flatten() {
        git.arg("rerere").stdout(Stdio::null());
        // Git says itself what goes wrong; the conflicts are there all the same.
        let _ = git.status();
    }
    Ok(())
}

/// Whether a submodule is checked out: only git looks for changes in it.
pub(super) fn has_submodules(session: &StashSession<'_>, top: &Path) -> bool {
    let mut links = session.index().entries().filter(|(_, entry)| entry.mode == Mode::Gitlink);
    links.any(|(key, _)| {
        let inside = top.join(OsStr::from_bytes(key.path())).join(".git");
        packrace_os::identity(&inside, Role::WorkTree).is_ok_and(|found| found.is_some())
    })
}

/// Lets git print a status that packrace cannot: during other operations than merges, in a form of the user's, or if
/// `is_needed`. Returns whether it did.
pub(super) fn show_status(context: &Context<'_>, is_needed: bool) -> Result<bool, Fatal> {
    let config = context.repository.config();
    let is_there = |name: &&str| {
        let found = packrace_os::identity(&context.repository.git_dir().join(name), Role::Refs);
        found.is_ok_and(|found| found.is_some())
    };
    let is_formed = config.section("color").any(|(key, _)| key.starts_with(b"color.status."))
        || config.section("status").any(|(key, _)| !KNOWN_OF_STATUS.contains(&key));
    if !is_needed && !is_formed && !OPERATIONS.iter().any(is_there) {
        return Ok(false);
    }
    let Some(mut git) = git(context)? else { return Ok(false) };
    git.arg("status");
    let call = context.call;
    call.streams.output().flush().map_err(Fatal::new)?;
    match call.streams.output().descriptor().map_err(Fatal::new)? {
        Some(output) => {
            git.stdout(output);
            Ok(git.status().is_ok())
        }
        None => match git.output() {
            Ok(output) => call.write(&output.stdout).map(|()| true),
            Err(_) => Ok(false),
        },
    }
}

/// A call of git for this repository and directory.
fn git(context: &Context<'_>) -> Result<Option<Command>, Fatal> {
    let Context { repository, call, .. } = context;
    let Some(mut git) = (call.git)() else { return Ok(None) };
    git.current_dir(context.top.join(OsStr::from_bytes(&context.prefix)));
    git.env("GIT_DIR", repository.git_dir()).env("GIT_WORK_TREE", &context.top);
    git.envs(call.environment.for_hooks(&call.globals)).stdin(Stdio::null());
    if let Some(errors) = call.streams.errors.descriptor().map_err(Fatal::new)? {
        git.stderr(errors);
    }
    Ok(Some(git))
}
