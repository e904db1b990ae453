//! `stash branch`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use packrace_object::{Kind, ObjectId, parse_commit};
use packrace_store::Ended;
use packrace_store::refs::{Expected, RefChange, RefEdit, TransactionMode, Value, is_ref_name};
use packrace_worktree::listing::list;
use packrace_worktree::stash::{Head, IndexMode, StashSession};
use packrace_worktree::status::{FileState, UntrackedMode};

use super::{Context, apply, complain, entries, failed, say, say_unmerged, state};
use crate::call::fatal::Fatal;
use crate::hooks::{self, IndexChange};
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
    let (before, carried) = check_out(context, &full, &entry.stash.base).map_err(|mut fatal| {
        // Git runs `git checkout` for it, and fails in its own way if that fails.
        fatal.code = 1;
        fatal
    })?;
    complain(context.call, &[format!("Switched to a new branch '{shown}'")]);
    state::forget_operation(context, true)?;
    for line in carried {
        say(context.call, &[&line])?;
    }
    after_checkout(context, &before, &entry.stash.base)?;
    apply::apply(context, &entry.stash, IndexMode::Restored, &apply::usual_names(), false)?;
    match entry.is_listed {
        true => entries::drop_entry(context, &entry, false),
        false => Ok(()),
    }
}

/// Runs the hook `post-checkout` (githooks); if it fails, so does the command.
fn after_checkout(context: &Context<'_>, from: &ObjectId, to: &ObjectId) -> Result<(), Fatal> {
    const NAME: &str = "post-checkout";
    let (from, to) = (from.to_string(), to.to_string());
    match hooks::of(context.call, context.repository)?.run(NAME, &[from.as_bytes(), to.as_bytes(), b"1"], b"")
    {
        Ok(Ended::NotThere | Ended::Well) => Ok(()),
        Ok(Ended::Badly) => Err(Fatal::silent(1)),
        Err(error) => Err(failed(context, format!("error: cannot run {NAME}: {error}"))),
    }
}

/// Checks out a commit on a new branch. Returns the commit that was checked out before, and lines for files
/// that differ from the new one.
fn check_out(
    context: &Context<'_>,
    branch: &[u8],
    commit: &ObjectId,
) -> Result<(ObjectId, Vec<Vec<u8>>), Fatal> {
    let mut session = context.open()?;
    let unmerged = super::examine(context.call, &mut session)?;
    if !unmerged.is_empty() {
        say_unmerged(context.call, &unmerged)?;
        return Err(failed(context, "error: you need to resolve your current index first".to_owned()));
    }
    let objects = session.objects().clone();
    let head = context.head(&objects)?;
    let content = objects.read_as(commit, Kind::Commit)?;
    let tree = parse_commit(&content, objects.hash_kind()).map_err(Fatal::new)?.tree;
    let to = list(&objects, &tree)?;
    // As in git, a checkout without an index takes no file of `HEAD` for deleted.
    let from = match head.as_ref().filter(|_| session.index().version().is_some()) {
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
    let (before, name_before) = match head {
        Some(head) => (head.commit, checked_out(&head)),
        None => (ObjectId::null(objects.hash_kind()), unborn(context)?),
    };
    let created: Arc<[u8]> = format!("branch: Created from {commit}").into_bytes().into();
    changes.run(
        vec![edit(branch, RefChange::Set(*commit), Expected::Absent, &created)],
        TransactionMode::Atomic,
    )?;
    let name = branch.strip_prefix(b"refs/heads/").unwrap_or(branch);
    let moved: Arc<[u8]> = [b"checkout: moving from ", &name_before[..], b" to ", name].concat().into();
    let head = edit(b"HEAD", RefChange::SetSymbolic(branch.to_vec()), Expected::Any, &moved);
    changes.run(vec![RefEdit { deref: false, ..head }], TransactionMode::Atomic)?;
    Ok((before, carried))
}

/// What reflogs say was checked out: the name of the branch, or of the commit.
fn checked_out(head: &Head) -> Vec<u8> {
    match head.branch.as_deref().and_then(|name| name.strip_prefix(b"refs/heads/")) {
        Some(name) => name.to_vec(),
        None => head.commit.to_string().into_bytes(),
    }
}

/// The same for a branch without commits.
fn unborn(context: &Context<'_>) -> Result<Vec<u8>, Fatal> {
    Ok(match context.repository.refs().read(b"HEAD").map_err(Fatal::new)? {
        Some(Value::Symbolic(name)) => name.strip_prefix(b"refs/heads/").unwrap_or(&name).to_vec(),
        _ => Vec::new(),
    })
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
