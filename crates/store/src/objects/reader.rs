//! Reads whole objects, with a bounded cache of delta bases.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use packrace_format::loose_object;
use packrace_format::pack::{self, EntryHeader, EntryKind};
use packrace_format::zlib::Inflater;
use packrace_object::{Kind, ObjectId, oid};
use packrace_os::count::Role;
use packrace_os::trace::{self, TraceDetail, TraceStep};
use packrace_os::{faults, identity};

use crate::error::{Error, ErrorKind, Reason};
use crate::objects::base_cache::BaseCache;
use crate::objects::numbers::{Location, ObjectIx, PackIx};
use crate::objects::snapshot::{Snapshot, is_built_in};

/// Longest delta chain that is followed. git reads any length and makes none longer than 4,095
/// (git-pack-objects, "--depth"). This bounds the cost of a hand-made pack and ends cycles, which only bases
/// by name can form.
pub const MAX_CHAIN: usize = 65_535;

/// Most entries that are followed for one object, with those of other copies of damaged bases.
const MAX_LINKS: usize = 4 * MAX_CHAIN;

/// How many other copies of damaged bases may be read within each other: a copy may be a delta of a damaged base, too.
const MAX_NESTED: usize = 16;

/// Largest object that is read whole, whatever its header claims, unless the caller sets another limit.
const DEFAULT_MAX_OBJECT_BYTES: u64 = 1 << 32;

/// The two sizes at the start of a delta take at most ten bytes each.
const DELTA_SIZES_BYTES: usize = 20;

/// A whole object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its content.
    pub data: Vec<u8>,
}

/// Reads objects of one snapshot. Has its own buffers and cache: use one per thread.
///
/// Claimed sizes are trusted only up to a limit; below it, memory grows with the bytes actually inflated.
pub struct ObjectReader {
    snapshot: Arc<Snapshot>,
    inflater: Inflater,
    delta: Vec<u8>,
    cache: BaseCache<Location>,
    max_object_bytes: u64,
    checks_crcs: bool,
    /// The process's count of damaged maps when this snapshot's maps were last found intact.
    damaged_maps_seen: u64,
    /// Reads objects that were loose when the snapshot was made and have been packed since.
    later: Option<Box<ObjectReader>>,
    /// Damaged bases, and whether another copy was found. While one is looked for, there is none: copies can be deltas of each other.
    damaged_bases: HashMap<Location, bool>,
    /// What is left of [`MAX_LINKS`].
    links_left: usize,
    /// How many other copies are being read.
    nested: usize,
}

impl Snapshot {
    /// A reader with a delta base cache of at most `cache_bytes` (see [`cache_bytes`](crate::cache_bytes)).
    /// Use one per thread.
    pub fn reader(self: &Arc<Self>, cache_bytes: usize) -> ObjectReader {
        ObjectReader::new(self.clone(), cache_bytes)
    }
}

/// A delta of a chain.
struct ChainLink {
    at: Location,
    header: EntryHeader,
}

/// The end of a delta chain.
enum ChainEnd {
    Cached(Kind, Arc<Vec<u8>>),
    /// A whole object, or another copy of it, read into the caller's buffer.
    Read(Kind, Location),
    Loose(Kind),
}

/// What an entry is, within a chain.
enum ChainStep {
    Delta(EntryHeader, Location),
    /// A delta of a base that is in no pack and was read.
    DeltaOfLoose(EntryHeader, Kind),
    /// A whole object, which was read.
    Whole(Kind),
}

impl ObjectReader {
    fn new(snapshot: Arc<Snapshot>, cache_bytes: usize) -> Self {
        ObjectReader {
            snapshot,
            inflater: Inflater::new(),
            delta: Vec::new(),
            cache: BaseCache::new(cache_bytes),
            max_object_bytes: DEFAULT_MAX_OBJECT_BYTES,
            checks_crcs: false,
            damaged_maps_seen: 0,
            later: None,
            damaged_bases: HashMap::new(),
            links_left: MAX_LINKS,
            nested: 0,
        }
    }

    /// Refuses objects, and deltas on the way to them, that are larger.
    pub fn with_max_object_bytes(mut self, max_object_bytes: u64) -> Self {
        self.max_object_bytes = max_object_bytes;
        self
    }

    /// Compares each entry that is read with its checksum in the pack's index: for contents that are stored again under
    /// the names that they have. zlib's checksum covers neither the kind of an object nor the base of a delta. Indexes of
    /// version 1 have no checksums.
    pub fn checking_crcs(mut self) -> Self {
        self.checks_crcs = true;
        self
    }

    /// Reads the object of this name, packed or loose.
    pub fn read(&mut self, id: &oid) -> Result<Object, Error> {
        let mut data = Vec::new();
        let id = &*self.snapshot.replacement(id)?;
        let kind = match self.snapshot.lookup(id) {
            Some(ix) => self.read_at(ix, &mut data)?,
            None => {
                let unpacked = self.read_unpacked(id, &mut data);
                self.checked(unpacked)?.ok_or_else(|| Reason::Missing(id.to_owned()))?
            }
        };
        Ok(Object { kind, data })
    }

    /// `found`, unless a file of the snapshot is damaged: the result may then come from zeros.
    #[inline]
    fn checked<T>(&mut self, found: Result<T, Error>) -> Result<T, Error> {
        if faults::damaged_maps() == self.damaged_maps_seen { found } else { self.check_maps().and(found) }
    }

    #[cold]
    fn check_maps(&mut self) -> Result<(), Error> {
        let damaged_maps = faults::damaged_maps();
        self.snapshot.check_maps()?;
        self.damaged_maps_seen = damaged_maps;
        Ok(())
    }

    /// Replaces `content` by that of a packed object. If it or a delta base is damaged, another copy is used if there is
    /// one, as in git. After an error, `content` is empty.
    pub fn read_at(&mut self, ix: ObjectIx, content: &mut Vec<u8>) -> Result<Kind, Error> {
        self.links_left = MAX_LINKS;
        let at = self.snapshot.locate(ix);
        let result = match self.read_location(at, content) {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let id = self.snapshot.id(ix).to_owned();
                self.read_copy(&id, at, error, content)
            }
            result => result,
        };
        let result = self.checked(result);
        if result.is_err() {
            content.clear();
        }
        result
    }

    /// The kind and size of an object, without inflating all of it; `None` if there is no such object.
    pub fn kind_and_size(&mut self, id: &oid) -> Result<Option<(Kind, u64)>, Error> {
        self.kind_and_size_of(id, false)
    }

    /// The kind of an object that a ref is to point at. A loose commit or tag is inflated whole: a killed process or a power
    /// cut may have left half of its file.
    pub(crate) fn kind_of_whole(&mut self, id: &oid) -> Result<Option<Kind>, Error> {
        Ok(self.kind_and_size_of(id, true)?.map(|(kind, _)| kind))
    }

    fn kind_and_size_of(&mut self, id: &oid, is_whole: bool) -> Result<Option<(Kind, u64)>, Error> {
        let id = &*self.snapshot.replacement(id)?;
        let found = self.find_kind_and_size(id, is_whole);
        self.checked(found)
    }

    fn find_kind_and_size(&mut self, id: &oid, is_whole: bool) -> Result<Option<(Kind, u64)>, Error> {
        if let Some(ix) = self.snapshot.lookup(id) {
            let found = self.packed_kind_and_size(self.snapshot.locate(ix));
            return match found {
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    let mut content = Vec::new();
                    let kind = self.read_at(ix, &mut content)?;
                    Ok(Some((kind, content.len() as u64)))
                }
                found => found.map(Some),
            };
        }
        if let Some(file) = self.snapshot.open_loose(id)? {
            let mut header = self.loose_header(id, &file);
            if is_whole && matches!(&header, Ok(header) if matches!(header.kind, Kind::Commit | Kind::Tag)) {
                let inflated = self.inflate_loose(id, &file, &mut Vec::new());
                header = inflated.and(header);
            }
            file.check()?;
            let header = header?;
            return Ok(Some((header.kind, header.size)));
        }
        match self.later_reader(id)? {
            Some(later) => later.kind_and_size_of(id, is_whole),
            None => Ok(is_built_in(id).then_some((Kind::Tree, 0))),
        }
    }

    /// The kind of an object, for a packed one from entry headers alone; `None` if there is no such object.
    pub fn kind(&mut self, id: &oid) -> Result<Option<Kind>, Error> {
        if let Some(ix) = self.snapshot.lookup(&self.snapshot.replacement(id)?) {
            let mut at = self.snapshot.locate(ix);
            for _ in 0..=MAX_CHAIN {
                match self.entry(at).map(|header| header.kind) {
                    Ok(EntryKind::Object(kind)) => return self.checked(Ok(Some(kind))),
                    Ok(EntryKind::OfsDelta { distance }) => match self.base_offset(at, distance) {
                        Ok(offset) => at.offset = offset,
                        Err(_) => break,
                    },
                    Ok(EntryKind::RefDelta { base }) => match self.base_by_name(at.pack, &base) {
                        Some(location) => at = location,
                        None => break,
                    },
                    Err(_) => break,
                }
            }
        }
        // Loose, damaged, or a delta whose base is loose.
        Ok(self.kind_and_size(id)?.map(|(kind, _)| kind))
    }

    /// The size of a packed object. Reads only its entry, so the cost does not depend on the delta chain.
    pub fn size_at(&mut self, ix: ObjectIx) -> Result<u64, Error> {
        let at = self.snapshot.locate(ix);
        let found = self.entry(at).and_then(|header| match header.kind {
            EntryKind::Object(_) => Ok(header.size),
            _ => self.result_size(at, &header),
        });
        match found {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let mut content = Vec::new();
                self.read_at(ix, &mut content)?;
                Ok(content.len() as u64)
            }
            found => self.checked(found),
        }
    }

    fn packed_kind_and_size(&mut self, at: Location) -> Result<(Kind, u64), Error> {
        let (mut at, mut size) = (at, None);
        for _ in 0..=MAX_CHAIN {
            let header = self.entry(at)?;
            if size.is_none() && !matches!(header.kind, EntryKind::Object(_)) {
                size = Some(self.result_size(at, &header)?);
            }
            match header.kind {
                EntryKind::Object(kind) => return Ok((kind, size.unwrap_or(header.size))),
                EntryKind::OfsDelta { distance } => at.offset = self.base_offset(at, distance)?,
                EntryKind::RefDelta { base } => match self.base_by_name(at.pack, &base) {
                    Some(location) => at = location,
                    None => {
                        let mut content = Vec::new();
                        let kind = self.read_unpacked(&base, &mut content)?;
                        let kind = kind.ok_or_else(|| self.damaged(at, "delta base is missing"))?;
                        return Ok((kind, size.unwrap_or(header.size)));
                    }
                },
            }
        }
        Err(self.damaged(at, "delta chain is longer than 65535"))
    }

    /// Reads an object without a number: a loose one, or one that was loose when the snapshot was made.
    fn read_unpacked(&mut self, id: &oid, content: &mut Vec<u8>) -> Result<Option<Kind>, Error> {
        content.clear();
        if let Some(file) = self.snapshot.open_loose(id)? {
            let kind = self.inflate_loose(id, &file, content);
            file.check()?;
            return kind.map(Some);
        }
        match self.later_reader(id)? {
            Some(later) => {
                let object = later.read(id)?;
                *content = object.data;
                Ok(Some(object.kind))
            }
            None => Ok(is_built_in(id).then_some(Kind::Tree)),
        }
    }

    fn loose_header(&mut self, id: &oid, file: &[u8]) -> Result<loose_object::Header, Error> {
        loose_object::inflate_header(&mut self.inflater, file)
            .map_err(|error| damaged_loose(&self.snapshot, id, error, true))
    }

    fn inflate_loose(&mut self, id: &oid, file: &[u8], content: &mut Vec<u8>) -> Result<Kind, Error> {
        let size = self.loose_header(id, file)?.size;
        self.check_size(size)?;
        loose_object::inflate(&mut self.inflater, file, content)
            .map_err(|error| damaged_loose(&self.snapshot, id, error, false))
    }

    /// Tries the other copies of the object; `error` is the fault of the first.
    fn read_copy(
        &mut self,
        id: &oid,
        damaged: Location,
        error: Error,
        content: &mut Vec<u8>,
    ) -> Result<Kind, Error> {
        match self.read_elsewhere(id, damaged, content) {
            Some(kind) => {
                tracing::error!("{error}");
                Ok(kind)
            }
            None => {
                let pack = &self.snapshot.packs()[damaged.pack.0 as usize];
                let base = |offset| {
                    let ix = self.snapshot.ix_of_offset(damaged.pack, offset);
                    ix.filter(|_| offset != damaged.offset).map(|ix| self.snapshot.id(ix).to_owned())
                };
                Err(error.of_packed(id.to_owned(), pack.path(), base))
            }
        }
    }

    /// Reads an object that is damaged here.
    fn read_elsewhere(&mut self, id: &oid, damaged: Location, content: &mut Vec<u8>) -> Option<Kind> {
        let copies: Vec<Location> = self.snapshot.copies(id).filter(|copy| *copy != damaged).collect();
        for copy in copies {
            if let Ok(kind) = self.read_location(copy, content) {
                return Some(kind);
            }
        }
        self.read_unpacked(id, content).ok().flatten()
    }

    /// Reads another copy of the damaged base at `at`, or else of the nearest object above it in the chain that has one: gives
    /// its location and kind, and leaves in `chain` what is above it. `error` is what is wrong with the base.
    fn rescue(
        &mut self,
        mut at: Location,
        chain: &mut Vec<ChainLink>,
        error: Error,
        content: &mut Vec<u8>,
    ) -> Result<(Location, Kind), Error> {
        // The first link is the object that is asked for.
        while error.kind() == ErrorKind::Corrupt && !chain.is_empty() {
            if let Some(kind) = self.read_other_base(at, &error, content) {
                return Ok((at, kind));
            }
            match chain.pop() {
                Some(link) => at = link.at,
                None => break,
            }
        }
        Err(error)
    }

    fn read_other_base(&mut self, at: Location, error: &Error, content: &mut Vec<u8>) -> Option<Kind> {
        let known = self.damaged_bases.get(&at).copied();
        if known == Some(false) || self.nested == MAX_NESTED {
            return None;
        }
        let ix = self.snapshot.ix_of_offset(at.pack, at.offset)?;
        let id = self.snapshot.id(ix).to_owned();
        self.damaged_bases.insert(at, false);
        self.nested += 1;
        let found = self.read_elsewhere(&id, at, content);
        self.nested -= 1;
        if found.is_some() {
            self.damaged_bases.insert(at, true);
            if known.is_none() {
                tracing::error!("{error}");
            }
        }
        found
    }

    fn read_location(&mut self, at: Location, content: &mut Vec<u8>) -> Result<Kind, Error> {
        if trace::wants(TraceDetail::PackAccesses) {
            let pack = self.snapshot.packs()[at.pack.0 as usize].path();
            let line = format!("{} {}", pack.display(), at.offset);
            trace::tell(TraceStep::Detail(TraceDetail::PackAccesses, &line));
        }
        let (mut chain, base) = self.follow(at, content)?;
        let (mut kind, mut current) = match base {
            ChainEnd::Cached(kind, cached) if chain.is_empty() => {
                content.clear();
                content.extend_from_slice(&cached);
                return Ok(kind);
            }
            ChainEnd::Read(kind, _) | ChainEnd::Loose(kind) if chain.is_empty() => return Ok(kind),
            ChainEnd::Cached(kind, cached) => (kind, cached),
            ChainEnd::Loose(kind) => (kind, Arc::new(std::mem::take(content))),
            ChainEnd::Read(kind, at) => {
                let content = Arc::new(std::mem::take(content));
                self.cache.keep(at, kind, &content);
                (kind, content)
            }
        };
        while let Some(link) = chain.pop() {
            if chain.is_empty() {
                self.apply(&link, &current, content)?;
                break;
            }
            let mut result = Vec::new();
            let mut at = link.at;
            if let Err(error) = self.apply(&link, &current, &mut result) {
                (at, kind) = self.rescue(at, &mut chain, error, &mut result)?;
            }
            current = Arc::new(result);
            self.cache.keep(at, kind, &current);
        }
        Ok(kind)
    }

    /// Follows a delta chain to its end, or to a damaged base of which there is another copy.
    fn follow(&mut self, at: Location, content: &mut Vec<u8>) -> Result<(Vec<ChainLink>, ChainEnd), Error> {
        let mut at = at;
        let mut chain: Vec<ChainLink> = Vec::new();
        loop {
            if let Some((kind, cached)) = self.cache.get(at) {
                return Ok((chain, ChainEnd::Cached(kind, cached)));
            }
            if chain.len() > MAX_CHAIN || self.links_left == 0 {
                return Err(self.damaged(at, "delta chain is longer than 65535"));
            }
            self.links_left -= 1;
            match self.step(at, content) {
                Ok(ChainStep::Whole(kind)) => return Ok((chain, ChainEnd::Read(kind, at))),
                Ok(ChainStep::Delta(header, base)) => {
                    chain.push(ChainLink { at, header });
                    at = base;
                }
                Ok(ChainStep::DeltaOfLoose(header, kind)) => {
                    chain.push(ChainLink { at, header });
                    return Ok((chain, ChainEnd::Loose(kind)));
                }
                Err(error) => {
                    let (at, kind) = self.rescue(at, &mut chain, error, content)?;
                    return Ok((chain, ChainEnd::Read(kind, at)));
                }
            }
        }
    }

    /// One entry of a chain.
    fn step(&mut self, at: Location, content: &mut Vec<u8>) -> Result<ChainStep, Error> {
        let header = self.entry(at)?;
        match header.kind {
            EntryKind::Object(kind) => {
                self.inflate(at, &header, content)?;
                Ok(ChainStep::Whole(kind))
            }
            EntryKind::OfsDelta { distance } => {
                let offset = self.base_offset(at, distance)?;
                Ok(ChainStep::Delta(header, Location { offset, ..at }))
            }
            EntryKind::RefDelta { base } => match self.base_by_name(at.pack, &base) {
                Some(location) => Ok(ChainStep::Delta(header, location)),
                None => {
                    let kind = self.read_unpacked(&base, content)?;
                    let kind = kind.ok_or_else(|| self.damaged(at, "delta base is missing"))?;
                    Ok(ChainStep::DeltaOfLoose(header, kind))
                }
            },
        }
    }

    /// Applies a delta to its base, into `result`.
    fn apply(&mut self, link: &ChainLink, base: &[u8], result: &mut Vec<u8>) -> Result<(), Error> {
        let mut delta = std::mem::take(&mut self.delta);
        let applied = self.inflate(link.at, &link.header, &mut delta).and_then(|()| {
            let sizes = pack::delta::sizes(&delta).map_err(|error| self.damaged(link.at, error.what))?;
            self.check_size(sizes.result)?;
            pack::delta::apply(base, &delta, result).map_err(|error| self.damaged(link.at, error.what))
        });
        self.delta = delta;
        applied
    }

    /// The size of a delta's result.
    fn result_size(&mut self, at: Location, header: &EntryHeader) -> Result<u64, Error> {
        let mut start = std::mem::take(&mut self.delta);
        let stored = stored(&self.snapshot, at, header);
        let inflated = self.inflater.inflate_prefix(stored, DELTA_SIZES_BYTES, &mut start);
        let sizes = inflated.and_then(|()| pack::delta::sizes(&start));
        self.delta = start;
        Ok(sizes.map_err(|error| self.damaged(at, error.what))?.result)
    }

    /// The header of an entry.
    fn entry(&self, at: Location) -> Result<EntryHeader, Error> {
        let bytes = self.snapshot.packs()[at.pack.0 as usize].bytes();
        let bytes = usize::try_from(at.offset).ok().and_then(|start| bytes.get(start..));
        let bytes = bytes.ok_or_else(|| self.damaged(at, "offset is beyond the end of the pack"))?;
        pack::parse_entry_header(bytes, self.snapshot.hash_kind())
            .map_err(|error| self.damaged(at, error.what))
    }

    fn inflate(&mut self, at: Location, header: &EntryHeader, out: &mut Vec<u8>) -> Result<(), Error> {
        self.check_size(header.size)?;
        if self.checks_crcs {
            self.check_crc(at)?;
        }
        let stored = stored(&self.snapshot, at, header);
        self.inflater.inflate_exact(stored, header.size as usize, out).map_err(|error| {
            let pack = self.snapshot.packs()[at.pack.0 as usize].name().to_owned();
            let is_delta = !matches!(header.kind, EntryKind::Object(_));
            let delta_at = is_delta.then_some(at.offset + header.length as u64);
            Reason::DamagedEntry { pack, offset: at.offset, what: error.what, delta_at }.into()
        })
    }

    fn check_crc(&self, at: Location) -> Result<(), Error> {
        match self.snapshot.packs()[at.pack.0 as usize].check_crc(at.offset) {
            None => Err(self.damaged(at, "the entry is not in the index")),
            Some(Err(id)) => Err(Reason::BadCrc(id).into()),
            Some(Ok(())) => Ok(()),
        }
    }

    fn base_offset(&self, at: Location, distance: u64) -> Result<u64, Error> {
        let base = at.offset.checked_sub(distance).filter(|base| *base < at.offset);
        base.ok_or_else(|| self.damaged(at, "delta base offset is out of bound"))
    }

    /// A delta base by name: the same pack is preferred, so that packs cannot contain each other's bases
    /// for one object.
    fn base_by_name(&self, pack: PackIx, base: &oid) -> Option<Location> {
        let index = self.snapshot.packs()[pack.0 as usize].index();
        match index.position_of(base) {
            Some(position) => Some(Location { pack, offset: index.offset_at(position) }),
            None => self.snapshot.lookup(base).map(|ix| self.snapshot.locate(ix)),
        }
    }

    /// A reader of packs added since the snapshot was made, if they have this object.
    fn later_reader(&mut self, id: &oid) -> Result<Option<&mut ObjectReader>, Error> {
        let later = match self.snapshot.later_with(id)? {
            Some(later) => later,
            None => match self.snapshot.fetch_one(id)? {
                Some(fetched) => fetched,
                None => return Ok(None),
            },
        };
        let is_current = self.later.as_ref().is_some_and(|reader| Arc::ptr_eq(&reader.snapshot, &later));
        if !is_current {
            let reader = later.reader(self.cache.max_bytes());
            let mut reader = reader.with_max_object_bytes(self.max_object_bytes);
            reader.checks_crcs = self.checks_crcs;
            self.later = Some(Box::new(reader));
        }
        Ok(self.later.as_deref_mut())
    }

    fn check_size(&self, size: u64) -> Result<(), Error> {
        if size > self.max_object_bytes || usize::try_from(size).is_err() {
            return Err(Reason::TooLarge { size, limit: self.max_object_bytes }.into());
        }
        Ok(())
    }

    fn damaged(&self, at: Location, what: &'static str) -> Error {
        let pack = self.snapshot.packs()[at.pack.0 as usize].name().to_owned();
        Reason::DamagedEntry { pack, offset: at.offset, what, delta_at: None }.into()
    }
}

/// The compressed bytes of an entry, after its header; inflating finds their end.
fn stored<'a>(snapshot: &'a Snapshot, at: Location, header: &EntryHeader) -> &'a [u8] {
    &snapshot.packs()[at.pack.0 as usize].bytes()[at.offset as usize + header.length..]
}

/// The error names the file that was read, which is the first of this object.
pub(crate) fn damaged_loose(
    snapshot: &Snapshot,
    id: &oid,
    error: packrace_format::Error,
    is_header: bool,
) -> Error {
    let is_there = |path: &PathBuf| identity(path, Role::Objects).is_ok_and(|found| found.is_some());
    let path = snapshot.loose_paths(id).find(is_there).unwrap_or_default();
    Reason::DamagedLoose { id: ObjectId::from(id), path, what: error.what, is_header }.into()
}
