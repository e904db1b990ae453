//! `git refs`: verifies, migrates and changes stored refs.

mod one_ref;

use packrace_object::fsck::{Severities, Severity};
use packrace_store::refs::{Backend, CheckedRefs, Migration, PrepareError};
use packrace_store::{FsckSettings, FsckUse};

use crate::call::Call;
use crate::call::discovery::{repository, repository_with_any_settings, with_refs};
use crate::call::fatal::Fatal;
use crate::call::printable::harmless;
use crate::options::{RefsMigrateOptions, RefsOptions, RefsVerifyOptions};
use crate::ref_changes::RefChanges;
use crate::work_tree::{WorkTree, shown_git_dir};
use crate::{for_each_ref, pack_refs, show_ref};

/// Exit code of the other subcommands on errors.
const FAILED: u8 = 255;

/// Only looks up the objects that options of `list` name.
pub fn check(call: &Call, options: &RefsOptions) -> Result<(), Fatal> {
    match options {
        RefsOptions::List(args) => for_each_ref::check(call, args),
        _ => Ok(()),
    }
}

/// Implements `git refs`.
pub fn run(call: &Call, args: &RefsOptions) -> Result<(), Fatal> {
    match args {
        RefsOptions::Exists { names } => {
            let repository = with_refs(repository_with_any_settings(call)?)?;
            let [name] = names.as_slice() else {
                return Err(Fatal::new("'git refs exists' requires a reference"));
            };
            show_ref::check_existence(call, &repository, name.as_encoded_bytes())
        }
        RefsOptions::List(args) => for_each_ref::run(call, args),
        RefsOptions::Optimize(args) => pack_refs::run(call, args),
        RefsOptions::Change { kind, options } => one_ref::run(call, *kind, options),
        RefsOptions::Migrate(args) => migrate(call, args),
        RefsOptions::Verify(args) => verify(call, args),
    }
}

/// Reads every ref and every reflog, and checks names and contents.
fn verify(call: &Call, args: &RefsVerifyOptions) -> Result<(), Fatal> {
    let repository = with_refs(repository(call)?)?;
    let severities = if args.strict { Severities::strict() } else { Severities::lenient() };
    let settings = FsckSettings::of(repository.config(), FsckUse::Fsck)?;
    let rules = settings.rules(severities, repository.hash_kind()).map_err(Fatal::new)?;
    let (mut has_errors, mut end) = (false, None);
    repository
        .refs()
        .verify(&mut |checked| match checked {
            _ if end.is_some() => {}
            CheckedRefs::BadLink(words) => end = Some(words),
            CheckedRefs::Begin if args.verbose => error_line!(call, "Checking references consistency"),
            CheckedRefs::Item(path) if args.verbose => error_line!(call, "Checking {path}"),
            CheckedRefs::Begin | CheckedRefs::Item(_) => {}
            CheckedRefs::BrokenStack(id) => {
                has_errors = true;
                error_line!(call, "error: reftable stack for worktree '{id}' is broken");
            }
            CheckedRefs::Problem(path, problem) => {
                let severity = rules.severities.of(problem.id);
                has_errors |= severity.is_error();
                if severity != Severity::Ignore {
                    let (word, text) = (severity.word(), harmless(&problem.text));
                    error_line!(call, "{word}: {}: {}: {text}", harmless(path), problem.id.name());
                }
            }
        })
        .map_err(Fatal::new)?;
    if let Some(words) = end {
        return Err(Fatal::new(words));
    }
    if has_errors { Err(Fatal::silent(FAILED)) } else { Ok(()) }
}

/// Migrates all refs to another format.
fn migrate(call: &Call, args: &RefsMigrateOptions) -> Result<(), Fatal> {
    let repository = with_refs(repository_with_any_settings(call)?)?;
    let misused = |words: &str| Fatal::silent(129).after(format!("usage: {words}\n"));
    if !args.arguments.is_empty() {
        return Err(misused("too many arguments"));
    }
    let Some(format) = &args.ref_format else {
        return Err(misused("missing --ref-format=<format>"));
    };
    let failed = |error: &dyn std::fmt::Display| Fatal::silent(FAILED).after(format!("error: {error}\n"));
    let Some(to) = Backend::of_name(format) else {
        return Err(failed(&format!("unknown ref storage format '{format}'")));
    };
    let mut changes = RefChanges::new(&repository, call)?;
    let migration = Migration { to, keeps_logs: !args.no_reflog, is_dry_run: args.dry_run };
    let moved = repository.refs().migrate(&migration, &changes.writes, &mut changes.objects);
    let moved = moved.map_err(|error| match error {
        PrepareError::Vetoed(_) => Fatal::new(error),
        error => failed(&error),
    });
    if let Some(dir) = moved? {
        // Below the git directory, unless refs are elsewhere.
        let shown = dir.strip_prefix(repository.git_dir()).ok().and_then(|below| {
            let tree = WorkTree::find(&repository, call).ok()?;
            Some(shown_git_dir(&repository, call, tree.as_ref())?.join(below))
        });
        let dir = shown.as_deref().unwrap_or(&dir).as_os_str().as_encoded_bytes();
        let words = b"Finished dry-run migration of refs, the result can be found at '";
        call.write_line([words, dir, b"'"].concat())?;
    }
    Ok(())
}
