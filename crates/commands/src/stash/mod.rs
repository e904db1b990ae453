//! `git stash`: saves changes of a work tree, and restores them.

mod apply;
mod branch;
mod entries;
mod exported;
mod pathspecs;
mod push;
mod show;
mod state;
mod with_git;

use std::path::PathBuf;

use packrace_object::{Kind, ObjectId};
use packrace_store::Repository;
use packrace_worktree::WorkError;
use packrace_worktree::index::{Index, IndexError};
use packrace_worktree::objects::Objects;
use packrace_worktree::stash::{Head, People, StashSession};

use crate::call::Call;
use crate::call::discovery::{repository_with_replacements, with_refs};
use crate::call::fatal::Fatal;
use crate::call::identity::Role;
use crate::hooks::{IndexChange, index_changed, variables_of_filters};
use crate::options::StashOptions;
use crate::revisions::{Revisions, with_attribute_tree};
use crate::text::subject_of;
use crate::work_tree::{WorkTree, damaged_index, sparse_index_expanded, start_monitor};

/// The ref of the newest entry; older ones are in its reflog.
const REF: &[u8] = b"refs/stash";

impl From<WorkError> for Fatal {
    fn from(error: WorkError) -> Self {
        match error {
            WorkError::Index(error) => error.into(),
            WorkError::Store(error) => error.into(),
            error => Fatal::new(error),
        }
    }
}

/// Implements `git stash`.
pub fn run(call: &Call, args: &StashOptions) -> Result<(), Fatal> {
    let repository = with_attribute_tree(call, with_refs(repository_with_replacements(call)?)?)?;
    let context = Context::new(&repository, call)?;
    match args {
        StashOptions::Push(args) => push::run(&context, args),
        StashOptions::Save { options, words } => push::save(&context, options, words),
        StashOptions::List(options) => entries::list(&context, options),
        StashOptions::Show(args) => show::run(&context, args),
        StashOptions::Apply(args) => apply::run(&context, args, false),
        StashOptions::Pop(args) => apply::run(&context, args, true),
        StashOptions::Drop { quiet, entries } => entries::drop_one(&context, entries, *quiet),
        StashOptions::Clear { arguments } => entries::clear(&context, arguments),
        StashOptions::Create { words } => push::create(&context, words),
        StashOptions::Store { message, quiet, commits } => {
            entries::store(&context, message.as_deref(), *quiet, commits)
        }
        StashOptions::Branch { arguments } => branch::run(&context, arguments),
        StashOptions::Export { print, to_ref, stashes } => {
            exported::export(&context, *print, to_ref.as_deref(), stashes)
        }
        StashOptions::Import { commits } => exported::import(&context, commits),
    }
}

/// Shared by all subcommands.
struct Context<'a> {
    repository: &'a Repository,
    call: &'a Call,
    /// The top of the work tree.
    top: PathBuf,
    /// The current directory below the top, with a slash at its end unless it is the top.
    prefix: Vec<u8>,
}

impl<'a> Context<'a> {
    fn new(repository: &'a Repository, call: &'a Call) -> Result<Self, Fatal> {
        let WorkTree { top, prefix, .. } = WorkTree::of(repository, call)?;
        Ok(Context { repository, call, top, prefix })
    }

    /// Author and committer of a stash. As in git, a missing name is no error, but an empty one is.
    fn people(&self) -> Result<People, Fatal> {
        let config = self.repository.config();
        let nobody = ("git stash", "git@stash");
        Ok(People {
            author: self.call.environment.author.known_or(Role::Author, config, nobody)?,
            committer: self.call.environment.committer.known_or(Role::Committer, config, nobody)?,
        })
    }

    /// Locks the index.
    fn open(&self) -> Result<StashSession<'a>, WorkError> {
        let mut session = StashSession::begin(self.repository, &self.top)?;
        session.ask_monitor(&|| start_monitor(self.call, self.repository, &self.top))?;
        let (top, prefix) = (Some(self.top.as_path()), &self.prefix);
        session.set_variables(&variables_of_filters(self.call, self.repository, top, prefix));
        Ok(session)
    }

    fn lock(&self) -> Result<StashSession<'a>, Fatal> {
        self.opened(self.open())
    }

    /// Says why the index cannot be locked.
    fn opened(&self, session: Result<StashSession<'a>, WorkError>) -> Result<StashSession<'a>, Fatal> {
        match session {
            Err(WorkError::Index(error @ (IndexError::Lock(_) | IndexError::NullId(_)))) => {
                self.index()?;
                let cause = error.cause().unwrap_or_else(|| error.to_string());
                let lines = [format!("error: {cause}"), "error: could not write index".to_owned()];
                complain(self.call, &lines);
                Err(Fatal::silent(1))
            }
            Err(WorkError::Index(IndexError::Nameless)) => Err(unwritten_index(self.call)),
            Err(WorkError::Index(error)) => Err(self.damaged_index(error)),
            session => Ok(session?),
        }
    }

    /// The index as it is now, without its lock.
    fn index(&self) -> Result<Index, Fatal> {
        Index::read(self.repository).map_err(|error| self.damaged_index(error))
    }

    fn damaged_index(&self, error: IndexError) -> Fatal {
        match WorkTree::find(self.repository, self.call) {
            Ok(tree) => damaged_index(error, self.repository, self.call, tree.as_ref()),
            Err(why) => why,
        }
    }

    /// Writes the index, which changed with what is said.
    fn finish(&self, session: StashSession<'_>, change: IndexChange) -> Result<(), Fatal> {
        let finished = session.finish()?;
        complain(self.call, &finished.messages);
        match finished.has_new_index {
            true => index_changed(self.call, self.repository, change),
            false => Ok(()),
        }
    }

    /// Locks the index, refreshes it, and fails if there are conflicts.
    fn begin(&self) -> Result<StashSession<'a>, Fatal> {
        let mut session = self.lock()?;
        self.unfold(&mut session)?;
        refresh(self.call, &mut session)?;
        Ok(session)
    }

    /// Says that git would expand the index, if it would.
    fn unfold(&self, session: &mut StashSession<'_>) -> Result<(), Fatal> {
        let config = self.repository.config();
        if session.unfold_in(config, &self.top)? { sparse_index_expanded(self.call, config) } else { Ok(()) }
    }

    /// The commit of `HEAD`; `None` on an unborn branch.
    fn head(&self, objects: &Objects) -> Result<Option<Head>, Fatal> {
        let refs = self.repository.refs();
        let Some(head) = refs.resolve(b"HEAD").map_err(Fatal::new)? else { return Ok(None) };
        let commit = head.id;
        let content = objects.read_as(&commit, Kind::Commit)?;
        let tree = packrace_object::parse_commit(&content, objects.hash_kind()).map_err(Fatal::new)?.tree;
        let branch = Some(head.name).filter(|name| name != b"HEAD");
        let short = self.short(&commit)?;
        let shown = branch.as_deref().and_then(|name| name.strip_prefix(b"refs/heads/"));
        let description =
            [shown.unwrap_or(b"(no branch)"), b": ", short.as_bytes(), b" ", &subject_of(&content)].concat();
        let description = description.trim_ascii_end().to_vec();
        Ok(Some(Head { commit, tree, branch, description }))
    }

    /// An object name, abbreviated as git does.
    fn short(&self, id: &ObjectId) -> Result<String, Fatal> {
        let snapshot = self.repository.snapshot()?;
        let digits = snapshot.usual_digits(self.repository.config())?;
        let digits = snapshot.unique_digits(id, digits)?;
        let mut hex = id.to_hex().to_string();
        hex.truncate(digits);
        Ok(hex)
    }

    fn revisions(&self) -> Result<Revisions<'_>, Fatal> {
        Ok(Revisions::new(self.call, self.repository, &self.repository.snapshot()?))
    }

    /// The object that a revision names.
    fn resolve(&self, revision: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        self.revisions()?.resolve(revision)
    }
}

/// Lists the paths with conflicts.
fn say_unmerged(call: &Call, paths: &[Vec<u8>]) -> Result<(), Fatal> {
    paths.iter().try_for_each(|path| say(call, &[path, b": needs merge"]))
}

/// Refreshes the index. Returns paths with conflicts.
fn examine(call: &Call, session: &mut StashSession<'_>) -> Result<Vec<Vec<u8>>, Fatal> {
    let unmerged = session.refresh();
    if unmerged.is_err() {
        // Filters say why they fail.
        complain(call, &session.take_messages());
    }
    Ok(unmerged?)
}

/// The same, but fails if there are conflicts.
fn refresh(call: &Call, session: &mut StashSession<'_>) -> Result<(), Fatal> {
    let unmerged = examine(call, session)?;
    if unmerged.is_empty() {
        return Ok(());
    }
    say_unmerged(call, &unmerged)?;
    Err(unwritten_index(call))
}

fn unwritten_index(call: &Call) -> Fatal {
    complain(call, &["error: could not write index".to_owned()]);
    Fatal::silent(1)
}

/// Says what went wrong and why there is nothing more to do.
fn failed(context: &Context<'_>, line: String) -> Fatal {
    complain(context.call, &[line]);
    Fatal::silent(1)
}

/// Writes a line to standard output.
fn say(call: &Call, parts: &[&[u8]]) -> Result<(), Fatal> {
    call.write_line(parts.concat())
}

/// Writes lines to standard error.
fn complain(call: &Call, lines: &[String]) {
    let mut text = lines.join("\n");
    if !lines.is_empty() {
        text.push('\n');
    }
    // If standard error is closed, the lines are lost.
    let _ = call.streams.errors.say(text.as_bytes());
}
