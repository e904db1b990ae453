//! What can be read of a damaged pack, as `unpack-objects -r` does: entries are read one after the other as far as their
//! borders can be told, and what is broken is reported and passed over.
//!
//! Bytes of a pack are trusted in nothing. Memory: contents up to [`MAX_HELD_BYTES`], one of [`MAX_OBJECT_BYTES`] with its
//! delta, and some 200 bytes an entry, of which there are no more than there are bytes. Each delta is applied once.

use std::collections::HashMap;

use packrace_format::pack::{EntryKind, HEADER_BYTES, delta, parse_entry_header};
use packrace_format::zlib::PieceInflater;
use packrace_object::{HashKind, Kind, ObjectId, TrailerHasher, object_id};
use packrace_store::Repository;
use packrace_store::publish::{LooseBatch, WritePolicy, loose_compression};

use super::MAX_OBJECT_BYTES;
use crate::ingest::Error;

/// Contents that are in memory because more is made of them.
const MAX_HELD_BYTES: usize = 64 << 20;

/// Inflated at a time.
const ROOM_BYTES: u64 = 1 << 16;

/// What became of a damaged pack.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Of objects that were passed over, in git's words.
    pub errors: Vec<String>,
    /// What git gives up for, once all that can be read is stored.
    pub fatal: Option<String>,
    /// Where the pack ends, with its trailer.
    pub end: usize,
}

/// An entry whose content is made from another's.
struct Delta {
    offset: u64,
    base: Base,
    /// Where its stream begins.
    start: usize,
    size: u64,
}

/// All deltas, by what they are made of.
struct DeltaTree {
    deltas: Vec<Delta>,
    by_offset: HashMap<u64, Vec<usize>>,
    by_name: HashMap<ObjectId, Vec<usize>>,
    /// Made, or of no use.
    is_done: Vec<bool>,
    left: usize,
}

/// An object, and what is still to be made of it.
struct Level {
    kind: Kind,
    content: Vec<u8>,
    children: Vec<usize>,
}

#[derive(Clone, Copy)]
enum Base {
    At(u64),
    Named(ObjectId),
}

/// Stores what can be read of a pack as loose objects, in as many batches as it takes. With `is_dry`, nothing is stored, and deltas
/// are not applied, as in git.
pub fn salvage(data: &[u8], repository: &Repository, is_dry: bool) -> Result<Salvaged, Error> {
    let mut work = Work {
        data,
        hash: repository.hash_kind(),
        repository,
        is_dry,
        inflater: PieceInflater::new(),
        named: HashMap::new(),
        deltas: Vec::new(),
        found: Salvaged::default(),
    };
    let end = work.read_entries()?;
    work.apply_deltas()?;
    if let Some(end) = end
        && work.found.fatal.is_none()
    {
        work.check_trailer(end);
    }
    Ok(work.found)
}

struct Work<'a> {
    data: &'a [u8],
    hash: HashKind,
    repository: &'a Repository,
    is_dry: bool,
    inflater: PieceInflater,
    /// By the offset of the entry.
    named: HashMap<u64, ObjectId>,
    deltas: Vec<Delta>,
    found: Salvaged,
}

/// Why an entry has no content.
enum Broken {
    Damaged(&'static str),
    CutOff,
}

impl Work<'_> {
    /// Stores whole objects and notes deltas. Gives the end of the entries, if it is reached.
    fn read_entries(&mut self) -> Result<Option<usize>, Error> {
        let Some(header) = self.data.first_chunk::<HEADER_BYTES>() else {
            self.found.fatal = Some("early EOF".to_owned());
            return Ok(None);
        };
        let number =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if header[..4] != *b"PACK" {
            self.found.fatal = Some("bad pack file".to_owned());
            return Ok(None);
        }
        if !matches!(number(4), 2 | 3) {
            self.found.fatal = Some(format!("unknown pack file version {}", number(4)));
            return Ok(None);
        }
        let mut batch = self.batch()?;
        let mut at = HEADER_BYTES;
        let mut end = None;
        for left in (0..=number(8)).rev() {
            if left == 0 {
                end = Some(at);
            } else if !self.read_entry(&mut at, &mut batch)? {
                break;
            }
        }
        if !self.is_dry {
            batch.publish()?;
        }
        Ok(end)
    }

    /// Whether there may be another one.
    fn read_entry(&mut self, at: &mut usize, batch: &mut LooseBatch) -> Result<bool, Error> {
        let offset = *at as u64;
        let header = match parse_entry_header(&self.data[*at..], self.hash) {
            Ok(header) => header,
            Err(error) if error.what == "entry has no valid type" => {
                let kind = self.data[*at] >> 4 & 7;
                self.found.errors.push(format!("bad object type {kind}"));
                // A byte whose first bit is not set ends kind and size.
                let length = self.data[*at..].iter().position(|byte| *byte & 0x80 == 0);
                *at += length.map_or(self.data.len() - *at, |last| last + 1);
                return Ok(true);
            }
            Err(error) if error.what.starts_with("delta") => {
                self.found.fatal = Some("offset value out of bound for delta base object".to_owned());
                return Ok(false);
            }
            Err(_) => {
                self.found.fatal = Some("early EOF".to_owned());
                return Ok(false);
            }
        };
        *at += header.length;
        let mut content = Vec::new();
        let start = *at;
        let inflated = inflate(&mut self.inflater, self.data, at, header.size, &mut content);
        match (inflated, header.kind) {
            (Err(Broken::Damaged(what)), _) => self.found.errors.push(what.to_owned()),
            (Err(Broken::CutOff), _) => {
                self.found.fatal = Some("early EOF".to_owned());
                return Ok(false);
            }
            (Ok(()), EntryKind::Object(kind)) => {
                if let Some(id) = self.store(kind, &content, batch)? {
                    self.named.insert(offset, id);
                }
            }
            (Ok(()), EntryKind::OfsDelta { distance }) => match offset.checked_sub(distance) {
                Some(base) if base > 0 => {
                    self.deltas.push(Delta { offset, base: Base::At(base), start, size: header.size });
                }
                _ => {
                    self.found.fatal = Some("offset value out of bound for delta base object".to_owned());
                    return Ok(false);
                }
            },
            (Ok(()), EntryKind::RefDelta { base }) => {
                self.deltas.push(Delta { offset, base: Base::Named(base), start, size: header.size });
            }
        }
        Ok(true)
    }

    /// Stores an object. None for one that attacks its hash.
    fn store(
        &mut self,
        kind: Kind,
        content: &[u8],
        batch: &mut LooseBatch,
    ) -> Result<Option<ObjectId>, Error> {
        let Ok(id) = object_id(self.hash, kind, content) else {
            self.found.errors.push("SHA-1 appears to be part of a collision attack".to_owned());
            return Ok(None);
        };
        if !self.is_dry {
            batch.add(&id, kind, content)?;
        }
        Ok(Some(id))
    }

    /// In rounds, each of which begins with what is stored, and goes on to what is made of that as long as the memory lasts.
    fn apply_deltas(&mut self) -> Result<(), Error> {
        if self.is_dry {
            return Ok(());
        }
        let mut tree = DeltaTree::of(std::mem::take(&mut self.deltas));
        loop {
            let before = tree.left;
            if before == 0 {
                return Ok(());
            }
            let mut reader = self.repository.snapshot()?.reader(MAX_OBJECT_BYTES as usize);
            let mut batch = self.batch()?;
            for at in 0..tree.deltas.len() {
                if tree.is_done[at] {
                    continue;
                }
                let (offset, id) = match tree.deltas[at].base {
                    Base::At(offset) => (Some(offset), self.named.get(&offset).copied()),
                    Base::Named(id) => (None, Some(id)),
                };
                let Some(id) = id else { continue };
                let is_readable =
                    reader.kind_and_size(&id)?.is_some_and(|(_, size)| size <= MAX_OBJECT_BYTES);
                if let Some(object) = is_readable.then(|| reader.read(&id).ok()).flatten() {
                    let children = tree.take_children(offset, &id);
                    let root = Level { kind: object.kind, content: object.data, children };
                    self.apply_tree(root, &mut tree, &mut batch)?;
                }
            }
            batch.publish()?;
            if tree.left == before {
                self.found.fatal.get_or_insert("unresolved deltas left after unpacking".to_owned());
                return Ok(());
            }
        }
    }

    /// Applies what is made of an object, and what is made of that, one after the other.
    fn apply_tree(&mut self, root: Level, tree: &mut DeltaTree, batch: &mut LooseBatch) -> Result<(), Error> {
        let mut held_bytes = root.content.len();
        let mut levels = vec![root];
        while let Some(level) = levels.last_mut() {
            let Some(at) = level.children.pop() else {
                held_bytes -= levels.pop().map_or(0, |level| level.content.len());
                continue;
            };
            if std::mem::replace(&mut tree.is_done[at], true) {
                continue;
            }
            tree.left -= 1;
            let kind = level.kind;
            let Some(content) = apply(&mut self.inflater, self.data, &tree.deltas[at], &level.content) else {
                self.found.fatal.get_or_insert("failed to apply delta".to_owned());
                continue;
            };
            let Some(id) = self.store(kind, &content, batch)? else { continue };
            let offset = tree.deltas[at].offset;
            self.named.insert(offset, id);
            // Else the next round goes on from what was stored.
            if held_bytes + content.len() <= MAX_HELD_BYTES {
                held_bytes += content.len();
                levels.push(Level { kind, content, children: tree.take_children(Some(offset), &id) });
            }
        }
        Ok(())
    }

    fn check_trailer(&mut self, end: usize) {
        let mut hasher = TrailerHasher::new(self.hash);
        hasher.update(&self.data[..end]);
        self.found.end = end + self.hash.len_in_bytes();
        match self.data.get(end..self.found.end) {
            None => self.found.fatal = Some("early EOF".to_owned()),
            Some(trailer) if trailer != hasher.finish().as_slice() => {
                self.found.fatal = Some("final sha1 did not match".to_owned());
            }
            Some(_) => {}
        }
    }

    fn batch(&self) -> Result<LooseBatch, Error> {
        let config = self.repository.config();
        let (level, policy) = (loose_compression(config)?, WritePolicy::of(config)?);
        Ok(LooseBatch::new(self.repository.object_dir(), self.repository.snapshot()?, level, policy))
    }
}

impl DeltaTree {
    fn of(deltas: Vec<Delta>) -> Self {
        let (mut by_offset, mut by_name) = (HashMap::new(), HashMap::new());
        for (at, waits) in deltas.iter().enumerate() {
            match waits.base {
                Base::At(offset) => by_offset.entry(offset).or_insert_with(Vec::new).push(at),
                Base::Named(id) => by_name.entry(id).or_insert_with(Vec::new).push(at),
            }
        }
        DeltaTree { left: deltas.len(), is_done: vec![false; deltas.len()], deltas, by_offset, by_name }
    }

    /// What is to be made of an object: all of it is then, so that nobody gets it twice.
    fn take_children(&mut self, offset: Option<u64>, id: &ObjectId) -> Vec<usize> {
        let mut children = offset.and_then(|offset| self.by_offset.remove(&offset)).unwrap_or_default();
        children.append(&mut self.by_name.remove(id).unwrap_or_default());
        children
    }
}

/// Inflates the stream at `at` into `content`, and goes behind it, or as far as it could be read.
fn inflate(
    inflater: &mut PieceInflater,
    data: &[u8],
    at: &mut usize,
    size: u64,
    content: &mut Vec<u8>,
) -> Result<(), Broken> {
    let mut room = vec![0; size.saturating_add(1).min(ROOM_BYTES) as usize];
    let (start, mut produced) = (*at, 0);
    inflater.restart();
    loop {
        let step = inflater.inflate(&data[*at..], &mut room);
        *at = start + inflater.consumed() as usize;
        let Ok(step) = step else { return Err(Broken::Damaged("inflate returned -3")) };
        produced += step.produced as u64;
        if produced > size {
            return Err(Broken::Damaged("inflate returned -5"));
        }
        if size <= MAX_OBJECT_BYTES {
            content.extend_from_slice(&room[..step.produced]);
        }
        match step.is_over {
            true if produced < size => return Err(Broken::Damaged("inflate returned 1")),
            true if size > MAX_OBJECT_BYTES => return Err(Broken::Damaged("object is too large")),
            true => return Ok(()),
            false if step.consumed == 0 && step.produced == 0 => return Err(Broken::CutOff),
            false => {}
        }
    }
}

/// What a delta makes of its base.
fn apply(inflater: &mut PieceInflater, data: &[u8], waits: &Delta, base: &[u8]) -> Option<Vec<u8>> {
    let mut instructions = Vec::new();
    let mut at = waits.start;
    inflate(inflater, data, &mut at, waits.size, &mut instructions).ok()?;
    let sizes = delta::sizes(&instructions).ok()?;
    if sizes.result > MAX_OBJECT_BYTES {
        return None;
    }
    let mut content = Vec::new();
    delta::apply(base, &instructions, &mut content).ok()?;
    Some(content)
}
