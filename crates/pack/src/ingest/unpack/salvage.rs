//! What can be read of a damaged pack, as `unpack-objects -r` does: entries are read one after the other, and what is broken
//! is reported and passed over. Git goes on where its zlib has given up; here the next entry is looked for.
//!
//! Bytes of a pack are trusted in nothing. Memory: contents up to [`MAX_HELD_BYTES`], one of [`MAX_OBJECT_BYTES`] with its
//! delta, and some 200 bytes an entry, of which there are no more than there are bytes. Each delta is applied once.

use std::collections::HashMap;

use packrace_format::pack::{BadHeader, EntryKind, HEADER_BYTES, Header, delta, parse_entry_header};
use packrace_format::zlib::PieceInflater;
use packrace_object::{HashKind, Kind, ObjectId, TrailerHasher, object_id};
use packrace_store::Repository;
use packrace_store::publish::{BatchOptions, ObjectBatch};

use super::MAX_OBJECT_BYTES;
use crate::ingest::IngestError;

/// Contents that are in memory because more is made of them.
const MAX_HELD_BYTES: usize = 64 << 20;

/// Where the next entry begins is looked for as long as it takes to read the pack so often.
const SEARCHES: u64 = 64;

/// Inflated at a time.
const ROOM_BYTES: usize = 1 << 16;

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
    base: BaseRef,
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
struct DeltaLevel {
    kind: Kind,
    content: Vec<u8>,
    children: Vec<usize>,
}

#[derive(Clone, Copy)]
enum BaseRef {
    At(u64),
    Named(ObjectId),
}

/// Stores what can be read of a pack, in as many batches as it takes. With `is_dry`, nothing is stored, and deltas
/// are not applied, as in git.
pub fn salvage(data: &[u8], repository: &Repository, is_dry: bool) -> Result<Salvaged, IngestError> {
    let mut work = Salvage {
        data,
        hash: repository.hash_kind(),
        repository,
        is_dry,
        inflater: EntryInflater { pieces: PieceInflater::new(), room: vec![0; ROOM_BYTES] },
        named: HashMap::new(),
        deltas: Vec::new(),
        found: Salvaged::default(),
        has_lost: false,
        search_bytes: SEARCHES * data.len() as u64 + MAX_OBJECT_BYTES,
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

struct Salvage<'a> {
    data: &'a [u8],
    hash: HashKind,
    repository: &'a Repository,
    is_dry: bool,
    inflater: EntryInflater,
    /// By the offset of the entry.
    named: HashMap<u64, ObjectId>,
    deltas: Vec<Delta>,
    found: Salvaged,
    /// Some entries may not have been seen.
    has_lost: bool,
    /// So much may still be read to find entries.
    search_bytes: u64,
}

/// Inflates one entry after the other.
struct EntryInflater {
    pieces: PieceInflater,
    room: Vec<u8>,
}

/// Why an entry has no content.
struct Broken {
    what: &'static str,
    /// How long its stream is, where that can be told.
    length: Option<usize>,
}

const CUT_OFF: &str = "early EOF";
const OUT_OF_BOUND: &str = "offset value out of bound for delta base object";

impl Salvage<'_> {
    /// Stores whole objects and notes deltas. Gives the end of the entries, if it is reached.
    fn read_entries(&mut self) -> Result<Option<usize>, IngestError> {
        let Some(header) = self.data.first_chunk::<HEADER_BYTES>() else {
            self.give_up(CUT_OFF);
            return Ok(None);
        };
        let objects = match Header::read(header) {
            Ok(header) => header.objects,
            Err(bad) => {
                self.give_up(&match bad {
                    BadHeader::Signature => "bad pack file".to_owned(),
                    BadHeader::Version(version) => format!("unknown pack file version {version}"),
                });
                return Ok(None);
            }
        };
        let batch = self.batch()?;
        let mut at = HEADER_BYTES;
        let mut end = None;
        let trailer = self.trailer_start();
        for left in (0..=objects).rev() {
            // Entries that were lost do not come any more.
            if left == 0 || self.has_lost && at >= trailer {
                end = Some(at);
                break;
            }
            if !self.read_entry(&mut at, &batch)? {
                break;
            }
        }
        if !self.is_dry {
            batch.publish()?;
        }
        Ok(end)
    }

    /// Whether there may be another one.
    fn read_entry(&mut self, at: &mut usize, batch: &ObjectBatch) -> Result<bool, IngestError> {
        let offset = *at as u64;
        let header = match parse_entry_header(&self.data[*at..], self.hash) {
            Ok(header) => header,
            Err(error) if error.what == "entry has no valid type" && !self.data[*at..].is_empty() => {
                let kind = self.data[*at] >> 4 & 7;
                self.found.errors.push(format!("bad object type {kind}"));
                *at = self.find_entry(*at + 1).unwrap_or(self.trailer_start());
                return Ok(true);
            }
            Err(error) if error.what.starts_with("delta") => return Ok(self.give_up(OUT_OF_BOUND)),
            Err(_) => return Ok(self.give_up(CUT_OFF)),
        };
        let start = *at + header.length;
        let mut content = Vec::new();
        let stream = self.inflater.inflate(&self.data[start..], header.size, Some(&mut content));
        let length = match stream {
            Ok(length) => length,
            Err(Broken { what, length }) => {
                let next = length.map(|length| start + length).or_else(|| self.find_entry(*at + 1));
                if what == CUT_OFF && next.is_none() {
                    return Ok(self.give_up(CUT_OFF));
                }
                self.found.errors.push(if what == CUT_OFF { "inflate returned -5" } else { what }.to_owned());
                *at = next.unwrap_or(self.trailer_start());
                return Ok(true);
            }
        };
        *at = start + length;
        let base = match header.kind {
            EntryKind::Object(kind) => {
                if let Some(id) = self.store(kind, &content, batch)? {
                    self.named.insert(offset, id);
                }
                return Ok(true);
            }
            EntryKind::OfsDelta { distance } => match offset.checked_sub(distance) {
                Some(base) if base > 0 => BaseRef::At(base),
                _ => return Ok(self.give_up(OUT_OF_BOUND)),
            },
            EntryKind::RefDelta { base } => BaseRef::Named(base),
        };
        self.deltas.push(Delta { offset, base, start, size: header.size });
        Ok(true)
    }

    /// Where the next entry begins, from `from` on: a header, and a stream of the size that it tells, with the right checksum. Entries
    /// before it are lost.
    fn find_entry(&mut self, from: usize) -> Option<usize> {
        self.has_lost = true;
        (from..self.trailer_start()).find(|at| {
            let Some(left) = self.search_bytes.checked_sub(1) else { return false };
            self.search_bytes = left;
            let Ok(header) = parse_entry_header(&self.data[*at..], self.hash) else { return false };
            // The header of a stream (RFC 1950): few places look like one.
            let stream = &self.data[at + header.length..];
            let is_stream = |first: u8, second: u8| {
                first & 0xf == 8 && (u32::from(first) << 8 | u32::from(second)) % 31 == 0
            };
            if !stream.first_chunk().is_some_and(|[first, second]| is_stream(*first, *second)) {
                return false;
            }
            let found = self.inflater.inflate(stream, header.size, None);
            self.search_bytes = self.search_bytes.saturating_sub(self.inflater.taken());
            found.is_ok()
        })
    }

    /// Where the trailer has to begin, if the pack is not cut off.
    fn trailer_start(&self) -> usize {
        self.data.len().saturating_sub(self.hash.len_in_bytes())
    }

    /// There is no going on.
    fn give_up(&mut self, why: &str) -> bool {
        self.found.fatal = Some(why.to_owned());
        false
    }

    /// Stores an object. None for one that attacks its hash.
    fn store(
        &mut self,
        kind: Kind,
        content: &[u8],
        batch: &ObjectBatch,
    ) -> Result<Option<ObjectId>, IngestError> {
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
    fn apply_deltas(&mut self) -> Result<(), IngestError> {
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
            let batch = self.batch()?;
            for at in 0..tree.deltas.len() {
                if tree.is_done[at] {
                    continue;
                }
                let (offset, id) = match tree.deltas[at].base {
                    BaseRef::At(offset) => (Some(offset), self.named.get(&offset).copied()),
                    BaseRef::Named(id) => (None, Some(id)),
                };
                let Some(id) = id else { continue };
                let is_readable =
                    reader.kind_and_size(&id)?.is_some_and(|(_, size)| size <= MAX_OBJECT_BYTES);
                if let Some(object) = is_readable.then(|| reader.read(&id).ok()).flatten() {
                    let children = tree.take_children(offset, &id);
                    let root = DeltaLevel { kind: object.kind, content: object.data, children };
                    self.apply_tree(root, &mut tree, &batch)?;
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
    fn apply_tree(
        &mut self,
        root: DeltaLevel,
        tree: &mut DeltaTree,
        batch: &ObjectBatch,
    ) -> Result<(), IngestError> {
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
                levels.push(DeltaLevel { kind, content, children: tree.take_children(Some(offset), &id) });
            }
        }
        Ok(())
    }

    fn check_trailer(&mut self, end: usize) {
        let mut hasher = TrailerHasher::new(self.hash);
        hasher.update(&self.data[..end]);
        self.found.end = end + self.hash.len_in_bytes();
        match self.data.get(end..self.found.end) {
            None => drop(self.give_up(CUT_OFF)),
            Some(trailer) if trailer != hasher.finish().as_slice() => {
                self.give_up("final sha1 did not match");
            }
            Some(_) => {}
        }
    }

    fn batch(&self) -> Result<ObjectBatch, IngestError> {
        let options = BatchOptions::of(self.repository.config())?;
        Ok(ObjectBatch::new(self.repository.object_dir(), self.repository.snapshot()?, options))
    }
}

impl DeltaTree {
    fn of(deltas: Vec<Delta>) -> Self {
        let (mut by_offset, mut by_name) = (HashMap::new(), HashMap::new());
        for (at, waits) in deltas.iter().enumerate() {
            match waits.base {
                BaseRef::At(offset) => by_offset.entry(offset).or_insert_with(Vec::new).push(at),
                BaseRef::Named(id) => by_name.entry(id).or_insert_with(Vec::new).push(at),
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

impl EntryInflater {
    /// Inflates the stream at the start of `data`, appends it to `content`, and tells how long it is.
    fn inflate(
        &mut self,
        data: &[u8],
        size: u64,
        mut content: Option<&mut Vec<u8>>,
    ) -> Result<usize, Broken> {
        let broken = |what, length| Err(Broken { what, length });
        let (mut at, mut produced) = (0, 0);
        self.pieces.restart();
        loop {
            let Ok(step) = self.pieces.inflate(&data[at..], &mut self.room) else {
                return broken("inflate returned -3", None);
            };
            at += step.consumed;
            produced += step.produced as u64;
            if let Some(content) = &mut content
                && produced <= size.min(MAX_OBJECT_BYTES)
            {
                content.extend_from_slice(&self.room[..step.produced]);
            }
            match step.is_over {
                // Only its header is wrong, and the next entry follows.
                true if produced > size => return broken("inflate returned -5", Some(at)),
                true if produced < size => return broken("inflate returned 1", Some(at)),
                true if size > MAX_OBJECT_BYTES => return broken("object is too large", Some(at)),
                true => return Ok(at),
                false if produced > size.saturating_add(MAX_OBJECT_BYTES) => {
                    return broken("inflate returned -5", None);
                }
                false if step.consumed == 0 && step.produced == 0 => return broken(CUT_OFF, None),
                false => {}
            }
        }
    }

    /// Bytes that were read and put out by the last time.
    fn taken(&self) -> u64 {
        self.pieces.consumed() + self.pieces.produced()
    }
}

/// What a delta makes of its base.
fn apply(inflater: &mut EntryInflater, data: &[u8], waits: &Delta, base: &[u8]) -> Option<Vec<u8>> {
    let mut instructions = Vec::new();
    inflater.inflate(&data[waits.start..], waits.size, Some(&mut instructions)).ok()?;
    let sizes = delta::sizes(&instructions).ok()?;
    if sizes.result > MAX_OBJECT_BYTES {
        return None;
    }
    let mut content = Vec::new();
    delta::apply(base, &instructions, &mut content).ok()?;
    Some(content)
}
