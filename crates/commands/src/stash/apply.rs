//! `stash apply` and `stash pop`.

use std::ffi::OsString;

use packrace_os::trace;
use packrace_worktree::merge::Names;
use packrace_worktree::stash::{IndexMode, Stash, StashSession};

use super::{Context, complain, entries, say, state, with_git};
use crate::call::fatal::Fatal;
use crate::hooks::IndexChange;
use crate::options::StashApplyOptions;
use crate::reports::long_status::{LongStatus, rename_limit, untracked_mode};

pub(super) fn run(context: &Context<'_>, args: &StashApplyOptions, drops: bool) -> Result<(), Fatal> {
    let entry = entries::find(context, &args.entries)?;
    if drops {
        entries::check_listed(context, &entry)?;
    }
    let restores_index = match args.index {
        None => context.repository.config().boolean("stash.index")?.unwrap_or(false),
        Some(asked) => asked,
    };
    let mode = if restores_index { IndexMode::Restored } else { IndexMode::Left };
    let name = |typed: &Option<OsString>, usual: &str| match typed {
        Some(typed) => typed.to_string_lossy().into_owned(),
        None => usual.to_owned(),
    };
    let usual = usual_names();
    let names = Names {
        base: name(&args.label_base, &usual.base),
        ours: name(&args.label_ours, &usual.ours),
        theirs: name(&args.label_theirs, &usual.theirs),
    };
    let applied = apply(context, &entry.stash, mode, &names, args.quiet);
    match (applied, drops) {
        (Ok(()), true) => entries::drop_entry(context, &entry, args.quiet),
        (Err(error), true) => {
            if error.code == 1 {
                say(context.call, &[b"The stash entry is kept in case you need it again."])?;
            }
            Err(error)
        }
        (result, false) => result,
    }
}

/// The names of the sides in conflicts.
pub(super) fn usual_names() -> Names {
    Names {
        base: "Stash base".to_owned(),
        ours: "Updated upstream".to_owned(),
        theirs: "Stashed changes".to_owned(),
    }
}

/// Applies a stash, and prints the messages.
pub(super) fn apply(
    context: &Context<'_>,
    stash: &Stash,
    mode: IndexMode,
    names: &Names,
    is_quiet: bool,
) -> Result<(), Fatal> {
    let mut session = context.begin()?;
    let applied = session.apply(stash, mode, names)?;
    let region = trace::region("merge", "display messages");
    for line in applied.output.iter().chain(applied.merge_lines.iter().filter(|_| !is_quiet)) {
        say(context.call, &[line.as_bytes()])?;
    }
    drop(region);
    complain(context.call, &session.take_messages());
    complain(context.call, &applied.errors);
    context.finish(session, IndexChange::WithWorkTree)?;
    if applied.has_conflicts {
        with_git::resolve_known(context)?;
    }
    if applied.is_whole && applied.has_index {
        // Git resets the index first.
        state::forget_operation(context, false)?;
    }
    if applied.shows_status && !is_quiet {
        match status(context) {
            Ok(text) => context.call.write(&text)?,
            // As in git, where it is a command of its own, the changes are restored all the same. If standard error is
            // closed, the message is lost.
            Err(error) => drop(context.call.streams.errors.say(&error.text())),
        }
    }
    match applied.is_whole {
        true => Ok(()),
        false => Err(Fatal::silent(1)),
    }
}

/// The output of `git status`; empty if git has printed it.
fn status(context: &Context<'_>) -> Result<Vec<u8>, Fatal> {
    if with_git::show_status(context, false)? {
        return Ok(Vec::new());
    }
    let mut session = context.open()?;
    if with_git::has_submodules(&session, &context.top) {
        drop(session);
        if with_git::show_status(context, true)? {
            return Ok(Vec::new());
        }
        session = context.open()?;
    }
    trace::during(trace::child_inside(&["git", "status"]), || own_status(context, session))
}

fn own_status(context: &Context<'_>, mut session: StashSession<'_>) -> Result<Vec<u8>, Fatal> {
    let config = context.repository.config();
    let options = context.call.fetching_options()?;
    session.unfold_in(config, &context.top)?;
    session.refresh()?;
    let head = context.head(session.objects())?;
    let status = session.status(
        context.repository,
        head.as_ref().map(|head| &head.tree),
        rename_limit(config)?,
        untracked_mode(config)?,
        &options,
    )?;
    context.finish(session, IndexChange::Alone)?;
    let _region = trace::region("status", "print");
    let text = LongStatus::new(context.call, context.repository, &context.prefix)?
        .render(&status, head.map(|head| head.commit))?;
    Ok(text.into_bytes())
}
