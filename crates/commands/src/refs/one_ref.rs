//! `git refs create`, `delete`, `update` and `rename`: change one ref.

use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_store::refs::{Expected, RefChange, RefEdit, Value, is_good_name, names_work_tree};

use crate::call::Call;
use crate::call::discovery::repository;
use crate::call::fatal::Fatal;
use crate::options::{RefChangeKind, RefsChangeOptions};
use crate::ref_changes::{RefChanges, check_name, edit, ends_all};

/// Implements the four subcommands.
pub(super) fn run(call: &Call, kind: RefChangeKind, args: &RefsChangeOptions) -> Result<(), Fatal> {
    let arguments: Vec<&[u8]> = args.arguments.iter().map(|text| text.as_encoded_bytes()).collect();
    let (count, words) = match kind {
        RefChangeKind::Create => (2..=2, "create requires reference name and an object ID"),
        RefChangeKind::Delete => (1..=2, "delete requires reference name and an optional old object ID"),
        RefChangeKind::Update => {
            (2..=3, "update requires reference name, new value and an optional old value")
        }
        RefChangeKind::Rename => (2..=2, "rename requires old and new reference name"),
    };
    if !count.contains(&arguments.len()) {
        return Err(Fatal::silent(129).after(format!("usage: {words}\n")));
    }
    if args.message.as_deref() == Some("") {
        return Err(Fatal::new("refusing to perform update with empty message"));
    }
    let repository = repository(call)?;
    let mut changes = RefChanges::new(&repository, call)?;
    let message: Arc<[u8]> = args.message.clone().unwrap_or_default().into_bytes().into();
    let (change, expected) = match kind {
        RefChangeKind::Create => (created(&mut changes, arguments[1])?, Expected::Absent),
        RefChangeKind::Delete => deleted(&mut changes, arguments.get(1).copied())?,
        RefChangeKind::Update => updated(&mut changes, arguments[1], arguments.get(2).copied())?,
        RefChangeKind::Rename => return rename(changes, arguments[0], arguments[1], &message),
    };
    let name = arguments[0];
    let failed = |error: String| match kind {
        RefChangeKind::Delete => Fatal::error(error),
        _ => Fatal::error(format!("update_ref failed for ref '{}': {error}", shown(name))),
    };
    check_name(name, &change).map_err(failed)?;
    let edit = RefEdit {
        deref: !args.no_deref,
        force_log: args.create_reflog,
        ..edit(name, change, expected, &message)
    };
    changes.run_one(edit, failed)
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// The object that an argument names; `what` is git's word for it.
fn resolve(changes: &mut RefChanges<'_>, text: &[u8], what: &str) -> Result<ObjectId, Fatal> {
    let found = changes.resolve(text)?;
    found.ok_or_else(|| Fatal::new(format!("invalid {what}: '{}'", shown(text))))
}

fn created(changes: &mut RefChanges<'_>, new: &[u8]) -> Result<RefChange, Fatal> {
    match resolve(changes, new, "object ID")? {
        id if id.is_null() => Err(Fatal::new("cannot create reference with null new object ID")),
        id => Ok(RefChange::Set(id)),
    }
}

fn deleted(changes: &mut RefChanges<'_>, old: Option<&[u8]>) -> Result<(RefChange, Expected), Fatal> {
    let Some(old) = old else { return Ok((RefChange::Delete, Expected::Any)) };
    match resolve(changes, old, "old object ID")? {
        id if id.is_null() => Err(Fatal::new("cannot delete reference with null old object ID")),
        id => Ok((RefChange::Delete, Expected::Id(id))),
    }
}

fn updated(
    changes: &mut RefChanges<'_>,
    new: &[u8],
    old: Option<&[u8]>,
) -> Result<(RefChange, Expected), Fatal> {
    let change = match resolve(changes, new, "new object ID")? {
        id if id.is_null() => RefChange::Delete,
        id => RefChange::Set(id),
    };
    let Some(old) = old else { return Ok((change, Expected::Any)) };
    let expected = match resolve(changes, old, "old object ID")? {
        id if id.is_null() => Expected::Absent,
        id => Expected::Id(id),
    };
    Ok((change, expected))
}

fn rename(mut changes: RefChanges<'_>, old: &[u8], new: &[u8], message: &[u8]) -> Result<(), Fatal> {
    if let Some(name) = [old, new].into_iter().find(|name| !is_full_name(name)) {
        return Err(Fatal::new(format!("invalid ref format: '{}'", shown(name))));
    }
    let refs = changes.repository.refs();
    let resolves = |name: &[u8]| refs.resolve(name).map(|found| found.is_some());
    if !resolves(old).map_err(Fatal::new)? {
        return Err(Fatal::new(format!("reference does not exist: '{}'", shown(old))));
    }
    if resolves(new).map_err(Fatal::new)? {
        return Err(Fatal::new(format!("reference already exists: '{}'", shown(new))));
    }
    if names_work_tree(old) && matches!(refs.read(old).map_err(Fatal::new)?, Some(Value::Id(_))) {
        // As in git, refs of other work trees can't be deleted.
        check_name(old, &RefChange::Delete).map_err(|words| {
            Fatal::error(format!("unable to delete old {}", shown(old))).after(format!("error: {words}\n"))
        })?;
    }
    match refs.rename(old, new, message, &changes.writes, &mut changes.objects) {
        Ok(()) => Ok(()),
        Err(error) if ends_all(&error) => Err(error.into()),
        Err(error) => Err(Fatal::error(error)),
    }
}

/// Whether `git check-ref-format` accepts the name without options.
fn is_full_name(name: &[u8]) -> bool {
    name.contains(&b'/') && is_good_name(name)
}
