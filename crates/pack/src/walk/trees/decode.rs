use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use packrace_format::pack::{self, EntryKind};
use packrace_format::zlib::Inflater;
use packrace_object::tree::Entries;
use packrace_object::{Kind, MalformedObject};
use packrace_store::{MAX_CHAIN, ObjectReader, PackIx};

use crate::error::{Error, Reason};
use crate::request_objects::{ObjectNo, RequestObjects};

/// Bytes of decoded trees that a decoder caches as delta bases.
const CACHE_BYTES: usize = 32 << 20;

/// The largest tree that is decoded, regardless of its header.
const MAX_TREE_BYTES: u64 = 1 << 30;

/// A decoded tree.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) bytes: Vec<u8>,
    /// The offset of each entry, then the length of `bytes`.
    pub(crate) starts: Vec<u32>,
    /// The tree that this one is stored as a delta of.
    pub(crate) base: Option<ObjectNo>,
    /// The offsets of entries that are not copied whole from the base; empty without a base.
    pub(crate) fresh: Vec<u32>,
}

impl Tree {
    fn cost(&self) -> usize {
        self.bytes.len() + 4 * (self.starts.len() + self.fresh.len()) + 128
    }
}

/// An offset in a pack.
type At = (PackIx, u64);

/// A step in a delta chain towards its base.
struct DeltaLink {
    at: At,
    header_length: usize,
    size: u64,
    base: Option<ObjectNo>,
}

/// Decodes trees and caches recent ones as delta bases; each thread has one.
pub(crate) struct TreeDecoder<'a> {
    request_objects: &'a RequestObjects,
    inflater: Inflater,
    reader: ObjectReader,
    delta: Vec<u8>,
    cache: HashMap<At, Arc<Tree>>,
    order: VecDeque<At>,
    cached_bytes: usize,
}

impl<'a> TreeDecoder<'a> {
    pub(crate) fn new(request_objects: &'a RequestObjects) -> Self {
        TreeDecoder {
            request_objects,
            inflater: Inflater::new(),
            reader: request_objects.snapshot().reader(CACHE_BYTES / 4),
            delta: Vec::new(),
            cache: HashMap::new(),
            order: VecDeque::new(),
            cached_bytes: 0,
        }
    }

    /// The tree `ix`. If it or a delta base is damaged, the store's reader looks for other copies.
    pub(crate) fn tree(&mut self, ix: ObjectNo) -> Result<Arc<Tree>, Error> {
        match self.decoded(ix) {
            Err(error) if error.is_damage() => self.read_whole(ix),
            found => found,
        }
    }

    fn decoded(&mut self, ix: ObjectNo) -> Result<Arc<Tree>, Error> {
        let Some(packed) = self.request_objects.packed(ix) else { return self.read_whole(ix) };
        let location = self.request_objects.snapshot().locate(packed);
        let mut at = (location.pack, location.offset);
        let mut chain: Vec<DeltaLink> = Vec::new();
        let mut tree = loop {
            if let Some(tree) = self.cache.get(&at) {
                break tree.clone();
            }
            if chain.len() > MAX_CHAIN {
                return Err(Reason::DeepChain(self.request_objects.id(ix)).into());
            }
            let bytes = self.entry_bytes(at)?;
            let header = pack::parse_entry_header(bytes, self.request_objects.hash())
                .map_err(|error| self.damaged(at, error.what))?;
            match header.kind {
                EntryKind::Object(Kind::Tree) => {
                    let tree = self.inflate_tree(ix, at, header.length, header.size)?;
                    break self.keep(at, tree);
                }
                EntryKind::OfsDelta { distance } => {
                    let base_offset = at.1.checked_sub(distance).filter(|offset| *offset < at.1);
                    let base_offset =
                        base_offset.ok_or_else(|| self.damaged(at, "delta base offset is out of bound"))?;
                    let base = self.request_objects.snapshot().ix_of_offset(at.0, base_offset);
                    let base = base.map(|base| ObjectNo(base.0));
                    chain.push(DeltaLink { at, header_length: header.length, size: header.size, base });
                    at = (at.0, base_offset);
                }
                // `REF_DELTA` entries are rare on disk and can form loops, which the store's reader handles.
                EntryKind::RefDelta { .. } if chain.is_empty() => return self.read_whole(ix),
                EntryKind::RefDelta { .. } => {
                    let base = chain.last().and_then(|link| link.base);
                    let base = base.ok_or_else(|| self.damaged(at, "delta base is not in the index"))?;
                    break self.read_whole(base)?;
                }
                EntryKind::Object(is) => {
                    return Err(Reason::WrongKind {
                        id: self.request_objects.id(ix),
                        is,
                        expected: Kind::Tree,
                    }
                    .into());
                }
            }
        };
        while let Some(link) = chain.pop() {
            let applied = self.apply(ix, &link, &tree)?;
            tree = self.keep(link.at, applied);
        }
        Ok(tree)
    }

    fn entry_bytes(&self, at: At) -> Result<&'a [u8], Error> {
        let pack = &self.request_objects.snapshot().packs()[at.0.0 as usize];
        usize::try_from(at.1)
            .ok()
            .and_then(|offset| pack.bytes().get(offset..))
            .ok_or_else(|| self.damaged(at, "offset is beyond the end of the pack"))
    }

    fn damaged(&self, at: At, what: &str) -> Error {
        let pack = self.request_objects.snapshot().packs()[at.0.0 as usize].name().to_string();
        Reason::DamagedEntry { pack, offset: at.1, what: what.to_owned() }.into()
    }

    fn inflate(&mut self, at: At, header_length: usize, size: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        let bytes = self.entry_bytes(at)?;
        let stored = bytes.get(header_length..).unwrap_or_default();
        if size > MAX_TREE_BYTES {
            return Err(self.damaged(at, "tree is larger than 1 GiB"));
        }
        let size = size as usize;
        self.inflater.inflate_exact(stored, size, out).map_err(|error| self.damaged(at, error.what))
    }

    fn inflate_tree(&mut self, ix: ObjectNo, at: At, header_length: usize, size: u64) -> Result<Tree, Error> {
        let mut bytes = Vec::new();
        self.inflate(at, header_length, size, &mut bytes)?;
        self.whole(ix, bytes)
    }

    fn read_whole(&mut self, ix: ObjectNo) -> Result<Arc<Tree>, Error> {
        let mut bytes = Vec::new();
        let is = self.request_objects.read(&mut self.reader, ix, &mut bytes)?;
        if is != Kind::Tree {
            return Err(
                Reason::WrongKind { id: self.request_objects.id(ix), is, expected: Kind::Tree }.into()
            );
        }
        self.whole(ix, bytes).map(Arc::new)
    }

    fn whole(&self, ix: ObjectNo, bytes: Vec<u8>) -> Result<Tree, Error> {
        let mut starts = Vec::with_capacity(bytes.len() / 32 + 2);
        let mut entries = Entries::new(&bytes, self.request_objects.hash());
        loop {
            starts.push(self.start(ix, entries.offset())?);
            match entries.next() {
                Some(Ok(_)) => {}
                Some(Err(source)) => {
                    return Err(Reason::Malformed { id: self.request_objects.id(ix), source }.into());
                }
                None => return Ok(Tree { bytes, starts, base: None, fresh: Vec::new() }),
            }
        }
    }

    fn start(&self, ix: ObjectNo, at: usize) -> Result<u32, Error> {
        u32::try_from(at).map_err(|_| {
            let source = MalformedObject { what: "tree of more than 4 GiB", at };
            Reason::Malformed { id: self.request_objects.id(ix), source }.into()
        })
    }

    /// Applies a delta to a decoded base and finds the result's entries without parsing copied ones.
    fn apply(&mut self, ix: ObjectNo, link: &DeltaLink, base: &Tree) -> Result<Tree, Error> {
        let mut delta = std::mem::take(&mut self.delta);
        let inflated = self.inflate(link.at, link.header_length, link.size, &mut delta);
        let tree = inflated.and_then(|()| {
            let sizes = pack::delta::sizes(&delta).map_err(|error| self.damaged(link.at, error.what))?;
            if sizes.result > MAX_TREE_BYTES {
                return Err(self.damaged(link.at, "tree is larger than 1 GiB"));
            }
            let mut bytes = Vec::new();
            pack::delta::apply(&base.bytes, &delta, &mut bytes)
                .map_err(|error| self.damaged(link.at, error.what))?;
            self.start(ix, bytes.len())?;
            self.find_entries(ix, link, base, &delta, bytes)
        });
        self.delta = delta;
        tree
    }

    fn find_entries(
        &self,
        ix: ObjectNo,
        link: &DeltaLink,
        base: &Tree,
        delta: &[u8],
        bytes: Vec<u8>,
    ) -> Result<Tree, Error> {
        let mut starts: Vec<u32> = Vec::with_capacity(base.starts.len() + 8);
        let mut fresh = Vec::new();
        let hash = self.request_objects.hash();
        // `at` is the offset of the next entry; the current instruction produced `bytes[from..to]`.
        let (mut at, mut from) = (0, 0);
        let sizes = pack::delta::sizes(delta).map_err(|error| self.damaged(link.at, error.what))?;
        for instruction in pack::delta::Instructions::new(delta, sizes.length) {
            let instruction = instruction.map_err(|error| self.damaged(link.at, error.what))?;
            let (length, copied_from) = match instruction {
                pack::delta::Instruction::Copy { offset, length } => (length as usize, Some(offset as usize)),
                pack::delta::Instruction::Insert(range) => (range.len(), None),
            };
            let to = from + length;
            while at < to {
                if let Some(offset) = copied_from.filter(|_| at >= from) {
                    at += copy_starts(&base.starts, offset + (at - from), offset + length, at, &mut starts);
                    if at >= to {
                        break;
                    }
                }
                let mut entries = Entries::at(&bytes, hash, at);
                match entries.next() {
                    Some(Ok(_)) => {}
                    Some(Err(source)) => {
                        return Err(Reason::Malformed { id: self.request_objects.id(ix), source }.into());
                    }
                    None => break,
                }
                // Cannot overflow, because the length of `bytes` fits in a `u32`.
                starts.push(at as u32);
                fresh.push(at as u32);
                at = entries.offset();
            }
            from = to;
        }
        starts.push(bytes.len() as u32);
        Ok(Tree { bytes, starts, base: link.base, fresh })
    }

    fn keep(&mut self, at: At, tree: Tree) -> Arc<Tree> {
        let tree = Arc::new(tree);
        self.cached_bytes += tree.cost();
        self.cache.insert(at, tree.clone());
        self.order.push_back(at);
        while self.cached_bytes > CACHE_BYTES {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(tree) = self.cache.remove(&oldest) {
                self.cached_bytes -= tree.cost();
            }
        }
        tree
    }
}

/// Adds the offsets of all entries that are completely in `base[from..to]`, moved so that `from` becomes
/// `at`, if an entry starts at `from`. Returns the length of those entries.
fn copy_starts(base: &[u32], from: usize, to: usize, at: usize, starts: &mut Vec<u32>) -> usize {
    let Ok(first) = base.binary_search_by(|start| (*start as usize).cmp(&from)) else { return 0 };
    // The first start beyond `to`. The entry before it may end beyond `to`, so the last start within is an
    // end.
    let beyond = first + base[first..].partition_point(|start| *start as usize <= to);
    let last = beyond - 1;
    starts.extend(base[first..last].iter().map(|start| (*start as usize - from + at) as u32));
    base[last] as usize - from
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: &[u32], from: usize, to: usize, at: usize, expect: (&[u32], usize)) {
        let mut starts = Vec::new();
        let length = copy_starts(base, from, to, at, &mut starts);
        assert_eq!((starts.as_slice(), length), expect, "{base:?} {from}..{to} at {at}");
    }

    #[test]
    fn entries_that_lie_whole_in_a_copy_are_taken_over() {
        let base = [0, 10, 25, 40];
        check(&base, 0, 40, 0, (&[0, 10, 25], 40));
        check(&base, 0, 39, 0, (&[0, 10], 25));
        check(&base, 10, 40, 100, (&[100, 115], 30));
        check(&base, 10, 24, 100, (&[], 0));
        check(&base, 11, 40, 100, (&[], 0));
        check(&base, 40, 40, 7, (&[], 0));
        check(&[0], 0, 0, 0, (&[], 0));
    }
}
