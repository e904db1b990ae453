//! `git write-tree`: writes the index as tree objects.

use packrace_store::publish::{BatchOptions, ObjectBatch};
use packrace_worktree::index::{IndexLock, TreeError};

use crate::call::Call;
use crate::call::discovery::repository;
use crate::call::fatal::{Fatal, is_forbidden};
use crate::hooks::{IndexChange, index_changed};
use crate::options::WriteTreeOptions;
use crate::work_tree::{WorkTree, damaged_index, start_monitor};

/// What is said if a tree cannot be made.
const BUILDING: &str = "git-write-tree: error building trees";

/// Implements `git write-tree`.
pub fn run(call: &Call, args: &WriteTreeOptions) -> Result<(), Fatal> {
    let repository = repository(call)?;
    let mut lock = match IndexLock::take_even_nameless(&repository) {
        Ok(lock) => lock,
        Err(error) => {
            let tree = WorkTree::find(&repository, call)?;
            return Err(damaged_index(error, &repository, call, tree.as_ref()));
        }
    };
    if let Ok(tree) = WorkTree::of(&repository, call) {
        let start = || start_monitor(call, &repository, &tree.top);
        lock.follow_in_passing(&repository, &tree.top, &start)?;
    }
    let options = BatchOptions::of(repository.config())?;
    let batch = ObjectBatch::new(repository.object_dir(), repository.snapshot()?, options);
    let prefix = args.prefix.as_ref().map(|prefix| prefix.as_encoded_bytes()).unwrap_or_default();
    let dir = directory(prefix);
    let id =
        lock.index_mut().write_tree(&batch, &dir, args.missing_ok).map_err(|error| failed(call, &error))?;
    let id = id.ok_or_else(|| {
        let prefix = String::from_utf8_lossy(prefix);
        Fatal::new(format!("git-write-tree: prefix {prefix} not found"))
    })?;
    if lock.index().is_changed() {
        lock.fold(&batch)?;
    }
    let published = batch.publish().map_err(|error| match is_forbidden(&error) {
        true => Fatal::new(BUILDING).after(format!("error: {}\n", Fatal::new(error).message)),
        false => error.into(),
    });
    let stored = published?.stored();
    // The cached trees are optional: without write access to the index, the trees are still written.
    if lock.index().is_changed() && !lock.is_nameless() {
        match lock.commit(&stored, &mut |_, _| false) {
            Ok(()) => index_changed(call, &repository, IndexChange::Alone)?,
            Err(error) => {
                error_line!(call, "warning: {}", error.cause().unwrap_or_else(|| error.to_string()));
            }
        }
    }
    call.write_line(id.to_string())
}

/// The directory of a prefix: as in git, several slashes behind a name count as one, and any before the first are kept.
fn directory(prefix: &[u8]) -> Vec<u8> {
    if prefix.starts_with(b"/") {
        return prefix.to_vec();
    }
    let names: Vec<&[u8]> = prefix.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    names.join(&b'/')
}

fn failed(call: &Call, error: &TreeError) -> Fatal {
    match error {
        TreeError::Unmerged(lines) => lines.iter().for_each(|line| {
            // If standard error is closed, the message is lost.
            let _ = call.streams.errors.say(&[line.as_slice(), b"\n"].concat());
        }),
        other => error_line!(call, "error: {other}"),
    }
    Fatal::new(BUILDING)
}
