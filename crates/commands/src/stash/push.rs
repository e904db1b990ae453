//! `stash push`, `save` and `create`.

use std::ffi::OsString;
use std::rc::Rc;

use packrace_os::trace;
use packrace_store::refs::{Expected, RefChange, TransactionMode};
use packrace_worktree::WorkError;
use packrace_worktree::files::{FileComparison, Files};
use packrace_worktree::index::{IndexError, TreeError};
use packrace_worktree::listing::{TreeItem, list};
use packrace_worktree::objects::Objects;
use packrace_worktree::path_attributes::attach_attributes;
use packrace_worktree::paths::Pathspecs;
use packrace_worktree::stash::{Head, Outcome, StashRequest, StashSession, Stays, StoredStash};
use packrace_worktree::untracked::{Untracked, UntrackedKind};

use super::{Context, REF, complain, pathspecs, say, state};
use crate::call::fatal::{Fatal, is_forbidden};
use crate::commit_tree::encoding as commit_encoding;
use crate::hooks::IndexChange;
use crate::options::{StashKeepOptions, StashPushOptions};
use crate::ref_changes::{RefChanges, edit, ends_all};
use crate::work_tree::sparse_index_expanded;

/// The program that git starts to store changed files.
const GIT_KEEPS: [&str; 7] =
    ["git", "update-index", "--ignore-skip-worktree-entries", "-z", "--add", "--remove", "--stdin"];

/// And to undo all changes.
const GIT_TAKES_AWAY: [&str; 5] = ["git", "reset", "--hard", "-q", "--no-recurse-submodules"];

pub(super) fn save(
    context: &Context<'_>,
    options: &StashKeepOptions,
    words: &[OsString],
) -> Result<(), Fatal> {
    let message = (!words.is_empty()).then(|| joined(words));
    push(context, options, message, pathspecs::of(context, &StashPushOptions::default())?)
}

pub(super) fn run(context: &Context<'_>, args: &StashPushOptions) -> Result<(), Fatal> {
    let specs = pathspecs::of(context, args)?;
    let message = args.message.as_ref().map(|message| message.as_encoded_bytes().to_vec());
    push(context, &args.options, message, specs)
}

pub(super) fn create(context: &Context<'_>, words: &[OsString]) -> Result<(), Fatal> {
    let mut session = match context.open() {
        Err(WorkError::Index(IndexError::Lock(_))) if is_clean(context)? => return Ok(()),
        session => context.opened(session)?,
    };
    context.unfold(&mut session)?;
    let unmerged = super::examine(context.call, &mut session)?;
    if !unmerged.is_empty() {
        return conflicts(context, &session, &unmerged);
    }
    let Some(head) = context.head(session.objects())? else {
        complain(context.call, &["You do not have the initial commit yet".to_owned()]);
        return Err(Fatal::silent(1));
    };
    let message = Some(joined(words)).filter(|message| !message.is_empty());
    let work = StashContent {
        head: &head,
        message: message.as_deref(),
        untracked: None,
        staged_only: false,
        stays: Stays::Unstaged,
        quiet: false,
    };
    let kept =
        keep(context, &mut session, &work, &mut pathspecs::of(context, &StashPushOptions::default())?)?;
    let was_refreshed = session.index().is_changed();
    context.finish(session, IndexChange::Alone)?;
    match kept {
        Outcome::Stored(kept) => say(context.call, &[kept.commit.to_hex().to_string().as_bytes()]),
        // As in git, which looks for changes before it refreshes the index, and then finds none.
        _ if was_refreshed => Err(Fatal::silent(1)),
        _ => Ok(()),
    }
}

/// Whether index and work tree are those of `HEAD`, for all that the metadata of files says: then no lock is needed.
fn is_clean(context: &Context<'_>) -> Result<bool, Fatal> {
    let index = context.index()?;
    let snapshot = context.repository.snapshot()?;
    let objects = Rc::new(Objects::new(&snapshot));
    let Some(head) = context.head(&objects)? else { return Ok(false) };
    let committed = list(&objects, &head.tree)?;
    let mut files = Files::open(context.repository, &snapshot, &context.top, objects)?;
    for (key, entry) in index.entries() {
        let is_committed = key.stage() == 0 && committed.get(key.path()) == Some(&TreeItem::of(entry));
        if !is_committed || files.compare(&index, key.path(), entry)? != FileComparison::Same {
            return Ok(false);
        }
    }
    Ok(index.len() == committed.len())
}

/// Fails: an index with conflicts has no tree.
fn conflicts(context: &Context<'_>, session: &StashSession<'_>, unmerged: &[Vec<u8>]) -> Result<(), Fatal> {
    super::say_unmerged(context.call, unmerged)?;
    let entries = session.index().entries().filter(|(key, _)| key.stage() > 0);
    let line = |path: &[u8], id| format!("{}: unmerged ({id})", String::from_utf8_lossy(path));
    let mut lines: Vec<String> = entries.map(|(key, entry)| line(key.path(), entry.id)).collect();
    lines.push("Cannot save the current index state".to_owned());
    complain(context.call, &lines);
    Err(Fatal::silent(1))
}

fn joined(words: &[OsString]) -> Vec<u8> {
    words.iter().map(|word| word.as_encoded_bytes()).collect::<Vec<_>>().join(&b' ')
}

/// What to save.
struct StashContent<'a> {
    head: &'a Head,
    message: Option<&'a [u8]>,
    untracked: Option<&'a [Untracked]>,
    staged_only: bool,
    stays: Stays,
    /// Whether to omit the final message after errors.
    quiet: bool,
}

impl StashContent<'_> {
    /// Reports why something cannot be saved.
    fn refused(&self, context: &Context<'_>, mut lines: Vec<String>, what: &str) -> Fatal {
        if !self.quiet {
            lines.push(format!("Cannot save the {what}"));
        }
        complain(context.call, &lines);
        Fatal::silent(1)
    }
}

fn push(
    context: &Context<'_>,
    options: &StashKeepOptions,
    message: Option<Vec<u8>>,
    mut specs: Pathspecs,
) -> Result<(), Fatal> {
    let includes_untracked = options.include_untracked || options.all;
    if options.staged && includes_untracked {
        complain(
            context.call,
            &["Can't use --staged and --include-untracked or --all at the same time".to_owned()],
        );
        return Err(Fatal::silent(1));
    }
    let mut session = begin(context, &mut specs, includes_untracked)?;
    let untracked = match includes_untracked {
        false => None,
        true => Some(untracked(context, &mut session, &mut specs, options.all)?),
    };
    let Some(head) = context.head(session.objects())? else {
        if !options.quiet {
            complain(context.call, &["You do not have the initial commit yet".to_owned()]);
        }
        return Err(Fatal::silent(1));
    };
    let message = message.filter(|message| !message.is_empty());
    let work = StashContent {
        head: &head,
        message: message.as_deref(),
        untracked: untracked.as_deref(),
        staged_only: options.staged,
        stays: match (options.staged, options.keep_index) {
            (true, _) => Stays::Unstaged,
            (false, true) => Stays::Staged,
            (false, false) => Stays::Nothing,
        },
        quiet: options.quiet,
    };
    // Git has other programs for what is staged.
    let traced = if options.staged { None } else { trace::child_inside(&GIT_KEEPS) };
    let kept = match trace::during(traced, || keep(context, &mut session, &work, &mut specs))? {
        Outcome::Stored(kept) => kept,
        other => {
            context.finish(session, IndexChange::Alone)?;
            return nothing_to_keep(context, options, matches!(other, Outcome::NothingStaged));
        }
    };
    specs.check_attributes()?;
    set_ref(context, &kept, options.quiet)?;
    if !options.quiet {
        say(context.call, &[b"Saved working directory and index state ", &kept.message])?;
    }
    let is_reset = !options.staged && specs.is_empty();
    let traced = if is_reset { trace::child_inside(&GIT_TAKES_AWAY) } else { None };
    trace::during(traced, || take_away(context, options, session, &kept, &head, &specs))
}

/// Finds what the pathspecs match, locks the index and refreshes it.
fn begin<'a>(
    context: &Context<'a>,
    specs: &mut Pathspecs,
    includes_untracked: bool,
) -> Result<StashSession<'a>, Fatal> {
    let mut is_expanded = false;
    if !specs.is_empty() {
        let (index, snapshot) = (context.index()?, context.repository.snapshot()?);
        attach_attributes(specs, context.repository, &snapshot, &context.top, &index)?;
        if !includes_untracked {
            // Git looks for them in the whole index.
            is_expanded = index.is_folded();
            if is_expanded {
                sparse_index_expanded(context.call, context.repository.config())?;
            }
            pathspecs::check(context, &index, specs)?;
        }
    }
    let mut session = context.lock()?;
    if !is_expanded {
        context.unfold(&mut session)?;
    }
    super::refresh(context.call, &mut session)?;
    Ok(session)
}

/// Removes what is stashed from the index and the work tree.
fn take_away(
    context: &Context<'_>,
    options: &StashKeepOptions,
    mut session: StashSession<'_>,
    kept: &StoredStash,
    head: &Head,
    specs: &Pathspecs,
) -> Result<(), Fatal> {
    if options.staged {
        if let Err(failed) = session.clear_staged(head, options.keep_index)? {
            complain(context.call, &failed.0);
            if !options.quiet {
                complain(context.call, &["Cannot remove worktree changes".to_owned()]);
            }
            return Err(Fatal::silent(1));
        }
    } else {
        let is_meant = &mut |path: &[u8]| specs.is_meant(path, false);
        if session.clear(
            kept,
            head,
            is_meant,
            options.include_untracked || options.all,
            options.keep_index,
        )? {
            say(context.call, &[b"Refusing to remove current working directory"])?;
        }
        if specs.is_empty() {
            session.follow_sparse_checkout()?;
        }
    }
    if !specs.is_empty() {
        return context.finish(session, IndexChange::WithWorkTree);
    }
    // All changes are stashed, so whatever led to them ends.
    if !options.staged {
        session.clear_resolve_undo();
    }
    context.finish(session, IndexChange::WithWorkTree)?;
    state::forget_operation(context, false)
}

fn nothing_to_keep(
    context: &Context<'_>,
    options: &StashKeepOptions,
    is_only_unstaged: bool,
) -> Result<(), Fatal> {
    if is_only_unstaged {
        if !options.quiet {
            complain(context.call, &["No staged changes".to_owned()]);
        }
        return Err(Fatal::silent(1));
    }
    if !options.quiet {
        say(context.call, &[b"No local changes to save"])?;
    }
    Ok(())
}

/// Untracked files, and nested repositories, of which git says that it ignores them.
fn untracked(
    context: &Context<'_>,
    session: &mut StashSession<'_>,
    specs: &mut Pathspecs,
    includes_ignored: bool,
) -> Result<Vec<Untracked>, Fatal> {
    let options = context.call.fetching_options()?;
    let untracked = session.untracked(specs, includes_ignored, &options)?;
    for one in untracked.iter().filter(|one| matches!(one.found, UntrackedKind::Repository(_))) {
        complain(context.call, &[format!("Ignoring path {}/", String::from_utf8_lossy(&one.path))]);
    }
    Ok(untracked)
}

fn keep(
    context: &Context<'_>,
    session: &mut StashSession<'_>,
    work: &StashContent<'_>,
    specs: &mut Pathspecs,
) -> Result<Outcome, Fatal> {
    const WORK_TREE: &str = "current worktree state";
    let people = context.people();
    let encoding = commit_encoding(context.repository.config());
    let mut is_meant = |path: &[u8]| specs.is_meant(path, false);
    let kept = session.keep(&mut StashRequest {
        head: work.head,
        is_meant: &mut is_meant,
        untracked: work.untracked,
        staged_only: work.staged_only,
        stays: work.stays,
        message: work.message,
        people: people.as_ref().ok(),
        encoding: encoding.as_deref(),
    });
    complain(context.call, &session.take_messages());
    match (kept, people) {
        (Ok(Outcome::Nameless), Err(why)) => Err(why),
        (Ok(Outcome::UnreadableUntracked(lines)), _) => Err(work.refused(context, lines, "untracked files")),
        (Err(WorkError::Unreadable(lines)), _) => Err(work.refused(context, lines, WORK_TREE)),
        (Err(WorkError::Tree(error @ TreeError::Missing { .. })), _) => {
            Err(work.refused(context, vec![format!("error: {error}")], "current index state"))
        }
        (Err(WorkError::Store(error)), _) if is_forbidden(&error) => {
            // Git stores the state of the index first, so it fails there.
            let line = format!("error: {}", Fatal::new(error).message);
            Err(work.refused(context, vec![line], "current index state"))
        }
        (kept, _) => Ok(kept?),
    }
}

/// Makes the entry the newest one.
fn set_ref(context: &Context<'_>, kept: &StoredStash, is_quiet: bool) -> Result<(), Fatal> {
    let mut changes = RefChanges::new(context.repository, context.call)?;
    changes.writes.who = context.people()?.committer;
    let mut edit = edit(REF, RefChange::Set(kept.commit), Expected::Any, &kept.message.clone().into());
    edit.force_log = true;
    match changes.run_after(&kept.stored, vec![edit], TransactionMode::Atomic) {
        Ok(_) => Ok(()),
        Err(error) if ends_all(&error) => Err(error.into()),
        // As in git, nothing is said of why.
        Err(_) if is_quiet => Err(Fatal::silent(1)),
        Err(_) => Err(super::failed(context, "Cannot save the current status".to_owned())),
    }
}
