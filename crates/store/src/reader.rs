//! Reads whole objects, with a bounded cache of delta bases.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use packrace_format::loose_object;
use packrace_format::pack::{self, EntryKind};
use packrace_format::zlib::Inflater;
use packrace_object::{Kind, ObjectId, oid};
use packrace_os::Mapped;
use packrace_os::count::Role;

use crate::error::{Error, Reason};
use crate::snapshot::{Location, ObjectIx, PackIx, Snapshot};

/// Longest delta chain; git's limit for `--depth` (git-pack-objects, "--depth").
const MAX_CHAIN: usize = 4095;

/// Largest object that is read whole, whatever its header claims.
const MAX_OBJECT_BYTES: u64 = 1 << 32;

/// A whole object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its content.
    pub data: Vec<u8>,
}

/// Reads objects of one snapshot. Has buffers and a cache of its own: use one a thread.
pub struct ObjectReader {
    snapshot: Arc<Snapshot>,
    inflater: Inflater,
    delta: Vec<u8>,
    cache: BaseCache,
}

/// A delta on the way down to its base.
struct Link {
    at: Location,
    stored: Stored,
    size: u64,
}

/// Deflated bytes: from `start` on, to an end that inflating finds.
struct Stored {
    map: Mapped,
    start: usize,
}

impl Stored {
    fn bytes(&self) -> &[u8] {
        &self.map[self.start..]
    }
}

impl ObjectReader {
    pub(crate) fn new(snapshot: Arc<Snapshot>, cache_bytes: usize) -> Self {
        ObjectReader {
            snapshot,
            inflater: Inflater::new(),
            delta: Vec::new(),
            cache: BaseCache::new(cache_bytes),
        }
    }

    /// Reads the object of this name, packed or loose.
    pub fn read(&mut self, id: &oid) -> Result<Object, Error> {
        let mut data = Vec::new();
        if let Some(ix) = self.snapshot.lookup(id) {
            let kind = self.read_at(ix, &mut data)?;
            return Ok(Object { kind, data });
        }
        let file = self.open_loose(id)?.ok_or_else(|| Reason::Missing(id.to_owned()))?;
        let kind = loose_object::inflate(&mut self.inflater, &file, &mut data)
            .map_err(|error| Reason::DamagedObject { id: id.to_owned(), what: error.what })?;
        Ok(Object { kind, data })
    }

    /// Replaces `content` by that of a packed object.
    pub fn read_at(&mut self, ix: ObjectIx, content: &mut Vec<u8>) -> Result<Kind, Error> {
        let mut at = self.snapshot.locate(ix);
        let mut chain: Vec<Link> = Vec::new();
        let kind = loop {
            if let Some((kind, base)) = self.cache.get(at) {
                content.clear();
                content.extend_from_slice(base);
                break kind;
            }
            if chain.len() > MAX_CHAIN {
                return Err(self.damaged(at, "delta chain is longer than 4095"));
            }
            let (header, stored) = self.entry(at)?;
            match header.kind {
                EntryKind::Object(kind) => {
                    self.inflate(at, stored.bytes(), header.size, content)?;
                    if !chain.is_empty() {
                        self.cache.keep(at, kind, content);
                    }
                    break kind;
                }
                EntryKind::OfsDelta { distance } => {
                    chain.push(Link { at, stored, size: header.size });
                    at.offset = self.base_offset(at, distance)?;
                }
                EntryKind::RefDelta { base } => {
                    chain.push(Link { at, stored, size: header.size });
                    match self.base_by_name(at.pack, &base) {
                        Some(location) => at = location,
                        None => {
                            let object = self.read_loose_base(at, &base)?;
                            *content = object.data;
                            break object.kind;
                        }
                    }
                }
            }
        };
        self.apply(chain, kind, content)?;
        Ok(kind)
    }

    /// The kind and size of an object, without inflating it whole. `None` if there is none of this name.
    pub fn kind_and_size(&mut self, id: &oid) -> Result<Option<(Kind, u64)>, Error> {
        let Some(ix) = self.snapshot.lookup(id) else {
            let Some(file) = self.open_loose(id)? else { return Ok(None) };
            let header = loose_object::inflate_header(&mut self.inflater, &file)
                .map_err(|error| Reason::DamagedObject { id: id.to_owned(), what: error.what })?;
            return Ok(Some((header.kind, header.size)));
        };
        let mut at = self.snapshot.locate(ix);
        let mut size = None;
        for _ in 0..=MAX_CHAIN {
            let (header, stored) = self.entry(at)?;
            if size.is_none() && !matches!(header.kind, EntryKind::Object(_)) {
                let mut start = std::mem::take(&mut self.delta);
                let inflated = self.inflater.inflate_prefix(stored.bytes(), 32, &mut start);
                let sizes = inflated.and_then(|()| pack::delta::sizes(&start));
                self.delta = start;
                size = Some(sizes.map_err(|error| self.damaged(at, error.what))?.result);
            }
            match header.kind {
                EntryKind::Object(kind) => return Ok(Some((kind, size.unwrap_or(header.size)))),
                EntryKind::OfsDelta { distance } => at.offset = self.base_offset(at, distance)?,
                EntryKind::RefDelta { base } => match self.base_by_name(at.pack, &base) {
                    Some(location) => at = location,
                    None => {
                        let object = self.read_loose_base(at, &base)?;
                        return Ok(Some((object.kind, size.unwrap_or(header.size))));
                    }
                },
            }
        }
        Err(self.damaged(at, "delta chain is longer than 4095"))
    }

    fn apply(&mut self, mut chain: Vec<Link>, kind: Kind, content: &mut Vec<u8>) -> Result<(), Error> {
        let mut result = Vec::new();
        while let Some(link) = chain.pop() {
            let mut delta = std::mem::take(&mut self.delta);
            let inflated = self.inflate(link.at, link.stored.bytes(), link.size, &mut delta);
            let applied = inflated.and_then(|()| {
                let sizes = pack::delta::sizes(&delta).map_err(|error| self.damaged(link.at, error.what))?;
                check_size(sizes.result)?;
                pack::delta::apply(content, &delta, &mut result)
                    .map_err(|error| self.damaged(link.at, error.what))
            });
            self.delta = delta;
            applied?;
            std::mem::swap(content, &mut result);
            if !chain.is_empty() {
                self.cache.keep(link.at, kind, content);
            }
        }
        Ok(())
    }

    /// The header of an entry, and where its stored bytes start.
    fn entry(&self, at: Location) -> Result<(pack::EntryHeader, Stored), Error> {
        let map = self.snapshot.packs()[at.pack.0 as usize].map();
        let start = usize::try_from(at.offset).unwrap_or(usize::MAX);
        let bytes = map.get(start..).unwrap_or_default();
        let header = pack::parse_entry_header(bytes, self.snapshot.hash_kind())
            .map_err(|error| self.damaged(at, error.what))?;
        Ok((header, Stored { map: map.clone(), start: start + header.length }))
    }

    fn inflate(&mut self, at: Location, stored: &[u8], size: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        check_size(size)?;
        self.inflater.inflate_exact(stored, size as usize, out).map_err(|error| self.damaged(at, error.what))
    }

    fn base_offset(&self, at: Location, distance: u64) -> Result<u64, Error> {
        let base = at.offset.checked_sub(distance).filter(|base| *base < at.offset);
        base.ok_or_else(|| self.damaged(at, "delta base offset is out of bound"))
    }

    /// A base by name: in the same pack first, so that packs cannot be each other's bases for one object.
    fn base_by_name(&self, pack: PackIx, base: &oid) -> Option<Location> {
        let index = self.snapshot.packs()[pack.0 as usize].index();
        match index.position_of(base) {
            Some(position) => Some(Location { pack, offset: index.offset_at(position) }),
            None => self.snapshot.lookup(base).map(|ix| self.snapshot.locate(ix)),
        }
    }

    fn read_loose_base(&mut self, at: Location, base: &ObjectId) -> Result<Object, Error> {
        if self.open_loose(base)?.is_none() {
            return Err(self.damaged(at, "delta base is missing"));
        }
        self.read(base)
    }

    fn open_loose(&self, id: &oid) -> Result<Option<Mapped>, Error> {
        for path in self.snapshot.loose_paths(id) {
            match Mapped::open(&path, Role::Objects) {
                Ok(file) => return Ok(Some(file)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io(path, error)),
            }
        }
        Ok(None)
    }

    fn damaged(&self, at: Location, what: &'static str) -> Error {
        let pack = self.snapshot.packs()[at.pack.0 as usize].name().to_owned();
        Reason::DamagedEntry { pack, offset: at.offset, what }.into()
    }
}

fn check_size(size: u64) -> Result<(), Error> {
    if size > MAX_OBJECT_BYTES {
        return Err(Reason::TooLarge { size, limit: MAX_OBJECT_BYTES }.into());
    }
    Ok(())
}

/// Recently used delta bases, first in first out.
struct BaseCache {
    bases: HashMap<(u32, u64), (Kind, Vec<u8>)>,
    order: VecDeque<(u32, u64)>,
    bytes: usize,
    max_bytes: usize,
}

impl BaseCache {
    fn new(max_bytes: usize) -> Self {
        BaseCache { bases: HashMap::new(), order: VecDeque::new(), bytes: 0, max_bytes }
    }

    fn get(&self, at: Location) -> Option<(Kind, &[u8])> {
        self.bases.get(&(at.pack.0, at.offset)).map(|(kind, content)| (*kind, content.as_slice()))
    }

    fn keep(&mut self, at: Location, kind: Kind, content: &[u8]) {
        let key = (at.pack.0, at.offset);
        // A base that takes more than a quarter of the cache would push out everything else.
        if content.len() > self.max_bytes / 4 || self.bases.contains_key(&key) {
            return;
        }
        self.bytes += content.len();
        self.bases.insert(key, (kind, content.to_vec()));
        self.order.push_back(key);
        while self.bytes > self.max_bytes {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some((_, content)) = self.bases.remove(&oldest) {
                self.bytes -= content.len();
            }
        }
    }
}
