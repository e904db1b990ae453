//! `git symbolic-ref`: reads, changes and deletes symbolic refs.

use packrace_store::Repository;
use packrace_store::refs::{Expected, RefChange, RefEdit, RefStore, Value, is_good_name, is_ref_name};

use crate::call::Call;
use crate::call::discovery::{repository, with_refs};
use crate::call::fatal::Fatal;
use crate::options::SymbolicRefOptions;
use crate::ref_changes::{RefChanges, check_name, edit};
use crate::ref_filter::shorten;

/// Longest chain of symbolic refs, as in git.
const MAX_DEPTH: usize = 5;

/// Implements `git symbolic-ref`.
pub fn run(call: &Call, args: &SymbolicRefOptions) -> Result<(), Fatal> {
    if args.message.as_deref() == Some("") {
        return Err(Fatal::new("Refusing to perform update with empty message"));
    }
    let arguments: Vec<&[u8]> = args.arguments.iter().map(|text| text.as_encoded_bytes()).collect();
    match (args.delete, arguments.as_slice()) {
        (true, [name]) => delete(&with_refs(repository(call)?)?, call, name),
        (false, [name]) => show(call, &with_refs(repository(call)?)?, args, name),
        (false, [name, target]) => {
            let repository = with_refs(repository(call)?)?;
            let message = args.message.clone().unwrap_or_default();
            let edit = edit(
                name,
                RefChange::SetSymbolic(target.to_vec()),
                Expected::Any,
                &message.into_bytes().into(),
            );
            check_target(name, target)?;
            change(&repository, call, edit)
        }
        _ => Err(Fatal::usage_of("symbolic-ref")),
    }
}

fn show(call: &Call, repository: &Repository, args: &SymbolicRefOptions, name: &[u8]) -> Result<(), Fatal> {
    let refs = repository.refs();
    let shown = String::from_utf8_lossy(name);
    let Some(first) = target(refs, name, name)? else {
        return Err(match args.quiet {
            true => Fatal::silent(1),
            false => Fatal::new(format!("ref {shown} is not a symbolic ref")),
        });
    };
    let mut last = first;
    if !args.no_recurse {
        let mut depth = 1;
        while let Some(next) = target(refs, &last, name)? {
            depth += 1;
            if depth >= MAX_DEPTH {
                return Err(Fatal::new(format!("No such ref: {shown}")));
            }
            last = next;
        }
    }
    if args.short {
        let mut exists = |name: &[u8]| Ok(refs.read(name).map_err(Fatal::new)?.is_some());
        last = shorten(&last, false, &mut exists)?.to_vec();
    }
    call.write_line(&last)
}

/// The target of a symbolic ref to which `asked` leads. A broken ref is an error.
fn target(refs: &RefStore, name: &[u8], asked: &[u8]) -> Result<Option<Vec<u8>>, Fatal> {
    let no_such_ref = || Fatal::new(format!("No such ref: {}", String::from_utf8_lossy(asked)));
    if !is_well_formed(name) {
        return Err(no_such_ref());
    }
    if !is_ref_name(name) {
        return Ok(None);
    }
    match refs.read(name).map_err(Fatal::new)? {
        Some(Value::Symbolic(target)) => Ok(Some(target)),
        Some(Value::Id(_)) => Ok(None),
        None => refs.exists(name).map(|_| None).map_err(|_| no_such_ref()),
    }
}

/// Whether the name follows git-check-ref-format, which need not have two levels here.
fn is_well_formed(name: &[u8]) -> bool {
    name != b"@" && (is_good_name(name) || is_good_name(&[b"refs/", name].concat()))
}

fn delete(repository: &Repository, call: &Call, name: &[u8]) -> Result<(), Fatal> {
    let shown = String::from_utf8_lossy(name);
    if target(repository.refs(), name, name)?.is_none() {
        return Err(Fatal::new(format!("Cannot delete {shown}, not a symbolic ref")));
    }
    if name == b"HEAD" {
        return Err(Fatal::new("deleting 'HEAD' is not allowed"));
    }
    let edit = edit(name, RefChange::Delete, Expected::Any, &b"".as_slice().into());
    change(repository, call, edit)
}

fn change(repository: &Repository, call: &Call, edit: RefEdit) -> Result<(), Fatal> {
    check_name(&edit.name, &edit.change).map_err(Fatal::error)?;
    let mut changes = RefChanges::new(repository, call)?;
    let edit = RefEdit { deref: false, ..edit };
    changes.run_one(edit, Fatal::error)
}

fn check_target(name: &[u8], target: &[u8]) -> Result<(), Fatal> {
    if name == b"HEAD" && !target.starts_with(b"refs/") {
        return Err(Fatal::new("Refusing to point HEAD outside of refs/"));
    }
    if !is_well_formed(target) {
        let [name, target] = [name, target].map(String::from_utf8_lossy);
        return Err(Fatal::new(format!("Refusing to set '{name}' to invalid ref '{target}'")));
    }
    Ok(())
}
