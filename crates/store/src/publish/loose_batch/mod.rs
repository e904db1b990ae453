//! Writes many loose objects with few waits for the disk.
//!
//! All objects are written under temporary names (`tmp_obj_XXXXXX`, git's), synced together, then named; then
//! the directories are synced together. That is two waits for any number of objects up to [`MAX_OPEN`].
//! Nothing has a name before its content is durable, and the proof is returned once the names are durable.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use packrace_format::loose_object;
use packrace_format::zlib::Deflater;
use packrace_object::{Kind, ObjectId};
use packrace_os::count::Role;
use packrace_os::durable::{self, ClosedFile, NewFile, ToSync};

use super::loose::in_fan_out;
use super::{Component, ObjectsStored, WritePolicy};
use crate::error::Error;
use crate::objects::freshen::{Freshened, Touched};
use crate::objects::snapshot::Snapshot;

/// The mode that git uses.
const MODE: u32 = 0o444;

/// Most files open at a time, to be synced together. On most systems a process may have 1,024 open.
const MAX_OPEN: usize = 256;

/// Loose objects being written. Dropping the batch removes files that have no name yet.
pub struct LooseBatch {
    /// The object directory.
    dir: PathBuf,
    policy: WritePolicy,
    deflater: Deflater,
    /// Existing objects need not be written.
    existing: Arc<Snapshot>,
    touched: Touched,
    seen: HashSet<ObjectId>,
    /// Written but not synced.
    open: Vec<(ObjectId, NewFile)>,
    /// Synced but not named.
    closed: Vec<(ObjectId, ClosedFile)>,
    /// Loose objects that already existed.
    kept: Vec<PathBuf>,
    plain: Vec<u8>,
    deflated: Vec<u8>,
}

/// Loose objects that are visible to readers.
#[derive(Debug)]
pub struct PublishedLoose {
    /// Objects that did not exist before.
    pub written: Vec<PathBuf>,
    /// Whether they are in a quarantine, whose names need not survive.
    is_staged: bool,
}

impl PublishedLoose {
    /// Lets refs name the objects. Panics in a quarantine, which returns the proof on migration.
    pub fn stored(&self) -> ObjectsStored {
        assert!(!self.is_staged, "a quarantine gives the proof");
        ObjectsStored::published()
    }
}

impl LooseBatch {
    /// A batch for the object directory `dir`; `existing` is a view of it and its alternates.
    pub fn new(dir: &Path, existing: Arc<Snapshot>, level: i32, policy: WritePolicy) -> Self {
        LooseBatch {
            dir: dir.to_owned(),
            policy,
            deflater: Deflater::new(level),
            existing,
            touched: Touched::default(),
            seen: HashSet::new(),
            open: Vec::new(),
            closed: Vec::new(),
            kept: Vec::new(),
            plain: Vec::new(),
            deflated: Vec::new(),
        }
    }

    /// Writes an object under a temporary name; an existing one is only touched, and the result is false.
    /// `id` is its name, computed by the caller.
    pub fn add(&mut self, id: &ObjectId, kind: Kind, content: &[u8]) -> Result<bool, Error> {
        if !self.seen.insert(*id) {
            return Ok(false);
        }
        match self.existing.freshen(id, &self.touched) {
            Freshened::Packed => return Ok(false),
            Freshened::Loose(path) => {
                self.kept.push(path);
                return Ok(false);
            }
            Freshened::No => {}
        }
        self.store(id, kind, content)?;
        Ok(true)
    }

    /// As above, for an object that the caller knows is not loose; its file gets this time, in
    /// seconds since 1970.
    pub fn add_old(&mut self, id: &ObjectId, kind: Kind, content: &[u8], seconds: u32) -> Result<(), Error> {
        self.write(id, kind, content, Some(UNIX_EPOCH + Duration::from_secs(seconds.into())))
    }

    /// As above, for an object that the caller knows does not exist.
    pub(super) fn store(&mut self, id: &ObjectId, kind: Kind, content: &[u8]) -> Result<(), Error> {
        self.write(id, kind, content, None)
    }

    fn write(
        &mut self,
        id: &ObjectId,
        kind: Kind,
        content: &[u8],
        modified: Option<SystemTime>,
    ) -> Result<(), Error> {
        self.plain.clear();
        loose_object::write_header(kind, content.len() as u64, &mut self.plain);
        self.plain.extend_from_slice(content);
        self.deflated.clear();
        self.deflater.deflate(&self.plain, &mut self.deflated);
        let mut file = self.create(&fan_out(&self.dir, id))?;
        let written = file.write(&self.deflated).and_then(|()| file.flush());
        let written = written.and_then(|()| modified.map_or(Ok(()), |when| file.set_modified(when)));
        written.map_err(|error| Error::io(file.path(), error))?;
        self.open.push((*id, file));
        if !self.syncs() || self.open.len() == MAX_OPEN {
            self.settle()?;
        }
        Ok(())
    }

    /// Adds existing loose objects to those that will be made durable.
    pub(super) fn keep(&mut self, files: Vec<PathBuf>) {
        self.kept.extend(files);
    }

    /// Names the objects. One that has appeared since is kept and made durable too: its writer may
    /// not be done yet.
    pub fn publish(mut self) -> Result<PublishedLoose, Error> {
        self.settle()?;
        let mut dirs = BTreeSet::new();
        let mut written = Vec::with_capacity(self.closed.len());
        for (id, file) in self.closed.drain(..) {
            let dir = fan_out(&self.dir, &id);
            let path = dir.join(&id.to_hex().to_string()[2..]);
            match file.publish(&path).map_err(|error| Error::io(&path, error))? {
                true => written.push(path),
                false => self.kept.push(path),
            }
            dirs.insert(dir);
        }
        for path in &self.kept {
            dirs.extend(path.parent().map(Path::to_owned));
        }
        if self.policy.syncs_in_full(Component::LooseObject) {
            self.sync_names(dirs)?;
        }
        Ok(PublishedLoose { written, is_staged: self.policy.is_staged() })
    }

    fn syncs(&self) -> bool {
        self.policy.syncs(Component::LooseObject)
    }

    /// A temporary file in a fan-out directory, which is created if missing.
    fn create(&self, dir: &Path) -> Result<NewFile, Error> {
        let mut file = in_fan_out(dir, self.policy, || {
            let file = NewFile::create_temporary(dir, "tmp_obj_", MODE, Role::Objects);
            file.map_err(|error| Error::io(dir.join("tmp_obj_XXXXXX"), error))
        })?;
        self.policy.prepare(&mut file).map_err(|error| Error::io(file.path(), error))?;
        Ok(file)
    }

    /// Makes the content of all open files durable and closes them.
    fn settle(&mut self) -> Result<(), Error> {
        if self.syncs() {
            let to_sync = self.open.iter_mut().map(|(_, file)| ToSync::New(file)).collect();
            durable::sync_together(to_sync, Role::Objects).map_err(Error::sync)?;
        }
        for (id, file) in self.open.drain(..) {
            let path = file.path().to_owned();
            self.closed.push((id, file.close().map_err(|error| Error::io(path, error))?));
        }
        Ok(())
    }

    /// Syncs in one wait: directories with new names; their parents, as the directories may be new; and
    /// existing objects, whose writers may not have synced them.
    fn sync_names(&self, mut dirs: BTreeSet<PathBuf>) -> Result<(), Error> {
        let mut kept: Vec<&PathBuf> = self.kept.iter().collect();
        if self.policy.is_staged() {
            // Only those outside the quarantine: nothing else makes them durable.
            dirs.retain(|dir| !dir.starts_with(&self.dir));
            kept.retain(|path| !path.starts_with(&self.dir));
        }
        let above: Vec<_> = dirs.iter().filter_map(|dir| dir.parent().map(Path::to_owned)).collect();
        dirs.extend(above);
        sync_loose(
            dirs.iter().map(PathBuf::as_path).collect(),
            kept.into_iter().map(PathBuf::as_path).collect(),
        )
    }
}

/// Makes names in directories, and existing loose objects, durable in one wait. What has gone meanwhile is in a pack, which
/// another process has made durable.
pub(crate) fn sync_loose(mut dirs: Vec<&Path>, mut files: Vec<&Path>) -> Result<(), Error> {
    loop {
        let to_sync =
            dirs.iter().map(|dir| ToSync::Dir(dir)).chain(files.iter().map(|file| ToSync::File(file)));
        match durable::sync_together(to_sync.collect(), Role::Objects) {
            Err(failed) if packrace_os::is_absent(&failed.source) && dirs.len() + files.len() > 0 => {
                dirs.retain(|dir| *dir != failed.path);
                files.retain(|file| *file != failed.path);
            }
            result => return result.map_err(Error::sync),
        }
    }
}

fn fan_out(dir: &Path, id: &ObjectId) -> PathBuf {
    dir.join(format!("{:02x}", id.first_byte()))
}

impl std::fmt::Debug for LooseBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LooseBatch").field("dir", &self.dir).field("objects", &self.seen.len()).finish()
    }
}

#[cfg(test)]
mod tests;
