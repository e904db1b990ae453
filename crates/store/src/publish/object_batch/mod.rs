//! Stores new objects, all or none: the one way in which commands store what they make.
//!
//! They are collected, written under temporary names, made durable with a number of waits that does not depend on how many they
//! are, then named, then these names are made durable, and only then there is the proof that refs or an index may name
//! them. Below [`LooseLimit`] they become loose objects, else one pack; a content that is not to be in memory as a whole is
//! always in a pack, and everything else beside it.
//!
//! Which of both it is going to be shows when the limit is reached: until then contents wait in memory, not compressed. So
//! does nothing of a batch that is dropped stay, but what a killed process leaves: `objects/pack/tmp_pack_XXXXXX` and
//! `objects/xx/tmp_obj_XXXXXX`. Both `git prune` and `git gc` remove; of packs also the next batch that makes one, a day later.
//!
//! Threads share a batch: each looks for its object, compresses it and computes its checksum beside the others; in turn they
//! only append what came of that to the pack.

mod growing_pack;
mod leftovers;
mod options;

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use packrace_format::zlib::Deflater;
use packrace_object::{CollisionAttack, Kind, ObjectId, oid};

use super::{Component, Form, LooseBatch, ObjectsStored, PublishedPack};
use crate::error::{Error, Reason};
use crate::objects::freshen::{Freshened, Touched};
use crate::objects::snapshot::Snapshot;
pub use growing_pack::name_blob_stream;
use growing_pack::{GrowingPack, PreparedEntry};

pub use options::BatchOptions;

/// Most bytes that wait in memory; more make a pack, however few objects they are.
const MAX_HELD_BYTES: usize = 16 << 20;

/// This many existing loose objects are made durable, as their writers may not have done so; more go into the pack as well,
/// which needs no further syncs for them.
const MAX_KEPT: usize = 64;

/// New objects that are being stored. Dropping the batch leaves nothing of them.
#[derive(Debug)]
pub struct ObjectBatch {
    /// The object directory.
    dir: PathBuf,
    /// Objects that exist need not be written.
    existing: Arc<Snapshot>,
    options: BatchOptions,
    touched: Touched,
    /// Never held while waiting for the pack.
    known: Mutex<Known>,
    pack: Mutex<PackState>,
    tools: Mutex<Vec<Tools>>,
}

#[derive(Debug)]
struct Known {
    seen: HashSet<ObjectId>,
    form: Form,
    /// Objects in memory; none once there is a pack.
    held: Vec<HeldObject>,
    held_bytes: usize,
    /// Loose objects that existed.
    kept: Vec<PathBuf>,
}

#[derive(Debug)]
struct HeldObject {
    id: ObjectId,
    kind: Kind,
    content: Vec<u8>,
}

#[derive(Debug)]
enum PackState {
    None,
    Open(Box<GrowingPack>),
    /// A write has failed: objects may be missing although they were reported as stored.
    Failed,
}

/// The compression state of a thread.
struct Tools {
    deflater: Deflater,
    entry: PreparedEntry,
}

/// Why a content was not taken.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// It could not be read, or ended before its size. The batch is unchanged.
    #[error(transparent)]
    Source(std::io::Error),
    /// The same.
    #[error(transparent)]
    Attack(CollisionAttack),
    /// It could not be written. The batch can no longer be published.
    #[error(transparent)]
    Store(Error),
}

/// Objects that readers can find.
#[derive(Debug)]
pub struct PublishedObjects {
    /// The new pack.
    pub pack: Option<PublishedPack>,
    /// The new loose objects.
    pub loose: Vec<PathBuf>,
    /// In a quarantine, whose names need not survive.
    is_staged: bool,
}

impl PublishedObjects {
    /// Lets refs and an index name the objects. Panics in a quarantine, which returns the proof when they leave it.
    pub fn stored(&self) -> ObjectsStored {
        assert!(!self.is_staged, "a quarantine gives the proof");
        ObjectsStored::published()
    }
}

impl ObjectBatch {
    /// A batch for the object directory `dir`; `existing` has what it and its alternates hold.
    pub fn new(dir: &Path, existing: Arc<Snapshot>, options: BatchOptions) -> Self {
        let known = Known {
            seen: HashSet::new(),
            form: options.loose_limit.form_of(1),
            held: Vec::new(),
            held_bytes: 0,
            kept: Vec::new(),
        };
        ObjectBatch {
            dir: dir.to_owned(),
            existing,
            options,
            touched: Touched::default(),
            known: Mutex::new(known),
            pack: Mutex::new(PackState::None),
            tools: Mutex::new(Vec::new()),
        }
    }

    /// Stores an object; false if it exists already, in which case it gets the present time. `id` is its name, as the caller has
    /// computed it. After an error, the batch can only be dropped.
    pub fn add(&self, id: &ObjectId, kind: Kind, content: &[u8]) -> Result<bool, Error> {
        if !self.is_new(id) {
            return Ok(false);
        }
        let before = match lock(&self.known).hold(id, kind, content, &self.options) {
            None => return Ok(true),
            Some(before) => before,
        };
        for held in before {
            self.pack_one(&held.id, held.kind, &held.content)?;
        }
        self.pack_one(id, kind, content)?;
        Ok(true)
    }

    /// Stores a blob of `size` bytes from `source` without holding it in memory (`core.bigFileThreshold`). Reads no more than
    /// `size`. Meanwhile, other threads cannot append to the pack.
    pub fn add_blob_stream(&self, size: u64, source: &mut dyn Read) -> Result<ObjectId, StreamError> {
        let before = lock(&self.known).begin_pack();
        for held in before {
            self.pack_one(&held.id, held.kind, &held.content).map_err(StreamError::Store)?;
        }
        let mut result = None;
        self.with_pack(|pack| {
            match pack.append_stream(size, source, self.options.pack_compression, |id| self.is_new(id)) {
                Err(StreamError::Store(error)) => return Err(error),
                other => result = Some(other),
            }
            Ok(())
        })
        .map_err(StreamError::Store)?;
        result.expect("set where there is no error")
    }

    /// Whether the batch or the repository has an object.
    pub fn contains(&self, id: &oid) -> Result<bool, Error> {
        let is_known = lock(&self.known).seen.contains(id);
        Ok(is_known || self.existing.lookup(id).is_some() || self.existing.has_loose(id)?)
    }

    /// Makes the objects durable, as far as the policy says, and then lets readers find them.
    pub fn publish(self) -> Result<PublishedObjects, Error> {
        let known = self.known.into_inner().unwrap_or_else(PoisonError::into_inner);
        let pack = match self.pack.into_inner().unwrap_or_else(PoisonError::into_inner) {
            PackState::None => None,
            PackState::Open(pack) => pack.publish(&self.options)?,
            PackState::Failed => return Err(has_failed(&self.dir)),
        };
        let (level, policy) = (self.options.loose_compression, self.options.policy);
        let mut loose = LooseBatch::new(&self.dir, self.existing, level, policy);
        loose.keep(known.kept);
        for held in &known.held {
            loose.store(&held.id, held.kind, &held.content)?;
        }
        let loose = loose.publish()?.written;
        Ok(PublishedObjects { pack, loose, is_staged: policy.is_staged() })
    }

    /// Whether an object has to be stored; it then counts as stored.
    fn is_new(&self, id: &ObjectId) -> bool {
        let is_first = lock(&self.known).seen.insert(*id);
        is_first && !self.is_there(id)
    }

    /// Whether the object exists, has the present time, and will be durable.
    fn is_there(&self, id: &oid) -> bool {
        match self.existing.freshen(id, &self.touched) {
            Freshened::No => false,
            Freshened::Packed => true,
            Freshened::Loose(path) if self.options.policy.syncs_in_full(Component::LooseObject) => {
                let mut known = lock(&self.known);
                let has_room = known.kept.len() < MAX_KEPT;
                known.kept.extend(has_room.then_some(path));
                has_room
            }
            Freshened::Loose(_) => true,
        }
    }

    fn pack_one(&self, id: &ObjectId, kind: Kind, content: &[u8]) -> Result<(), Error> {
        let tools = lock(&self.tools).pop();
        let mut tools = tools.unwrap_or_else(|| Tools::new(self.options.pack_compression));
        tools.entry.prepare(&mut tools.deflater, kind, content);
        let appended = self.with_pack(|pack| pack.append(id, &tools.entry));
        lock(&self.tools).push(tools);
        appended
    }

    fn with_pack(&self, work: impl FnOnce(&mut GrowingPack) -> Result<(), Error>) -> Result<(), Error> {
        let mut state = lock(&self.pack);
        let mut pack = match std::mem::replace(&mut *state, PackState::Failed) {
            PackState::Open(pack) => pack,
            PackState::None => {
                Box::new(GrowingPack::create(&self.dir, self.existing.hash_kind(), &self.options)?)
            }
            PackState::Failed => return Err(has_failed(&self.dir)),
        };
        work(&mut pack)?;
        *state = PackState::Open(pack);
        Ok(())
    }
}

impl Known {
    /// Keeps an object in memory, or returns those in memory, which go into the pack before this one.
    fn hold(
        &mut self,
        id: &ObjectId,
        kind: Kind,
        content: &[u8],
        options: &BatchOptions,
    ) -> Option<Vec<HeldObject>> {
        let count = self.held.len() as u32 + 1;
        let is_few = self.form == Form::Loose && options.loose_limit.form_of(count) == Form::Loose;
        if !is_few || self.held_bytes + content.len() > MAX_HELD_BYTES {
            return Some(self.begin_pack());
        }
        self.held_bytes += content.len();
        self.held.push(HeldObject { id: *id, kind, content: content.to_vec() });
        None
    }

    fn begin_pack(&mut self) -> Vec<HeldObject> {
        self.form = Form::Pack;
        std::mem::take(&mut self.held)
    }
}

impl Tools {
    fn new(level: i32) -> Self {
        Tools { deflater: Deflater::new(level), entry: PreparedEntry::default() }
    }
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tools")
    }
}

fn has_failed(dir: &Path) -> Error {
    Reason::Io { path: dir.to_owned(), source: std::io::Error::other("an object could not be written") }
        .into()
}

/// A poisoned lock is no problem: the batch of a thread that panicked is dropped.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
