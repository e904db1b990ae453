//! `stash export` and `stash import`: entries as a chain of commits, which can be fetched and pushed.
//!
//! The chain starts with a commit of fixed content. Each commit that follows has two parents, the one before and an entry,
//! and the message of the entry behind a prefix. All of them have the empty tree.

use std::ffi::{OsStr, OsString};

use packrace_object::{Commit, Kind, NewCommit, ObjectId, parse_commit};
use packrace_store::publish::{BatchOptions, ObjectBatch, ObjectsStored};
use packrace_store::refs::{Expected, RefChange, TransactionMode};
use packrace_worktree::filter::reencoded;
use packrace_worktree::objects::Objects;
use packrace_worktree::stash::Stash;

use super::entries::{resolve, revision_of};
use super::{Context, REF, complain, failed, say};
use crate::call::fatal::Fatal;
use crate::commit_tree::encoding;
use crate::ref_changes::{RefChanges, check_name, edit};
use crate::text::{header_line, message_of};

/// Author and committer of the commit that starts a chain.
const START: &[u8] = b"git stash <git@stash> 1000684800 +0000";

/// What the message of every other commit of a chain begins with.
const PREFIX: &[u8] = b"git stash: ";

/// Makes a chain of the entries that are named, the first of them at its end; without names, of all.
pub(super) fn export(
    context: &Context<'_>,
    print: bool,
    to_ref: Option<&OsStr>,
    names: &[OsString],
) -> Result<(), Fatal> {
    if print == to_ref.is_some() {
        return Err(failed(context, "error: exactly one of --print and --to-ref is required".to_owned()));
    }
    let snapshot = context.repository.snapshot()?;
    let objects = Objects::new(&snapshot);
    let entries = match names {
        [] => all(context, &objects)?,
        names => names.iter().map(|name| named(context, &objects, name)).collect::<Result<_, _>>()?,
    };
    let encoding = encoding(context.repository.config());
    // As in git, it exists without being stored.
    let tree = objects.hash_kind().empty_tree();
    let add = |parents: &[ObjectId], author: &[u8], committer: &[u8], message: &[u8]| {
        let encoding = encoding.as_deref();
        let commit = NewCommit { tree: &tree, parents, author, committer, encoding, message };
        objects.make(Kind::Commit, commit.encode())
    };
    let mut end = add(&[], START, START, b"")?;
    for entry in entries.iter().rev() {
        let content = objects.read_as(entry, Kind::Commit)?;
        let person = |key| header_line(&content, key).unwrap_or_default();
        let text = reencoded(message_of(&content), header_line(&content, "encoding"), encoding.as_deref());
        let mut message = [PREFIX, &text].concat();
        if !message.ends_with(b"\n") {
            message.push(b'\n');
        }
        end = add(&[end, *entry], person("author"), person("committer"), &message)?;
    }
    let options = BatchOptions::of(context.repository.config())?;
    let batch = ObjectBatch::new(context.repository.object_dir(), snapshot, options);
    let stored = objects.publish_made(batch)?;
    match to_ref {
        Some(name) => set_ref(context, name.as_encoded_bytes(), end, &stored),
        None => say(context.call, &[end.to_hex().to_string().as_bytes()]),
    }
}

fn set_ref(context: &Context<'_>, name: &[u8], end: ObjectId, stored: &ObjectsStored) -> Result<(), Fatal> {
    let change = RefChange::Set(end);
    let failed = |reason: String| {
        Fatal::new(format!("update_ref failed for ref '{}': {reason}", String::from_utf8_lossy(name)))
    };
    check_name(name, &change).map_err(failed)?;
    let mut changes = RefChanges::new(context.repository, context.call)?;
    let edits = vec![edit(name, change, Expected::Any, &Vec::new().into())];
    let done = changes.run_after(stored, edits, TransactionMode::Atomic);
    done.map_err(|error| failed(error.to_string()))?;
    Ok(())
}

/// All entries, the newest first.
fn all(context: &Context<'_>, objects: &Objects) -> Result<Vec<ObjectId>, Fatal> {
    let log = context.repository.refs().log(REF).map_err(Fatal::new)?.unwrap_or_default();
    let ids = log.iter().rev().map(|change| change.new);
    ids.map(|id| checked(context, objects, id, &id.to_string())).collect()
}

fn named(context: &Context<'_>, objects: &Objects, name: &OsStr) -> Result<ObjectId, Fatal> {
    let revision = revision_of(name.as_encoded_bytes());
    let shown = name.to_string_lossy();
    // Whatever is the matter with it, git says no more.
    match resolve(context, &revision) {
        Ok(Some((id, _))) => checked(context, objects, id, &shown),
        Ok(None) | Err(_) => Err(failed(context, format!("error: unable to find stash entry {shown}"))),
    }
}

/// An object name, if it is that of an entry.
fn checked(context: &Context<'_>, objects: &Objects, id: ObjectId, shown: &str) -> Result<ObjectId, Fatal> {
    match Stash::read(objects, &id)? {
        Some(_) => Ok(id),
        None => Err(failed(context, format!("error: {shown} does not look like a stash commit"))),
    }
}

/// Appends the entries of a chain to the list, once the whole chain has been checked.
pub(super) fn import(context: &Context<'_>, commits: &[OsString]) -> Result<(), Fatal> {
    let [name] = commits else {
        return Err(Fatal::usage("a revision is required").with_usage_of("stash"));
    };
    let objects = Objects::new(&context.repository.snapshot()?);
    let mut id = commit(context, &objects, name)?;
    let mut entries = Vec::new();
    while let Some((before, entry)) = link(context, &objects, &id)? {
        entries.push(entry);
        id = before;
    }
    let mut changes = RefChanges::new(context.repository, context.call)?;
    for entry in entries.iter().rev() {
        let content = objects.read_as(entry, Kind::Commit)?;
        let message = message_of(&content).to_vec();
        let mut edit = edit(REF, RefChange::Set(*entry), Expected::Any, &message.into());
        edit.force_log = true;
        if let Err(error) = changes.run(vec![edit], TransactionMode::Atomic) {
            return Err(failed(context, format!("error: unable to save the stash for {entry}: {error}")));
        }
    }
    Ok(())
}

/// The commit that a revision names.
fn commit(context: &Context<'_>, objects: &Objects, name: &OsStr) -> Result<ObjectId, Fatal> {
    let shown = name.to_string_lossy();
    let Some((id, _)) = resolve(context, name.as_encoded_bytes())? else {
        return Err(failed(context, format!("error: not a valid revision: {shown}")));
    };
    let peeled = context.resolve(format!("{id}^{{}}").as_bytes())?.unwrap_or(id);
    match objects.kind_and_size(&peeled)? {
        Some((Kind::Commit, _)) => return Ok(peeled),
        Some((kind, _)) => {
            complain(context.call, &[format!("error: object {peeled} is a {kind}, not a commit")]);
        }
        None => {}
    }
    Err(failed(context, format!("error: not a commit: {shown}")))
}

/// The commit before one of a chain, and the entry; `None` for the start.
fn link(
    context: &Context<'_>,
    objects: &Objects,
    id: &ObjectId,
) -> Result<Option<(ObjectId, ObjectId)>, Fatal> {
    let content = objects.read_as(id, Kind::Commit)?;
    let commit = parse_commit(&content, objects.hash_kind()).map_err(Fatal::new)?;
    let empty = packrace_object::object_id(objects.hash_kind(), Kind::Tree, b"").map_err(Fatal::new)?;
    match commit {
        Commit { tree, .. } if tree != empty => {}
        Commit { parents, .. } if parents.is_empty() => {
            let is_start =
                ["author", "committer"].iter().all(|key| header_line(&content, key) == Some(START));
            return match is_start {
                true => Ok(None),
                false => Err(failed(context, format!("error: found root commit {id} with invalid data"))),
            };
        }
        Commit { parents, .. } if parents.len() == 2 => {
            if !message_of(&content).starts_with(PREFIX) {
                return Err(failed(
                    context,
                    format!("error: found stash commit {id} without expected prefix"),
                ));
            }
            checked(context, objects, parents[1], &parents[1].to_string())?;
            return Ok(Some((parents[0], parents[1])));
        }
        _ => {}
    }
    Err(failed(context, format!("error: {id} is not a valid exported stash commit")))
}
