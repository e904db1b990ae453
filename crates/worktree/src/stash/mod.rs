//! The commits of `git stash` (git-stash, "DISCUSSION").
//!
//! ```text
//!        .----W        H: the commit of HEAD; W: the work tree; I: the index; U: untracked files
//!       /    /|\
//! -----H----I U
//! ```
//!
//! Objects are durable before changes are removed from the work tree; the caller moves the ref in between.

mod apply;
mod patch;
mod push;

use std::ffi::OsString;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use gix_object::bstr::BString;
use packrace_object::{Kind, ObjectId, parse_commit};
use packrace_os::trace;
use packrace_store::publish::{BatchOptions, ObjectBatch, ObjectsStored};
use packrace_store::{Config, OpenOptions, Repository, Snapshot, cache_bytes};

use crate::error::WorkError;
use crate::files::{FileComparison, Files};
use crate::index::{Index, IndexEntry, IndexLock};
use crate::listing::{Listing, TreeItem, make_trees};
use crate::objects::Objects;
use crate::paths::{IgnoreRules, Pathspecs};
use crate::untracked::{Untracked, Walk};

pub use apply::{Applied, IndexMode};
pub use patch::PatchFailed;
pub use push::{Outcome, StashRequest, Stays, StoredStash};

/// The identities in commits: `Name <mail> seconds zone`.
#[derive(Debug, Clone)]
pub struct People {
    /// The author.
    pub author: Vec<u8>,
    /// The committer.
    pub committer: Vec<u8>,
}

/// The commit that the work tree is based on.
#[derive(Debug, Clone)]
pub struct Head {
    /// The commit.
    pub commit: ObjectId,
    /// Its tree.
    pub tree: ObjectId,
    /// The full name of the branch.
    pub branch: Option<Vec<u8>>,
    /// `<branch>: <abbreviated name> <subject>`, the beginning of messages.
    pub description: Vec<u8>,
}

/// The trees of a stash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stash {
    /// The commit itself.
    pub commit: ObjectId,
    /// The base commit of the work tree.
    pub base: ObjectId,
    /// The tree of the base commit.
    pub base_tree: ObjectId,
    /// The tree of the index.
    pub index_tree: ObjectId,
    /// The tree of the work tree.
    pub tree: ObjectId,
    /// The tree of untracked files.
    pub untracked_tree: Option<ObjectId>,
}

impl Stash {
    /// Reads a commit; `None` if it is not a stash.
    pub fn read(objects: &Objects, commit: &ObjectId) -> Result<Option<Self>, WorkError> {
        let Some(found) = read_commit(objects, commit)? else { return Ok(None) };
        let [base, index, others @ ..] = found.parents.as_slice() else { return Ok(None) };
        let (Some(base_commit), Some(index_commit)) =
            (read_commit(objects, base)?, read_commit(objects, index)?)
        else {
            return Ok(None);
        };
        let untracked_tree = match others {
            [untracked] => read_commit(objects, untracked)?.map(|commit| commit.tree),
            _ => None,
        };
        Ok(Some(Stash {
            commit: *commit,
            base: *base,
            base_tree: base_commit.tree,
            index_tree: index_commit.tree,
            tree: found.tree,
            untracked_tree,
        }))
    }

    /// Whether its trees are there, but for that of untracked files.
    pub fn has_trees(&self, objects: &Objects) -> Result<bool, WorkError> {
        for tree in [&self.base_tree, &self.index_tree, &self.tree] {
            if !matches!(objects.kind_and_size(tree)?, Some((Kind::Tree, _))) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn read_commit(objects: &Objects, id: &ObjectId) -> Result<Option<packrace_object::Commit>, WorkError> {
    if !matches!(objects.kind_and_size(id)?, Some((Kind::Commit, _))) {
        return Ok(None);
    }
    let content = objects.read_as(id, Kind::Commit)?;
    parse_commit(&content, objects.hash_kind()).map(Some).map_err(|error| WorkError::malformed(*id, error))
}

/// What a session leaves.
#[derive(Debug)]
pub struct FinishedSession {
    /// For standard error.
    pub messages: Vec<String>,
    /// Whether the index was written.
    pub has_new_index: bool,
}

/// Index, work tree and objects while a stash is made or applied. The index is locked.
pub struct StashSession<'a> {
    repository: &'a Repository,
    snapshot: Arc<Snapshot>,
    lock: IndexLock,
    files: Files,
    objects: Rc<Objects>,
}

impl<'a> StashSession<'a> {
    /// Locks the index, which must be one that can be written and can be stored. The work tree is at `top`.
    pub fn begin(repository: &'a Repository, top: &Path) -> Result<Self, WorkError> {
        let snapshot = repository.snapshot()?;
        let objects = Rc::new(Objects::new(&snapshot));
        let files = Files::open(repository, &snapshot, top, objects.clone())?;
        let lock = IndexLock::take_in(repository, top)?;
        lock.check_ids()?;
        Ok(StashSession { repository, snapshot, lock, files, objects })
    }

    /// What filters get from now on beside the variables of this process.
    pub fn set_variables(&self, variables: &[(OsString, OsString)]) {
        self.files.set_variables(variables);
    }

    /// The current index.
    pub fn index(&self) -> &Index {
        self.lock.index()
    }

    /// The objects, including new ones.
    pub fn objects(&self) -> &Rc<Objects> {
        &self.objects
    }

    /// Lines for standard error since the last call.
    pub fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.files.messages)
    }

    /// Untracked files in path order, and nested repositories, which stay.
    pub fn untracked(
        &mut self,
        specs: &mut Pathspecs,
        includes_ignored: bool,
        options: &OpenOptions,
    ) -> Result<Vec<Untracked>, WorkError> {
        let top = self.files.tree.top().to_owned();
        let mut rules = IgnoreRules::open(self.repository, &top, &mut self.files.messages)?;
        let rules = (!includes_ignored).then_some(&mut rules);
        let reader = self.snapshot.reader(cache_bytes::FEW_OBJECTS);
        let walk =
            Walk::new(&top, self.lock.index(), rules, specs, reader, options, &mut self.files.messages);
        Ok(walk.run()?)
    }

    /// Examines all files. Returns paths with conflicts.
    pub fn refresh(&mut self) -> Result<Vec<Vec<u8>>, WorkError> {
        self.files.refresh(self.lock.index_mut())
    }

    /// [`Index::ask_monitor`].
    pub fn ask_monitor(&mut self, start_daemon: &dyn Fn() -> bool) -> Result<(), WorkError> {
        let top = self.files.tree.top();
        Ok(self.lock.index_mut().ask_monitor(self.repository, top, start_daemon)?)
    }

    /// [`Index::unfold_in`].
    pub fn unfold_in(&mut self, config: &Config, top: &Path) -> Result<bool, WorkError> {
        Ok(self.lock.index_mut().unfold_in(config, top)?)
    }

    /// Forgets how earlier conflicts were resolved.
    pub fn clear_resolve_undo(&mut self) {
        self.lock.index_mut().clear_resolve_undo();
    }

    /// Writes the index if it changed, and ends the session.
    pub fn finish(self) -> Result<FinishedSession, WorkError> {
        let has_new_index = self.lock.index().is_changed();
        // The session publishes its objects before it stages them.
        let mut stored = ObjectsStored::earlier();
        let batch = if self.lock.is_to_be_sparse() { Some(self.batch()?) } else { None };
        let StashSession { mut lock, mut files, .. } = self;
        if has_new_index {
            if let Some(batch) = batch {
                lock.fold(&batch)?;
                stored = batch.publish()?.stored();
            }
            let index = lock.index().clone();
            lock.commit(&stored, &mut |key, entry| files.is_modified(&index, key.path(), entry))?;
        }
        Ok(FinishedSession { messages: files.messages, has_new_index })
    }

    /// Compares the file of an entry with the entry.
    pub fn compare(&mut self, path: &[u8], entry: &IndexEntry) -> Result<FileComparison, WorkError> {
        self.files.compare(self.lock.index(), path, entry)
    }

    /// The tree of all entries without conflicts, whatever is missing, and without intent-to-add entries.
    pub(crate) fn staged_tree(&self) -> Result<ObjectId, WorkError> {
        let items = self.staged();
        let _region = trace::region("cache_tree", "update");
        make_trees(&self.objects, items.iter().map(|(path, item)| (path.as_slice(), *item)))
    }

    fn staged(&self) -> Listing {
        let entries = self.index().entries().filter(|(key, entry)| key.stage() == 0 && !entry.intent_to_add);
        entries.map(|(key, entry)| (BString::from(key.path()), TreeItem::of(entry))).collect()
    }

    /// A batch for new objects.
    fn batch(&self) -> Result<ObjectBatch, WorkError> {
        let options = BatchOptions::of_work_tree(self.repository.config())?;
        Ok(ObjectBatch::new(self.repository.object_dir(), self.snapshot.clone(), options))
    }

    /// Publishes everything in `batch` and all objects made in memory.
    fn publish(&self, batch: ObjectBatch) -> Result<ObjectsStored, WorkError> {
        self.objects.publish_made(batch)
    }
}
