//! Reads what is readable of a damaged pack, as `unpack-objects -r` does: entry by entry; broken ones are
//! reported and skipped. Git continues where its zlib gave up; this searches for the next entry.
//!
//! No byte of the pack is trusted. Memory: contents up to [`MAX_HELD_BYTES`], one of [`MAX_OBJECT_BYTES`]
//! with its delta, and about 200 bytes per entry, of which there are at most as many as bytes. Each delta is
//! applied once.

use std::collections::HashMap;

use packrace_format::pack::{BadHeader, EntryKind, HEADER_BYTES, Header, delta, parse_entry_header};
use packrace_format::zlib::PieceInflater;
use packrace_object::{HashKind, Kind, ObjectId, TrailerHasher, object_id};
use packrace_store::Repository;
use packrace_store::publish::{BatchOptions, ObjectBatch};

use super::MAX_OBJECT_BYTES;
use crate::ingest::IngestError;

/// The most bytes of contents kept in memory as bases.
const MAX_HELD_BYTES: usize = 64 << 20;

/// The search for entries reads at most this many times the bytes of the pack.
const SEARCHES: u64 = 64;

/// Bytes inflated at a time.
const ROOM_BYTES: usize = 1 << 16;

/// The result of reading a damaged pack.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// What is wrong with the skipped objects, in git's words.
    pub errors: Vec<String>,
    /// Why git would give up; everything readable is stored anyway.
    pub fatal: Option<String>,
    /// The end of the pack, including its trailer.
    pub end: usize,
}

/// A delta entry.
struct Delta {
    offset: u64,
    base: BaseRef,
    /// The offset of its stream.
    start: usize,
    size: u64,
}

/// All deltas, by their bases.
struct DeltaTree {
    deltas: Vec<Delta>,
    by_offset: HashMap<u64, Vec<usize>>,
    by_name: HashMap<ObjectId, Vec<usize>>,
    /// Applied, or not applicable.
    is_done: Vec<bool>,
    left: usize,
}

/// An object, and its deltas still to apply.
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

/// Stores what is readable of a pack, in as many batches as needed. With `is_dry`, stores nothing and applies
/// no deltas, as in git.
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
    /// By offset of the entry.
    named: HashMap<u64, ObjectId>,
    deltas: Vec<Delta>,
    found: Salvaged,
    /// Whether entries may have been missed.
    has_lost: bool,
    /// The bytes that the search for entries may still read.
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
    /// The length of the stream, if known.
    length: Option<usize>,
}

const CUT_OFF: &str = "early EOF";
const OUT_OF_BOUND: &str = "offset value out of bound for delta base object";

impl Salvage<'_> {
    /// Stores whole objects and records deltas; returns the end of the entries, if it is reached.
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
            // Lost entries will not be found any more.
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

    /// Reads an entry; returns whether another one may follow.
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

    /// The offset of the next entry, from `from` on: a header, and a stream of the stated size with the right
    /// checksum. Entries before it are lost.
    fn find_entry(&mut self, from: usize) -> Option<usize> {
        self.has_lost = true;
        (from..self.trailer_start()).find(|at| {
            let Some(left) = self.search_bytes.checked_sub(1) else { return false };
            self.search_bytes = left;
            let Ok(header) = parse_entry_header(&self.data[*at..], self.hash) else { return false };
            // The header of a zlib stream (RFC 1950): few positions look like one.
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

    /// The offset of the trailer, if the pack is not truncated.
    fn trailer_start(&self) -> usize {
        self.data.len().saturating_sub(self.hash.len_in_bytes())
    }

    /// Ends reading with an error.
    fn give_up(&mut self, why: &str) -> bool {
        self.found.fatal = Some(why.to_owned());
        false
    }

    /// Stores an object; `None` if it is a collision attack.
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

    /// Applies deltas in rounds, each from stored objects to their deltas and on, while memory lasts.
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

    /// Applies the deltas of an object and, recursively, of the results.
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
            // Otherwise, the next round continues from the stored object.
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

    /// Removes the deltas of an object from the tree, so that each is applied once.
    fn take_children(&mut self, offset: Option<u64>, id: &ObjectId) -> Vec<usize> {
        let mut children = offset.and_then(|offset| self.by_offset.remove(&offset)).unwrap_or_default();
        children.append(&mut self.by_name.remove(id).unwrap_or_default());
        children
    }
}

impl EntryInflater {
    /// Inflates the stream at the start of `data`, appends it to `content`, and returns its length.
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
                // Only the entry's header is wrong; the next entry follows.
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

    /// Bytes that the last inflation consumed and produced.
    fn taken(&self) -> u64 {
        self.pieces.consumed() + self.pieces.produced()
    }
}

/// Applies a delta to its base.
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
