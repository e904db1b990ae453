//! `stash branch`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use packrace_object::{Kind, ObjectId, parse_commit};
use packrace_store::refs::{Expected, RefChange, RefEdit, TransactionMode, Value, is_ref_name};
use packrace_worktree::listing::list;
use packrace_worktree::stash::{IndexMode, StashSession};
use packrace_worktree::status::{FileState, UntrackedMode};

use super::{Context, apply, complain, entries, say, state};
use crate::call::fatal::Fatal;
use crate::hooks::IndexChange;
use crate::ref_changes::{RefChanges, edit};
use crate::text::quoting::PathStyle;

pub(super) fn run(context: &Context<'_>, arguments: &[OsString]) -> Result<(), Fatal> {
    let Some((name, rest)) = arguments.split_first() else {
        complain(context.call, &["No branch name specified".to_owned()]);
        return Err(Fatal::silent(1));
    };
    let entry = entries::find(context, rest)?;
    let name = name.as_encoded_bytes();
    let shown = String::from_utf8_lossy(name).into_owned();
    let full = [b"refs/heads/", name].concat();
    let refuse = |why: String| {
        complain(context.call, &[why]);
        Err(Fatal::silent(1))
    };
    if !is_ref_name(&full) || name.starts_with(b"-") || name == b"HEAD" {
        complain(context.call, &[format!("fatal: '{shown}' is not a valid branch name")]);
        let config = context.repository.config();
        context.call.hint(config, "refSyntax", "See 'git help check-ref-format'")?;
        return Err(Fatal::silent(1));
    }
    if context.repository.refs().read(&full).map_err(Fatal::new)?.is_some() {
        return refuse(format!("fatal: a branch named '{shown}' already exists"));
    }
    let carried = check_out(context, &full, &entry.stash.base)?;
    complain(context.call, &[format!("Switched to a new branch '{shown}'")]);
    state::forget_operation(context, true)?;
    for line in carried {
        say(context.call, &[&line])?;
    }
    apply::apply(context, &entry.stash, IndexMode::Restored, &apply::usual_names(), false)?;
    match entry.is_listed {
        true => entries::drop_entry(context, &entry, false),
        false => Ok(()),
    }
}

/// Checks out a commit on a new branch. Returns lines for files that differ from it.
fn check_out(context: &Context<'_>, branch: &[u8], commit: &ObjectId) -> Result<Vec<Vec<u8>>, Fatal> {
    let mut session = context.begin()?;
    let objects = session.objects().clone();
    let head = context.head(&objects)?;
    let content = objects.read_as(commit, Kind::Commit)?;
    let tree = parse_commit(&content, objects.hash_kind()).map_err(Fatal::new)?.tree;
    let to = list(&objects, &tree)?;
    let from = match &head {
        Some(head) => list(&objects, &head.tree)?,
        None => packrace_worktree::listing::Listing::new(),
    };
    if let Err(blocked) = session.switch(&from, &to)? {
        complain(context.call, &[blocked.message("checkout", "switch branches").trim_end().to_owned()]);
        return Err(Fatal::silent(1));
    }
    let carried = carried(context, &mut session, &tree)?;
    context.finish(session, IndexChange::WithWorkTree)?;
    let mut changes = RefChanges::new(context.repository, context.call)?;
    let before = match context.repository.refs().read(b"HEAD").map_err(Fatal::new)? {
        Some(Value::Symbolic(name)) => name.strip_prefix(b"refs/heads/").unwrap_or(&name).to_vec(),
        _ => head.map(|head| head.commit.to_hex().to_string().into_bytes()).unwrap_or_default(),
    };
    let created: Arc<[u8]> = format!("branch: Created from {commit}").into_bytes().into();
    changes.run(
        vec![edit(branch, RefChange::Set(*commit), Expected::Absent, &created)],
        TransactionMode::Atomic,
    )?;
    let name = branch.strip_prefix(b"refs/heads/").unwrap_or(branch);
    let moved: Arc<[u8]> = [b"checkout: moving from ", &before[..], b" to ", name].concat().into();
    let head = edit(b"HEAD", RefChange::SetSymbolic(branch.to_vec()), Expected::Any, &moved);
    changes.run(vec![RefEdit { deref: false, ..head }], TransactionMode::Atomic)?;
    Ok(carried)
}

/// Index and work tree changes since a commit, as `git checkout` prints them.
fn carried(
    context: &Context<'_>,
    session: &mut StashSession<'_>,
    tree: &ObjectId,
) -> Result<Vec<Vec<u8>>, Fatal> {
    let options = context.call.fetching_options()?;
    let status = session.status(context.repository, Some(tree), None, UntrackedMode::No, &options)?;
    let mut letters: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
    for (path, state) in &status.changed {
        let letter: &[u8] = match state {
            FileState::Deleted => b"D",
            FileState::TypeChanged => b"T",
            FileState::New => b"A",
            FileState::Modified | FileState::NewCommits => b"M",
        };
        letters.insert(path, letter);
    }
    for difference in &status.staged {
        let letter: &[u8] = match (&difference.old, &difference.new) {
            (None, _) => b"A",
            (_, None) => b"D",
            _ => b"M",
        };
        letters.insert(&difference.path, letter);
    }
    let style = PathStyle::of(context.repository.config(), b"")?;
    let line = |(path, letter): (&&[u8], &&[u8])| [*letter, b"\t", &style.show(path)].concat();
    Ok(letters.iter().map(line).collect())
}
