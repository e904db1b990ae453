//! Stores new objects, all or none: the only way in which commands store objects.
//!
//! Objects are collected, written under temporary names, made durable with a fixed number of waits, then
//! named; then the names are made durable; and only then the caller gets the proof that refs or an index may
//! name them. Fewer objects than [`LooseLimit`] become loose, others one pack. A content too large for
//! memory always goes into a pack, with all other objects of the batch. `pack.packSizeLimit` divides that
//! pack; if naming one of them fails, those before it stay, and nothing refers to their objects.
//!
//! The form is decided when the limit is reached: until then contents wait in memory, uncompressed. So a
//! dropped batch leaves nothing; a killed process may leave `objects/pack/tmp_pack_XXXXXX` and
//! `objects/xx/tmp_obj_XXXXXX`. `git prune` and `git gc` remove both; the next batch that makes a pack also
//! removes leftover packs, a day later.
//!
//! Threads share a batch: each looks up, compresses and checksums its objects in parallel; only appending to
//! the pack is serialized.

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
use growing_pack::{GrowingPacks, PreparedEntry};

pub use options::BatchOptions;

/// Most bytes that wait in memory; more of them make a pack, however few objects they are.
const MAX_HELD_BYTES: usize = 16 << 20;

/// This many existing loose objects are made durable, as their writers may not have done so. Further ones are
/// stored in the pack again, which needs no extra syncs for them.
const MAX_KEPT: usize = 64;

/// New objects that are being stored. Dropping the batch leaves nothing of them.
#[derive(Debug)]
pub struct ObjectBatch {
    /// The object directory.
    dir: PathBuf,
    /// Existing objects need not be written.
    existing: Arc<Snapshot>,
    options: BatchOptions,
    touched: Touched,
    /// Never held while waiting for `pack`.
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
    /// Loose objects that already existed.
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
    Open(Box<GrowingPacks>),
    /// A write has failed: objects may be missing although they were reported as stored.
    Failed,
}

/// The compression state of a thread.
struct Tools {
    deflater: Deflater,
    entry: PreparedEntry,
}

/// Why a content was not stored.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// It could not be read, or ended before its announced size. The batch is unchanged.
    #[error(transparent)]
    Source(std::io::Error),
    /// It is a collision attack. The batch is unchanged.
    #[error(transparent)]
    Attack(CollisionAttack),
    /// It could not be written. The batch can no longer be published.
    #[error(transparent)]
    Store(Error),
}

/// Objects that are visible to readers.
#[derive(Debug)]
pub struct PublishedObjects {
    /// The new packs; more than one only with `pack.packSizeLimit`.
    pub packs: Vec<PublishedPack>,
    /// The new loose objects.
    pub loose: Vec<PathBuf>,
    /// Whether they are in a quarantine, whose names need not survive.
    is_staged: bool,
}

impl PublishedObjects {
    /// Lets refs and an index name the objects. Panics in a quarantine, which returns the proof on migration.
    pub fn stored(&self) -> ObjectsStored {
        assert!(!self.is_staged, "a quarantine gives the proof");
        ObjectsStored::published()
    }
}

impl ObjectBatch {
    /// A batch for the object directory `dir`; `existing` is a view of it and its alternates.
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

    /// Stores an object; an existing one is only touched, and the result is false. `id` is its name, computed
    /// by the caller. After an error, the batch can only be dropped.
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

    /// Stores a blob of `size` bytes from `source` without holding it in memory (`core.bigFileThreshold`).
    /// Reads at most `size` bytes. Meanwhile, other threads cannot append to the pack.
    pub fn add_blob_stream(&self, size: u64, source: &mut dyn Read) -> Result<ObjectId, StreamError> {
        let before = lock(&self.known).begin_pack();
        for held in before {
            self.pack_one(&held.id, held.kind, &held.content).map_err(StreamError::Store)?;
        }
        let mut result = None;
        self.with_packs(|packs| {
            match packs.append_stream(size, source, |id| self.is_new(id)) {
                Err(StreamError::Store(error)) => return Err(error),
                other => result = Some(other),
            }
            Ok(())
        })
        .map_err(StreamError::Store)?;
        result.expect("set where there is no error")
    }

    /// The view of the repository before the batch.
    pub fn existing(&self) -> &Snapshot {
        &self.existing
    }

    /// Whether the batch or the repository has an object.
    pub fn contains(&self, id: &oid) -> Result<bool, Error> {
        let is_known = lock(&self.known).seen.contains(id);
        Ok(is_known || self.existing.lookup(id).is_some() || self.existing.has_loose(id)?)
    }

    /// Makes the objects durable, as far as the policy says, and then visible to readers.
    pub fn publish(self) -> Result<PublishedObjects, Error> {
        let known = self.known.into_inner().unwrap_or_else(PoisonError::into_inner);
        let packs = match self.pack.into_inner().unwrap_or_else(PoisonError::into_inner) {
            PackState::None => Vec::new(),
            PackState::Open(packs) => packs.publish()?,
            PackState::Failed => return Err(has_failed(&self.dir)),
        };
        let (level, policy) = (self.options.loose_compression, self.options.policy);
        let mut loose = LooseBatch::new(&self.dir, self.existing, level, policy);
        loose.keep(known.kept);
        for held in &known.held {
            loose.store(&held.id, held.kind, &held.content)?;
        }
        let loose = loose.publish()?.written;
        Ok(PublishedObjects { packs, loose, is_staged: policy.is_staged() })
    }

    /// Whether an object must be stored; from then on it counts as stored.
    fn is_new(&self, id: &ObjectId) -> bool {
        let is_first = lock(&self.known).seen.insert(*id);
        is_first && !self.is_there(id)
    }

    /// Whether the object exists, was touched, and will be durable.
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
        let appended = self.with_packs(|packs| packs.append(id, &tools.entry));
        lock(&self.tools).push(tools);
        appended
    }

    fn with_packs(&self, work: impl FnOnce(&mut GrowingPacks) -> Result<(), Error>) -> Result<(), Error> {
        let mut state = lock(&self.pack);
        let mut packs = match std::mem::replace(&mut *state, PackState::Failed) {
            PackState::Open(packs) => packs,
            PackState::None => {
                Box::new(GrowingPacks::create(&self.dir, self.existing.hash_kind(), &self.options)?)
            }
            PackState::Failed => return Err(has_failed(&self.dir)),
        };
        work(&mut packs)?;
        *state = PackState::Open(packs);
        Ok(())
    }
}

impl Known {
    /// Keeps an object in memory, or returns the held objects, which go into the pack before this one.
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

/// Poisoning is harmless: if a thread panics, its batch is dropped.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
