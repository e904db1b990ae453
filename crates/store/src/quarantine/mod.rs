//! Where objects wait until it is sure that they may come into the repository (git-receive-pack, "QUARANTINE ENVIRONMENT").
//!
//! A directory `objects/tmp_objdir-incoming-XXXXXX` which only its owner may enter, laid out as an object directory: the names and
//! the mode are git's. What is in it is found by who is told of it, and by nobody else. It goes with everything in it when the
//! [`Quarantine`] does. That of a process which was killed stays until `git prune` or `git gc` removes it, as they do with git's own,
//! once it is older than two weeks.
//!
//! Only objects leave it: regular files with the name of a loose object, and whole packs. Links, and what else hooks left
//! there, go with the directory; no link in it is followed.

mod migrate;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_os::EntryType;
use packrace_os::count::Role;
use packrace_os::durable;

use crate::error::Error;
use crate::objects::objects_dir::join_alternates;
use crate::objects::snapshot::Snapshot;
use crate::publish::{LooseBatch, PublishedLoose, PublishedPack, WritePolicy, loose_compression};
use crate::repository::Repository;

pub use migrate::{Migrated, StagedPack};

/// What the names of quarantines begin with; `git prune` knows them by it.
pub const QUARANTINE_PREFIX: &str = "tmp_objdir-incoming-";

/// Objects that are stored, but not yet in the repository. Dropping it removes them.
#[derive(Debug)]
pub struct Quarantine {
    dir: PathBuf,
    /// The repository's own object directory.
    home: PathBuf,
    /// How objects are written in the end.
    policy: WritePolicy,
    view: Repository,
    /// Files, and packs without their extensions, whose content was made durable by who wrote them.
    settled: HashSet<PathBuf>,
    is_left: bool,
}

impl Quarantine {
    /// Makes an empty one in the repository's object directory.
    pub fn create(repository: &Repository) -> Result<Self, Error> {
        Quarantine::with_policy(repository, WritePolicy::of(repository.config())?.of_received())
    }

    /// The same for objects that are copied to another place before they count: nothing is synced. Its packs never leave it by
    /// [`Quarantine::migrate`].
    pub fn create_for_copy(repository: &Repository) -> Result<Self, Error> {
        Quarantine::with_policy(repository, WritePolicy::of(repository.config())?.unsynced())
    }

    fn with_policy(repository: &Repository, policy: WritePolicy) -> Result<Self, Error> {
        let home = repository.object_dir();
        let home = packrace_os::real_path(home).map_err(|error| Error::io(home, error))?;
        let dir = durable::make_temporary_dir(&home, QUARANTINE_PREFIX, Role::Objects)
            .map_err(|error| Error::io(home.join(format!("{QUARANTINE_PREFIX}XXXXXX")), error))?;
        // What the repository borrows from by its own file is found through it.
        let borrowed = repository.alternates().iter();
        let borrowed = borrowed.map(|path| packrace_os::real_path(path).unwrap_or_else(|_| path.clone()));
        let alternates = borrowed.chain([home.clone()]).collect();
        let view = repository.with_objects(dir.clone(), alternates);
        let quarantine = Quarantine { dir, home, policy, view, settled: HashSet::new(), is_left: false };
        // Git's own programs expect it. Its mode is never changed: nobody else comes so far.
        let packs = quarantine.pack_dir();
        durable::make_dir(&packs, |mode| mode, Role::Pack).map_err(|error| Error::io(&packs, error))?;
        Ok(quarantine)
    }

    /// The object directory that it is.
    pub fn object_dir(&self) -> &Path {
        &self.dir
    }

    /// Where packs go.
    pub fn pack_dir(&self) -> PathBuf {
        self.dir.join("pack")
    }

    /// How to write into it: content is as durable as it has to be in the end, names are not.
    pub fn policy(&self) -> WritePolicy {
        self.policy.without_names()
    }

    /// The repository as it is going to be: its objects go to the quarantine, and are looked for there first.
    pub fn view(&self) -> &Repository {
        &self.view
    }

    /// The objects that are here now, and before them in the repository and what it borrows from.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        self.view.snapshot()
    }

    /// What programs need to be told so that they find the objects and put others beside them, and that refs must not be
    /// changed now. Values are those that git gives its hooks, with all paths absolute.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let alternates = join_alternates(self.view.alternates().iter().map(PathBuf::as_path));
        vec![
            ("GIT_OBJECT_DIRECTORY".into(), self.dir.clone().into_os_string()),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES".into(), alternates),
            ("GIT_QUARANTINE_PATH".into(), self.dir.clone().into_os_string()),
        ]
    }

    /// Loose objects that go here, unless they are here or in the repository already.
    pub fn loose_batch(&self) -> Result<LooseBatch, Error> {
        let level = loose_compression(self.view.config())?;
        Ok(LooseBatch::new(&self.dir, self.snapshot()?, level, self.policy()))
    }

    /// Notes that loose objects of a batch of this quarantine need not be synced once more.
    pub fn note_loose(&mut self, loose: PublishedLoose) {
        self.settled.extend(loose.written);
    }

    /// Notes that the files of a pack, which was published in the quarantine by its policy, need not be synced once more.
    pub fn note_pack(&mut self, pack: &PublishedPack) {
        self.settled.insert(pack.stem.clone());
    }

    /// Removes it with everything in it; to drop it does the same, but cannot tell a failure.
    pub fn discard(mut self) -> Result<(), Error> {
        self.is_left = true;
        remove_tree(&self.dir)
    }

    fn is_settled(&self, path: &Path) -> bool {
        self.settled.contains(path) || self.settled.contains(&path.with_extension(""))
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        self.view.forget_packs(&self.dir);
        if !self.is_left
            && let Err(error) = remove_tree(&self.dir)
        {
            tracing::warn!("unable to remove the quarantine: {error}");
        }
    }
}

/// Removes a directory and what is in it; links, not what they lead to.
fn remove_tree(dir: &Path) -> Result<(), Error> {
    let entries = packrace_os::list_dir(dir, Role::Objects).map_err(|error| Error::io(dir, error))?;
    for entry in entries {
        let path = dir.join(&entry.name);
        match entry.kind {
            EntryType::Dir => remove_tree(&path)?,
            _ => durable::remove_file(&path, Role::Objects)
                .map(drop)
                .map_err(|error| Error::io(path, error))?,
        }
    }
    durable::remove_empty_dir(dir, Role::Objects).map_err(|error| Error::io(dir, error))
}

#[cfg(test)]
mod tests;
