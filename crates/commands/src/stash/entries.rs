//! Stash entries: finding one, and `stash list`, `drop`, `clear` and `store`.

use std::ffi::{OsStr, OsString};

use packrace_object::ObjectId;
use packrace_store::refs::{Expected, LogEdit, RefChange};
use packrace_worktree::objects::Objects;
use packrace_worktree::stash::Stash;

use super::{Context, REF, complain, failed, say};
use crate::call::fatal::Fatal;
use crate::options::LogOptions;
use crate::ref_changes::{RefChanges, edit, ends_all};
use crate::reflog::show;
use crate::revisions::{entry, ref_name};

/// A requested entry.
pub(super) struct StashEntry {
    /// Its name in messages.
    pub(super) shown: String,
    pub(super) stash: Stash,
    /// Whether it is in the stash list.
    pub(super) is_listed: bool,
    /// Its index in the list.
    number: Option<usize>,
}

/// The entry that the arguments name; without arguments, the newest.
pub(super) fn find(context: &Context<'_>, arguments: &[OsString]) -> Result<StashEntry, Fatal> {
    let argument = match arguments {
        [] => None,
        [argument] => Some(argument.as_encoded_bytes()),
        several => {
            let words = several.iter().map(|word| format!(" '{}'", word.to_string_lossy()));
            return Err(failed(
                context,
                format!("Too many revisions specified:{}", words.collect::<String>()),
            ));
        }
    };
    let refs = context.repository.refs();
    let revision = match argument {
        None => {
            if refs.resolve(REF).map_err(Fatal::new)?.is_none() {
                return Err(failed(context, "No stash entries found.".to_owned()));
            }
            b"refs/stash@{0}".to_vec()
        }
        Some(argument) => revision_of(argument),
    };
    let shown = String::from_utf8_lossy(&revision).into_owned();
    let (name, _) = split(&revision);
    let Some((id, number)) = resolve(context, &revision)? else {
        return Err(failed(context, format!("error: {shown} is not a valid reference")));
    };
    let objects = Objects::new(&context.repository.snapshot()?);
    let Some(stash) = whole(&objects, &id)? else {
        return Err(not_stash_like(context, &shown)?);
    };
    let is_listed = ref_name(context.repository, name)?.as_deref() == Some(REF);
    Ok(StashEntry { shown, stash, is_listed, number })
}

/// The revision that an argument stands for: an entry may be named by its number alone. As in git, a number
/// may have no digits.
pub(super) fn revision_of(argument: &[u8]) -> Vec<u8> {
    match argument.iter().all(u8::is_ascii_digit) {
        true => [b"refs/stash@{", argument, b"}"].concat(),
        false => argument.to_vec(),
    }
}

/// A name, and what comes after it from the first `@`.
fn split(revision: &[u8]) -> (&[u8], &[u8]) {
    revision.split_at(revision.iter().position(|byte| *byte == b'@').unwrap_or(revision.len()))
}

/// What a revision names; and the number of the entry of a reflog, if it is one and nothing follows.
pub(super) fn resolve(
    context: &Context<'_>,
    revision: &[u8],
) -> Result<Option<(ObjectId, Option<usize>)>, Fatal> {
    if revision.ends_with(b"}")
        && let Some((name, spec)) = entry(revision)
        && let Some(named) = context.revisions()?.logged(name, spec)?
    {
        return Ok(Some((named.id, named.number)));
    }
    Ok(context.resolve(revision)?.map(|id| (id, None)))
}

pub(super) fn list(context: &Context<'_>, options: &LogOptions) -> Result<(), Fatal> {
    if context.repository.refs().resolve(REF).map_err(Fatal::new)?.is_none() {
        return Ok(());
    }
    show::of_stash(context.call, context.repository, REF, options).map_err(|mut fatal| {
        // Git runs `git log` for it, and fails in its own way if that fails.
        fatal.code = if fatal.code == 128 { 1 } else { fatal.code };
        fatal
    })
}

pub(super) fn drop_one(context: &Context<'_>, arguments: &[OsString], is_quiet: bool) -> Result<(), Fatal> {
    let entry = find(context, arguments)?;
    check_listed(context, &entry)?;
    drop_entry(context, &entry, is_quiet)
}

/// Only listed entries can be dropped.
pub(super) fn check_listed(context: &Context<'_>, entry: &StashEntry) -> Result<(), Fatal> {
    match entry.is_listed {
        true => Ok(()),
        false => Err(failed(context, format!("error: '{}' is not a stash reference", entry.shown))),
    }
}

/// Removes an entry from the list; the others keep their order.
pub(super) fn drop_entry(context: &Context<'_>, entry: &StashEntry, is_quiet: bool) -> Result<(), Fatal> {
    let shown = &entry.shown;
    let Some(number) = entry.number else {
        complain(
            context.call,
            &[format!("error: not a reflog: {shown}"), format!("error: {shown}: Could not drop stash entry")],
        );
        return Err(Fatal::silent(1));
    };
    let mut changes = RefChanges::new(context.repository, context.call)?;
    let mut is_last = false;
    let edited = context.repository.refs().edit_log(REF, &changes.writes, &mut |log| {
        // A log all of whose lines are damaged has one entry: the ref.
        is_last = number == 0 && log.is_some_and(|log| log.len() <= 1);
        let log = log.unwrap_or_default();
        let position = log.len().checked_sub(number + 1).filter(|_| !is_last);
        let Some(position) = position else { return LogEdit::Keep };
        let mut kept = log.to_vec();
        let dropped = kept.remove(position);
        if let Some(next) = kept.get_mut(position) {
            next.old = dropped.old;
        }
        let value = (position == kept.len()).then(|| kept[position - 1].new);
        LogEdit::Replace { changes: kept, value: value.filter(|value| *value != dropped.new) }
    });
    let failed = |error: String| {
        let lines = [format!("error: {error}"), format!("error: {shown}: Could not drop stash entry")];
        complain(context.call, &lines);
        Fatal::silent(1)
    };
    edited.map_err(|error| if ends_all(&error) { Fatal::from(error) } else { failed(error.to_string()) })?;
    if is_last {
        let edit = edit(REF, RefChange::Delete, Expected::Any, &Vec::new().into());
        changes.run_one(edit, failed)?;
    }
    if !is_quiet {
        let id = entry.stash.commit.to_hex().to_string();
        say(context.call, &[b"Dropped ", shown.as_bytes(), b" (", id.as_bytes(), b")"])?;
    }
    Ok(())
}

pub(super) fn clear(context: &Context<'_>, arguments: &[OsString]) -> Result<(), Fatal> {
    if !arguments.is_empty() {
        return Err(failed(context, "error: git stash clear with arguments is unimplemented".to_owned()));
    }
    if context.repository.refs().resolve(REF).map_err(Fatal::new)?.is_none() {
        return Ok(());
    }
    let edit = edit(REF, RefChange::Delete, Expected::Any, &Vec::new().into());
    RefChanges::new(context.repository, context.call)?.run_one(edit, Fatal::error)
}

pub(super) fn store(
    context: &Context<'_>,
    message: Option<&OsStr>,
    is_quiet: bool,
    commits: &[OsString],
) -> Result<(), Fatal> {
    let quietly = |line: String| match is_quiet {
        true => Fatal::silent(1),
        false => failed(context, line),
    };
    let [commit] = commits else {
        return Err(quietly("\"git stash store\" requires one <commit> argument".to_owned()));
    };
    let shown = commit.to_string_lossy();
    let found = resolve(context, commit.as_encoded_bytes());
    let found = found.map_err(|error| if is_quiet { Fatal::silent(error.code) } else { error });
    let Some((id, _)) = found? else {
        return Err(quietly(format!("Cannot update refs/stash with {shown}")));
    };
    let objects = Objects::new(&context.repository.snapshot()?);
    if whole(&objects, &id)?.is_none() {
        return Err(not_stash_like(context, &id.to_string())?);
    }
    let message = match message {
        Some(message) => message.as_encoded_bytes().to_vec(),
        None => b"Created via \"git stash store\".".to_vec(),
    };
    let mut changes = RefChanges::new(context.repository, context.call)?;
    let mut edit = edit(REF, RefChange::Set(id), Expected::Any, &message.into());
    edit.force_log = true;
    changes.run_one(edit, |error| {
        let cause = format!("error: update_ref failed for ref 'refs/stash': {error}");
        quietly(format!("{cause}\nCannot update refs/stash with {id}"))
    })
}

/// A commit that is a stash, with its trees.
fn whole(objects: &Objects, id: &ObjectId) -> Result<Option<Stash>, Fatal> {
    match Stash::read(objects, id)? {
        Some(stash) if stash.has_trees(objects)? => Ok(Some(stash)),
        _ => Ok(None),
    }
}

/// Of what has not the parents or trees of a stash; if it is no commit at all, that is reported first.
fn not_stash_like(context: &Context<'_>, name: &str) -> Result<Fatal, Fatal> {
    resolve(context, format!("{name}^1").as_bytes())?;
    Ok(Fatal::new(format!("'{name}' is not a stash-like commit")))
}
