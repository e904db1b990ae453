//! `git reflog`: shows reflogs and prunes their entries.

pub mod show;

use std::ffi::OsString;

use packrace_maintenance::reflogs::ReflogExpiry;
use packrace_object::ObjectId;
use packrace_store::expiry::expiry;
use packrace_store::refs::{
    Backend, LogEdit, LoggedChange, PrepareError, RefStore, Value, is_good_name, is_ref_name, is_root_name,
};
use packrace_store::{ErrorKind, Repository, WorkTreeReflogs, all_reflogs, cache_bytes};

use crate::call::Call;
use crate::call::discovery::{
    repository, repository_with_any_settings, repository_with_replacements, with_refs,
};
use crate::call::fatal::Fatal;
use crate::options::{
    ReflogChangeOptions, ReflogDeleteOptions, ReflogDropOptions, ReflogExpireOptions, ReflogOptions,
};
use crate::ref_changes::{RefChanges, ends_all};
use crate::revisions::{entry, logged_name, moment, number};

/// Exit code of git's failing subcommands.
const FAILED: u8 = 255;

/// That where a stack of reftables is locked.
const LOCKED: u8 = 251;

/// Implements `git reflog`.
pub fn run(call: &Call, args: &ReflogOptions) -> Result<(), Fatal> {
    match args {
        ReflogOptions::Show(args) => show::run(call, &with_refs(repository_with_replacements(call)?)?, args),
        ReflogOptions::List { arguments } => {
            let repository = with_refs(repository_with_any_settings(call)?)?;
            match arguments.first() {
                Some(argument) => Err(failed(call, format!("list does not accept arguments: '{argument}'"))),
                None => list(call, &repository),
            }
        }
        ReflogOptions::Exists { names } => match names.first() {
            None => Err(Fatal::usage_of("reflog exists")),
            Some(name) => exists(&with_refs(repository_with_any_settings(call)?)?, name.as_encoded_bytes()),
        },
        ReflogOptions::Write { arguments } => {
            let arguments: Vec<&[u8]> = arguments.iter().map(|text| text.as_encoded_bytes()).collect();
            let [name, old, new, message] = arguments.as_slice() else {
                return Err(Fatal::usage_of("reflog write"));
            };
            let repository = with_refs(repository_with_any_settings(call)?)?;
            let changes = RefChanges::new(&repository, call)?;
            write(&repository, changes, name, [old, new], message)
        }
        ReflogOptions::Delete(args) => {
            let repository = with_refs(repository_with_any_settings(call)?)?;
            let changes = RefChanges::new(&repository, call)?;
            delete(&repository, changes, args)
        }
        ReflogOptions::Drop(args) => {
            if args.all && !args.names.is_empty() {
                let words = "usage: references specified along with --all\n";
                return Err(Fatal::silent(129).after(words));
            }
            let repository = with_refs(repository_with_any_settings(call)?)?;
            let changes = RefChanges::new(&repository, call)?;
            drop_logs(&repository, &changes, args)
        }
        ReflogOptions::Expire(args) => {
            let repository = repository(call)?;
            let changes = RefChanges::new(&repository, call)?;
            expire(&repository, &changes, args)
        }
    }
}

/// An error with git's exit code for subcommands that return one.
fn failed(call: &Call, text: String) -> Fatal {
    error_line!(call, "error: {text}");
    Fatal::silent(FAILED)
}

/// A reflog that could not be changed; `code` is that of files.
fn unchanged(call: &Call, refs: &RefStore, error: PrepareError, code: u8) -> Fatal {
    if ends_all(&error) {
        return Fatal::new(error);
    }
    error_line!(call, "error: {error}");
    let is_stack = refs.backend() == Backend::Reftable && error.kind() == ErrorKind::Conflict;
    Fatal::silent(if is_stack { LOCKED } else { code })
}

fn list(call: &Call, repository: &Repository) -> Result<(), Fatal> {
    let mut names = repository.refs().logged_names().map_err(Fatal::new)?.join(&b'\n');
    if !names.is_empty() {
        names.push(b'\n');
    }
    call.write(&names)
}

fn exists(repository: &Repository, name: &[u8]) -> Result<(), Fatal> {
    if name == b"@" || !is_good_name(name) && !is_good_name(&[b"refs/", name].concat()) {
        return Err(Fatal::new(format!("invalid ref format: {}", String::from_utf8_lossy(name))));
    }
    let is_there = is_good_name(name) && repository.refs().log(name).map_err(Fatal::new)?.is_some();
    if is_there { Ok(()) } else { Err(Fatal::silent(1)) }
}

fn write(
    repository: &Repository,
    changes: RefChanges<'_>,
    name: &[u8],
    ids: [&[u8]; 2],
    message: &[u8],
) -> Result<(), Fatal> {
    let is_one = name.starts_with(b"refs/") || name.contains(&b'/') || is_root_name(name);
    if !is_one || !is_ref_name(name) {
        return Err(Fatal::new(format!("invalid reference name: {}", String::from_utf8_lossy(name))));
    }
    let mut reader = repository.snapshot()?.reader(cache_bytes::MANY_OBJECTS);
    let mut parsed = Vec::new();
    for (what, text) in [("old", ids[0]), ("new", ids[1])] {
        let shown = String::from_utf8_lossy(text);
        let id = ObjectId::from_hex(text).ok().filter(|id| id.kind() == repository.hash_kind());
        let id = id.ok_or_else(|| Fatal::new(format!("invalid {what} object ID: '{shown}'")))?;
        if !id.is_null() && reader.kind_and_size(&id)?.is_none() {
            return Err(Fatal::new(format!("{what} object '{shown}' does not exist")));
        }
        parsed.push(id);
    }
    let added = LoggedChange::new(parsed[0], parsed[1], &changes.writes.who, message);
    let written = repository.refs().edit_log_with_hook(name, &changes.writes, &mut |log| {
        let mut changes = log.unwrap_or_default().to_vec();
        changes.push(added.clone());
        LogEdit::Replace { changes, value: None }
    });
    written.map_err(|error| match ends_all(&error) {
        true => Fatal::new(error),
        false => Fatal::new(format!("cannot commit reflog update: {error}")),
    })
}

fn delete(repository: &Repository, changes: RefChanges<'_>, args: &ReflogDeleteOptions) -> Result<(), Fatal> {
    if args.entries.is_empty() {
        return Err(failed(changes.call, "no reflog specified to delete".to_owned()));
    }
    let mut result = Ok(());
    for text in &args.entries {
        let text = text.as_encoded_bytes();
        let shown = String::from_utf8_lossy(text);
        let Some((name, spec)) = entry(text) else {
            result = Err(failed(changes.call, format!("not a reflog: {shown}")));
            continue;
        };
        let Some(full) = changed_name(repository, name)? else {
            result = Err(failed(changes.call, format!("no reflog for '{shown}'")));
            continue;
        };
        let number = number(spec);
        // Git reads a word that is no date as the current time, and deletes the last entry.
        let moment = match number {
            Some(_) => 0,
            None => moment(spec)
                .ok_or_else(|| failed(changes.call, format!("not an entry of a reflog: {shown}")))?,
        };
        let mut older = 0;
        let shortened =
            shorten(repository.refs(), &changes, &args.change, true, &full, &mut |log, position, _| {
                // Computed once per log: positions are asked in order, from 0.
                if number.is_none() && position == 0 {
                    older = log.iter().filter(|change| change.seconds() < moment).count();
                }
                Ok(match number {
                    Some(number) => log.len() - 1 - position == number,
                    // The last entry at that time.
                    None => position + 1 == older,
                })
            });
        unless_fatal(shortened, &mut result)?;
    }
    result
}

/// The ref whose reflog is to be changed. As in git, it must lead to an object.
fn changed_name(repository: &Repository, name: &[u8]) -> Result<Option<Vec<u8>>, Fatal> {
    let Some(full) = logged_name(repository, name)? else { return Ok(None) };
    let resolved = repository.refs().resolve(&full).map_err(Fatal::new)?;
    Ok(resolved.map(|_| full))
}

/// The reflogs that the options of `drop` and `expire` choose.
struct ChosenReflogs {
    /// By `--all`.
    all: Vec<WorkTreeReflogs>,
    /// By name.
    named: WorkTreeReflogs,
    /// Names without a reflog.
    missing: Vec<String>,
}

impl ChosenReflogs {
    fn new(
        repository: &Repository,
        all: bool,
        single_worktree: bool,
        typed: &[OsString],
    ) -> Result<Self, Fatal> {
        let here = repository.refs();
        let reflogs = |names| WorkTreeReflogs { refs: here.clone(), names };
        let all = match (all, single_worktree) {
            (true, false) => all_reflogs(repository)?,
            (true, true) => vec![reflogs(here.logged_names().map_err(Fatal::new)?)],
            (false, _) => Vec::new(),
        };
        let (mut names, mut missing) = (Vec::new(), Vec::new());
        for typed in typed {
            match changed_name(repository, typed.as_encoded_bytes())? {
                Some(full) => names.push(full),
                None => missing.push(typed.to_string_lossy().into_owned()),
            }
        }
        Ok(ChosenReflogs { all, named: reflogs(names), missing })
    }
}

fn drop_logs(
    repository: &Repository,
    changes: &RefChanges<'_>,
    args: &ReflogDropOptions,
) -> Result<(), Fatal> {
    let chosen = ChosenReflogs::new(repository, args.all, args.single_worktree, &args.names)?;
    let mut result = Ok(());
    for name in chosen.missing {
        result = Err(failed(changes.call, format!("reflog could not be found: '{name}'")));
    }
    for WorkTreeReflogs { refs, names } in chosen.all.into_iter().chain([chosen.named]) {
        for name in names {
            if let Err(error) = refs.edit_log(&name, &changes.writes, &mut |_| LogEdit::Drop) {
                // As in git, whose code is another one here.
                result = result.and(Err(unchanged(changes.call, &refs, error, 1)));
            }
        }
    }
    result
}

/// Whether to prune the entry at a position, which may have another old object than in the log.
type IsPruned<'a> = dyn FnMut(&[LoggedChange], usize, &LoggedChange) -> Result<bool, Fatal> + 'a;

/// Removes the entries for which `is_pruned` is true; positions count from the oldest entry.
fn shorten(
    refs: &RefStore,
    changes: &RefChanges<'_>,
    options: &ReflogChangeOptions,
    says_would: bool,
    name: &[u8],
    is_pruned: &mut IsPruned<'_>,
) -> Result<(), Fatal> {
    let value = refs.read(name).map_err(Fatal::new)?;
    let mut problem = None;
    let mut decide = |log: Option<&[LoggedChange]>| match kept(
        changes.call,
        refs.backend(),
        log.unwrap_or_default(),
        options,
        says_would,
        is_pruned,
    ) {
        Ok(kept) => kept,
        Err(error) => {
            problem = Some(error);
            None
        }
    };
    if options.dry_run {
        let log = refs.log(name).map_err(Fatal::new)?;
        decide(log.as_deref());
    } else {
        refs.edit_log(name, &changes.writes, &mut |log| {
            let Some(changes) = decide(log).filter(|_| log.is_some()) else { return LogEdit::Keep };
            let last = changes.last().map(|change| change.new).filter(|id| !id.is_null());
            let value = match value {
                Some(Value::Id(now)) if options.updateref => last.filter(|last| *last != now),
                _ => None,
            };
            LogEdit::Replace { changes, value }
        })
        .map_err(|error| unchanged(changes.call, refs, error, FAILED))?;
    }
    problem.map_or(Ok(()), Err)
}

/// Keeps what has `failed` for the end: other reflogs are changed all the same.
fn unless_fatal(done: Result<(), Fatal>, result: &mut Result<(), Fatal>) -> Result<(), Fatal> {
    match done {
        // As in git, which takes its codes together bit by bit.
        Err(error) if matches!(error.code, FAILED | LOCKED) => {
            let before = result.as_ref().err().map_or(0, |before| before.code);
            *result = Err(Fatal::silent(error.code | before));
        }
        done => done?,
    }
    Ok(())
}

/// The entries to keep; `None` if all stay.
fn kept(
    call: &Call,
    backend: Backend,
    log: &[LoggedChange],
    options: &ReflogChangeOptions,
    says_would: bool,
    is_pruned: &mut IsPruned<'_>,
) -> Result<Option<Vec<LoggedChange>>, Fatal> {
    let mut kept: Vec<LoggedChange> = Vec::new();
    for (position, change) in log.iter().enumerate() {
        let mut rewritten = change.clone();
        if options.rewrite {
            let before = kept.last().map(|before| before.new);
            rewritten.old = before.unwrap_or_else(|| ObjectId::null(change.new.kind()));
        }
        // As in git, which depends on the backend.
        let judged = if backend == Backend::Files { &rewritten } else { change };
        let is_pruned = is_pruned(log, position, judged)?;
        if options.verbose {
            let word = match (is_pruned, options.dry_run) {
                (false, _) => "keep",
                (true, true) if says_would => "would prune",
                (true, _) => "prune",
            };
            call.write_line([word.as_bytes(), b" ", &change.message].concat())?;
        }
        if is_pruned {
            continue;
        }
        kept.push(rewritten);
    }
    Ok((kept != log).then_some(kept))
}

/// The time in seconds that an option of `expire` says.
pub(crate) fn expire_time(text: &str, option: &str) -> Result<u64, Fatal> {
    let seconds = expiry(text);
    let seconds =
        seconds.ok_or_else(|| Fatal::new(format!("invalid timestamp '{text}' given to '{option}'")));
    Ok(u64::try_from(seconds?).unwrap_or(0))
}

/// `reflog expire`.
fn expire(
    repository: &Repository,
    changes: &RefChanges<'_>,
    args: &ReflogExpireOptions,
) -> Result<(), Fatal> {
    repository.config().check_reflog_times()?;
    let moment =
        |text: &Option<String>, option| text.as_deref().map(|text| expire_time(text, option)).transpose();
    let total = moment(&args.expire, "--expire")?;
    let unreachable = moment(&args.expire_unreachable, "--expire-unreachable")?;
    let mut expired = ReflogExpiry::new(repository, total, unreachable)?;
    if args.stale_fix {
        if args.change.verbose {
            changes.call.write_line("Marking reachable objects...")?;
        }
        expired = expired.with_stale_fix()?;
    }
    let chosen = ChosenReflogs::new(repository, args.all, args.single_worktree, &args.names)?;
    let mut result = Ok(());
    for name in chosen.missing {
        result = Err(failed(changes.call, format!("reflog could not be found: '{name}'")));
    }
    // Git says "would" only for those that were not named.
    let all = chosen.all.into_iter().map(|reflogs| (reflogs, true));
    for (WorkTreeReflogs { refs, names }, says_would) in all.chain([(chosen.named, false)]) {
        for name in names {
            let expired = expired.of(&refs, &name)?;
            let mut is_pruned = |_: &[LoggedChange], _: usize, change: &LoggedChange| Ok(expired.has(change));
            let shortened = shorten(&refs, changes, &args.change, says_would, &name, &mut is_pruned);
            unless_fatal(shortened, &mut result)?;
        }
    }
    result
}
