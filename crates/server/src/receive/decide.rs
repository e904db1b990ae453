//! Decides which ref changes a repository allows, in git's order and words.

use std::collections::HashMap;
use std::sync::Arc;

use packrace_object::{Kind, ObjectId, parse_commit};
use packrace_pack::{RequestObjects, reach};
use packrace_store::refs::{RefSnapshot, is_good_name};
use packrace_store::{ObjectReader, Snapshot};

use super::commands::{Push, ReceivedCommand};
use super::hook_run::Variables;
use super::landing::Landing;
use super::settings::Deny;
use super::work_trees::{NamedWorkTree, work_trees};
use crate::error::Error;

/// The longest chain of symbolic refs, as in git.
const MAX_SYMREF_DEPTH: usize = 5;

/// Whether a push may change the ref of this name. A new ref cannot be called `refs/heads`: it would take the
/// place of the folder of all branches; an existing one can be deleted.
fn is_pushable_name(name: &[u8], is_delete: bool) -> bool {
    let Some(below) = name.strip_prefix(b"refs/") else { return false };
    is_good_name(name) && (is_delete || below.contains(&b'/'))
}

/// The decision about a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Change,
    Rejected,
}

/// What decisions are based on.
pub(super) struct Deciding {
    snapshot: Arc<Snapshot>,
    /// The branch that `HEAD` points to.
    head: Option<Vec<u8>>,
    work_trees: Vec<NamedWorkTree>,
    /// Variables for the hook `update`.
    variables: Variables,
}

impl Push<'_> {
    pub(super) fn deciding(&self, refs: &RefSnapshot, landing: &Landing<'_>) -> Result<Deciding, Error> {
        let repository = &self.call.subject.repository;
        Ok(Deciding {
            snapshot: landing.snapshot()?,
            head: last_of_chain(refs, b"HEAD")?.flatten(),
            work_trees: work_trees(repository)?,
            variables: landing.variables().into_iter().map(|(name, value)| (name, Some(value))).collect(),
        })
    }

    /// Checks whether two commands change the same ref through a symbolic ref.
    pub(super) fn check_aliases(&mut self, refs: &RefSnapshot) -> Result<(), Error> {
        let numbers: HashMap<Vec<u8>, usize> =
            self.commands.iter().enumerate().map(|(at, command)| (command.name.clone(), at)).collect();
        for at in 0..self.commands.len() {
            if !self.commands[at].is_open() {
                continue;
            }
            let command = &self.commands[at];
            let shown = String::from_utf8_lossy(&command.name).into_owned();
            let target = match last_of_chain(refs, &command.full_name)? {
                None => continue,
                Some(target) => target,
            };
            let stored = self.call.subject.repository.refs();
            let target = target
                .filter(|target| is_good_name(target) && stored.exists(target).is_ok())
                .and_then(|target| target.strip_prefix(self.namespace.as_slice()).map(<[u8]>::to_vec));
            let Some(target) = target else {
                self.client.error(&format!("refusing update to broken symref '{shown}'"));
                self.commands[at].reject("broken symref");
                continue;
            };
            let Some(&other) = numbers.get(&target) else { continue };
            let (from, to) = (&self.commands[at], &self.commands[other]);
            if from.old == to.old && from.new == to.new {
                self.commands[at].is_done_by_other = true;
                continue;
            }
            let short = |id: &packrace_object::ObjectId| id.to_hex_with_len(7).to_string();
            self.client.error(&format!(
                "refusing inconsistent update between symref '{shown}' ({}..{}) and its target '{}' ({}..{})",
                short(&from.old),
                short(&from.new),
                String::from_utf8_lossy(&target),
                short(&to.old),
                short(&to.new)
            ));
            for at in [at, other] {
                self.commands[at].reject("inconsistent aliased update");
            }
        }
        Ok(())
    }

    /// Whether a command may be executed, as far as the repository and the hook `update` decide.
    pub(super) fn decide(&mut self, at: usize, deciding: &Deciding) -> Result<Decision, Error> {
        match self.refusal(at, deciding)? {
            Some(why) => {
                self.commands[at].reject(&why);
                Ok(Decision::Rejected)
            }
            None => Ok(Decision::Change),
        }
    }

    fn refusal(&mut self, at: usize, deciding: &Deciding) -> Result<Option<String>, Error> {
        let command = &self.commands[at];
        let shown = String::from_utf8_lossy(&command.name).into_owned();
        if !is_pushable_name(&command.name, command.is_delete()) {
            self.client.error(&format!("refusing to update funny ref '{shown}' remotely"));
            return Ok(Some("funny refname".to_owned()));
        }
        let mut followed = None;
        let of_work_tree =
            deciding.work_trees.iter().find(|tree| tree.head.as_deref() == Some(&*command.full_name));
        if let Some(tree) = of_work_tree {
            match self.settings.deny_current {
                Deny::Ignore => {}
                Deny::Warn => self.client.warn("updating the current branch"),
                Deny::UpdateInstead if command.is_delete() => {}
                Deny::UpdateInstead => followed = Some(tree),
                Deny::Refuse | Deny::Unconfigured => {
                    self.client.error(&format!("refusing to update checked out branch: {shown}"));
                    if self.settings.deny_current == Deny::Unconfigured {
                        self.client.error(UNCONFIGURED_CURRENT);
                    }
                    return Ok(Some("branch is currently checked out".to_owned()));
                }
            }
        }
        if !command.is_delete() && !deciding.snapshot.contains(&command.new)? {
            let id = command.new;
            self.client.error(&format!("unpack should have generated {id}, but I can't find it!"));
            return Ok(Some("bad pack".to_owned()));
        }
        if !command.old.is_null() && command.is_delete() {
            if self.settings.deny_deletes && command.name.starts_with(b"refs/heads/") {
                self.client.error(&format!("denying ref deletion for {shown}"));
                return Ok(Some("deletion prohibited".to_owned()));
            }
            let is_head = deciding.head.as_deref() == Some(&*command.full_name);
            if is_head || of_work_tree.is_some() {
                match self.settings.deny_delete_current {
                    Deny::Ignore => {}
                    Deny::Warn => self.client.warn("deleting the current branch"),
                    Deny::Refuse | Deny::Unconfigured | Deny::UpdateInstead => {
                        if self.settings.deny_delete_current == Deny::Unconfigured {
                            self.client.error(UNCONFIGURED_DELETE);
                        }
                        self.client.error(&format!("refusing to delete the current branch: {shown}"));
                        return Ok(Some("deletion of the current branch prohibited".to_owned()));
                    }
                }
            }
        }
        if let Some(why) = self.refuses_rewind(at, &deciding.snapshot)? {
            return Ok(Some(why));
        }
        if !self.run_update(&self.commands[at], &deciding.variables)? {
            self.client.error(&format!("hook declined to update {shown}"));
            return Ok(Some("hook declined".to_owned()));
        }
        if let Some(tree) = followed
            && let Some(why) = self.update_work_tree(tree, &self.commands[at].new, &deciding.snapshot)?
        {
            return Ok(Some(why));
        }
        self.look_at_deleted(at, &deciding.snapshot)?;
        Ok(None)
    }

    /// `receive.denyNonFastForwards`.
    fn refuses_rewind(&self, at: usize, snapshot: &Arc<Snapshot>) -> Result<Option<String>, Error> {
        let command = &self.commands[at];
        let is_move = !command.old.is_null() && !command.is_delete();
        if !self.settings.deny_non_fast_forwards || !is_move || !command.name.starts_with(b"refs/heads/") {
            return Ok(None);
        }
        let shown = String::from_utf8_lossy(&command.name);
        match self.is_fast_forward(command, snapshot)? {
            Some(true) => Ok(None),
            Some(false) => {
                self.client.error(&format!("denying non-fast-forward {shown} (you should pull first)"));
                Ok(Some("non-fast-forward".to_owned()))
            }
            None => {
                self.client
                    .error(&format!("Bad sha1 objects {} and {} for {shown}", command.old, command.new));
                Ok(Some("bad ref".to_owned()))
            }
        }
    }

    /// Whether the new value is a descendant of the old one; `None` if one of them is no commit.
    pub(super) fn is_fast_forward(
        &self,
        command: &ReceivedCommand,
        snapshot: &Arc<Snapshot>,
    ) -> Result<Option<bool>, Error> {
        let mut reader = snapshot.reader(0);
        let mut is_commit =
            |id| -> Result<bool, Error> { Ok(matches!(reader.kind_and_size(id)?, Some((Kind::Commit, _)))) };
        if !is_commit(&command.old)? || !is_commit(&command.new)? {
            return Ok(None);
        }
        // Most pushes add a commit or a few to what is there.
        if has_parent(&mut reader, &command.new, &command.old)? {
            return Ok(Some(true));
        }
        let request_objects = Arc::new(RequestObjects::new(snapshot.clone()));
        let threads = self.threads()?;
        let left =
            reach::first_unreached(&request_objects, &[command.old], &[command.new], threads, &self.client)?;
        Ok(Some(left.is_none()))
    }

    /// Refs can also be deleted when they lead to no object, or do not exist. What the file of one holds, if anything,
    /// is for the transaction to judge.
    fn look_at_deleted(&mut self, at: usize, snapshot: &Arc<Snapshot>) -> Result<(), Error> {
        let command = &self.commands[at];
        if !command.is_delete() || !command.old.is_null() && snapshot.contains(&command.old)? {
            return Ok(());
        }
        let refs = self.call.subject.repository.refs();
        match refs.resolve(&command.full_name)? {
            Some(_) => self.client.warn("allowing deletion of corrupt ref"),
            None => {
                self.client.warn("deleting a non-existent ref");
                self.commands[at].did_not_exist = true;
            }
        }
        self.commands[at].ignores_old = true;
        Ok(())
    }
}

/// Whether a commit names `parent` as one of its parents.
fn has_parent(reader: &mut ObjectReader, commit: &ObjectId, parent: &ObjectId) -> Result<bool, Error> {
    let content = reader.read(commit)?.data;
    // A malformed one is reported by whoever walks it.
    Ok(parse_commit(&content, commit.kind()).is_ok_and(|commit| commit.parents.contains(parent)))
}

/// The end of a symbolic ref: `None` for a ref that is not symbolic, `Some(None)` for a chain that is too
/// long.
pub(super) fn last_of_chain(refs: &RefSnapshot, name: &[u8]) -> Result<Option<Option<Vec<u8>>>, Error> {
    use packrace_store::refs::Target;
    let mut at = name.to_vec();
    for depth in 0..=MAX_SYMREF_DEPTH {
        match refs.find(&at)? {
            Some(Target::Symbolic(target)) => at = target.to_vec(),
            _ if depth == 0 => return Ok(None),
            _ => return Ok(Some(Some(at))),
        }
    }
    Ok(Some(None))
}

const UNCONFIGURED_CURRENT: &str = "\
By default, updating the current branch in a non-bare repository
is denied, because it will make the index and work tree inconsistent
with what you pushed, and will require 'git reset --hard' to match
the work tree to HEAD.

You can set the 'receive.denyCurrentBranch' configuration variable
to 'ignore' or 'warn' in the remote repository to allow pushing into
its current branch; however, this is not recommended unless you
arranged to update its work tree to match what you pushed in some
other way.

To squelch this message and still keep the default behaviour, set
'receive.denyCurrentBranch' configuration variable to 'refuse'.";

const UNCONFIGURED_DELETE: &str = "\
By default, deleting the current branch is denied, because the next
'git clone' won't result in any file checked out, causing confusion.

You can set 'receive.denyDeleteCurrent' configuration variable to
'warn' or 'ignore' in the remote repository to allow deleting the
current branch, with or without a warning message.

To squelch this message, you can set it to 'refuse'.";
