//! What a merge, cherry-pick or revert in progress leaves in the git directory.

use packrace_os::count::Role;
use packrace_os::durable;
use packrace_store::refs::{Expected, RefChange, RefEdit, TransactionMode};

use super::{Context, complain};
use crate::call::fatal::Fatal;
use crate::ref_changes::{RefChanges, edit};

/// Files of operations that are no refs.
const FILES: [&str; 5] = ["MERGE_HEAD", "MERGE_RR", "MERGE_MSG", "MERGE_MODE", "SQUASH_MSG"];

/// Refs of operations, and what is said if one is given up.
const REFS: [(&[u8], Option<&str>); 3] = [
    (b"CHERRY_PICK_HEAD", Some("warning: cancelling a cherry picking in progress")),
    (b"REVERT_HEAD", Some("warning: cancelling a revert in progress")),
    (b"AUTO_MERGE", None),
];

/// The longest list of commits that is read: longer ones are not done after the next commit.
const MAX_TODO_BYTES: u64 = 1 << 16;

/// Forgets the operation in progress, as `git reset --hard` does: a later commit would conclude a merge whose changes are in the
/// stash.
pub(super) fn forget_operation(context: &Context<'_>, warns: bool) -> Result<(), Fatal> {
    let mut edits = Vec::new();
    for (name, warning) in REFS {
        if context.repository.refs().read(name).map_err(Fatal::new)?.is_none() {
            continue;
        }
        if let (true, Some(warning)) = (warns, warning) {
            complain(context.call, &[warning.to_owned()]);
        }
        let edit = edit(name, RefChange::Delete, Expected::Any, &Vec::new().into());
        edits.push(RefEdit { deref: false, ..edit });
    }
    let was_picking = edits.iter().any(|edit| edit.name != b"AUTO_MERGE");
    if !edits.is_empty() {
        RefChanges::new(context.repository, context.call)?.run(edits, TransactionMode::Atomic)?;
    }
    let git_dir = context.repository.git_dir();
    let failed = |path: &std::path::Path, error: std::io::Error| {
        Fatal::new(format!("unable to unlink '{}': {}", path.display(), packrace_os::reason(&error)))
    };
    let sequencer = git_dir.join("sequencer");
    if was_picking && is_last_pick(&sequencer.join("todo")) {
        std::fs::remove_dir_all(&sequencer).map_err(|error| failed(&sequencer, error))?;
    }
    for name in FILES {
        let path = git_dir.join(name);
        durable::remove_file(&path, Role::Config).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Whether no commit is left to pick after this one.
fn is_last_pick(todo: &std::path::Path) -> bool {
    let text = packrace_os::read_file(todo, Role::Config, MAX_TODO_BYTES);
    text.is_ok_and(|text| text.trim_ascii_end().iter().filter(|byte| **byte == b'\n').count() == 0)
}
