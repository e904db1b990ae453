//! Objects that wait until they may enter the repository (git-receive-pack, "QUARANTINE ENVIRONMENT").
//!
//! A directory `objects/tmp_objdir-incoming-XXXXXX` that only its owner may enter, laid out as an object
//! directory; name and mode are git's. Only processes that know its path find its contents. It is removed
//! with the [`Quarantine`]. That of a killed process stays until `git prune` or `git gc` removes it, like
//! git's own, once it is older than two weeks.
//!
//! Only objects leave it: regular files named like loose objects, and whole packs. Links and other files that
//! hooks left are removed with the directory; no link in it is followed.

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

/// The prefix of quarantine names, by which `git prune` recognizes them.
pub const QUARANTINE_PREFIX: &str = "tmp_objdir-incoming-";

/// Objects that are stored but not yet in the repository. Dropping it removes them.
#[derive(Debug)]
pub struct Quarantine {
    dir: PathBuf,
    /// The repository's own object directory.
    home: PathBuf,
    /// The policy for the objects' final place.
    policy: WritePolicy,
    view: Repository,
    /// Files, and packs without extensions, whose content was synced by their writer.
    settled: HashSet<PathBuf>,
    is_left: bool,
}

impl Quarantine {
    /// Creates an empty quarantine in the repository's object directory.
    pub fn create(repository: &Repository) -> Result<Self, Error> {
        Quarantine::with_policy(repository, WritePolicy::of(repository.config())?.of_received())
    }

    /// As above, for objects that are copied elsewhere before they count: nothing is synced. Its packs never
    /// leave it by [`Quarantine::migrate`].
    pub fn create_for_copy(repository: &Repository) -> Result<Self, Error> {
        Quarantine::with_policy(repository, WritePolicy::of(repository.config())?.unsynced())
    }

    fn with_policy(repository: &Repository, policy: WritePolicy) -> Result<Self, Error> {
        let home = repository.object_dir();
        let home = packrace_os::real_path(home).map_err(|error| Error::io(home, error))?;
        let dir = durable::make_temporary_dir(&home, QUARANTINE_PREFIX, Role::Objects)
            .map_err(|error| Error::io(home.join(format!("{QUARANTINE_PREFIX}XXXXXX")), error))?;
        // Alternates named by the repository's own file are found through it.
        let borrowed = repository.alternates().iter();
        let borrowed = borrowed.map(|path| packrace_os::real_path(path).unwrap_or_else(|_| path.clone()));
        let alternates = borrowed.chain([home.clone()]).collect();
        let view = repository.with_objects(dir.clone(), alternates);
        let quarantine = Quarantine { dir, home, policy, view, settled: HashSet::new(), is_left: false };
        // Git's own programs expect it. Its mode is never changed: nobody else gets this far.
        let packs = quarantine.pack_dir();
        durable::make_dir(&packs, |mode| mode, Role::Pack).map_err(|error| Error::io(&packs, error))?;
        Ok(quarantine)
    }

    /// Its object directory.
    pub fn object_dir(&self) -> &Path {
        &self.dir
    }

    /// The directory of packs.
    pub fn pack_dir(&self) -> PathBuf {
        self.dir.join("pack")
    }

    /// The policy for writing into it: content is as durable as in its final place, names are not.
    pub fn policy(&self) -> WritePolicy {
        self.policy.without_names()
    }

    /// The future repository: new objects go to the quarantine, and lookups search it first.
    pub fn view(&self) -> &Repository {
        &self.view
    }

    /// The objects in the quarantine, then those of the repository and its alternates.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        self.view.snapshot()
    }

    /// The environment in which programs find the objects, add others and must not change refs. Values are
    /// those that git gives its hooks, with all paths absolute.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let alternates = join_alternates(self.view.alternates().iter().map(PathBuf::as_path));
        vec![
            ("GIT_OBJECT_DIRECTORY".into(), self.dir.clone().into_os_string()),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES".into(), alternates),
            ("GIT_QUARANTINE_PATH".into(), self.dir.clone().into_os_string()),
        ]
    }

    /// A batch of loose objects for the quarantine, except those already here or in the repository.
    pub fn loose_batch(&self) -> Result<LooseBatch, Error> {
        let level = loose_compression(self.view.config())?;
        Ok(LooseBatch::new(&self.dir, self.snapshot()?, level, self.policy()))
    }

    /// Records that loose objects of a batch of this quarantine need no further sync.
    pub fn note_loose(&mut self, loose: PublishedLoose) {
        self.settled.extend(loose.written);
    }

    /// Records that the files of a pack, published here by the quarantine's policy, need no further sync.
    pub fn note_pack(&mut self, pack: &PublishedPack) {
        self.settled.insert(pack.stem.clone());
    }

    /// Removes it with its contents; dropping does the same but cannot report a failure.
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

/// Removes a directory and its contents; links are removed, not followed.
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
