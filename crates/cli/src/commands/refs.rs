//! `packrace refs`: refs as they are stored.

use packrace_store::refs::{Severity, is_good_name};

use super::{Fatal, for_each_ref, pack_refs, repository};
use crate::args::{Globals, Refs, RefsCommand, RefsVerify};
use crate::environment::Environment;

/// What `exists` ends with where there is no such ref.
const NO_SUCH_REF: u8 = 2;

pub fn run(globals: &Globals, args: &Refs, environment: &Environment) -> Result<(), Fatal> {
    match &args.command {
        RefsCommand::Exists { names } => {
            let [name] = names.as_slice() else {
                return Err(Fatal::new("'git refs exists' requires a reference"));
            };
            let name = name.as_encoded_bytes();
            let repository = repository(globals, environment)?;
            if is_good_name(name) && repository.refs().read(name).map_err(Fatal::new)?.is_some() {
                return Ok(());
            }
            eprintln!("error: reference does not exist");
            Err(Fatal::silent(NO_SUCH_REF))
        }
        RefsCommand::List(args) => for_each_ref::run(globals, args, environment),
        RefsCommand::Optimize(args) => pack_refs::run(globals, args, environment),
        RefsCommand::Verify(args) => verify(globals, args, environment),
    }
}

/// Every ref and every reflog is read, and names and contents are checked.
fn verify(globals: &Globals, args: &RefsVerify, environment: &Environment) -> Result<(), Fatal> {
    let repository = repository(globals, environment)?;
    if args.verbose {
        eprintln!("Checking references consistency");
    }
    let mut has_errors = false;
    repository
        .refs()
        .verify(&mut |path, problem| {
            if args.verbose && problem.is_none() {
                eprintln!("Checking {path}");
            }
            let Some(problem) = problem else { return };
            let least = if args.strict { Severity::Warning } else { Severity::Error };
            let is_error = problem.severity >= least;
            has_errors |= is_error;
            let word = if is_error { "error" } else { "warning" };
            eprintln!("{word}: {path}: {}: {}", problem.id, problem.text);
        })
        .map_err(Fatal::new)?;
    if has_errors { Err(Fatal::silent(255)) } else { Ok(()) }
}
