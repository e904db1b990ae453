//! A table of the pack's entries, and of the deltas of each.

use packrace_format::pack::parse_entry_header;
use packrace_format::pack_index::Entry;
use packrace_object::{HashKind, Kind, ObjectId, oid};
use packrace_store::publish::WrittenPack;

use super::error::IngestReason;

/// The number of an entry in pack order; objects that complete a thin pack come last.
pub(super) type EntryNumber = u32;

/// The base of an entry; the last values are reserved for entries without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryBase(u32);

impl EntryBase {
    /// The first reserved number; no pack can have this many entries.
    const FIRST_SPECIAL: u32 = u32::MAX - 7;
    const NAMED: EntryBase = EntryBase(u32::MAX);
    const NOWHERE: EntryBase = EntryBase(u32::MAX - 1);

    fn whole(kind: Kind) -> Self {
        EntryBase(EntryBase::FIRST_SPECIAL + kind as u32)
    }

    fn entry(self) -> Option<EntryNumber> {
        (self.0 < EntryBase::FIRST_SPECIAL).then_some(self.0)
    }
}

/// The most entries that a pack may have.
pub(super) const MAX_ENTRIES: u32 = EntryBase::FIRST_SPECIAL - 1;

/// A delta whose base is given by id (`REF_DELTA`).
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedDelta {
    pub(super) base: ObjectId,
    pub(super) entry: EntryNumber,
}

/// An entry and its id.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    pub(super) entry: EntryNumber,
    pub(super) id: ObjectId,
}

/// The entries of a pack; the ids of deltas are null until they are resolved.
#[derive(Debug)]
pub(super) struct EntryTable {
    pub(super) hash: HashKind,
    pub(super) entries: Vec<Entry>,
    bases: Vec<EntryBase>,
    pub(super) named: Vec<NamedDelta>,
    /// The end of the last entry.
    pub(super) end: u64,
}

/// For each entry, the deltas after it in the pack, as ranges of one list. The delta with the largest family
/// is last, so that the base can be dropped before descending into it.
#[derive(Debug)]
pub(super) struct Children {
    starts: Vec<u32>,
    list: Vec<EntryNumber>,
}

impl EntryTable {
    pub(super) fn new(hash: HashKind, announced: u32) -> Self {
        // The announced number is unchecked, so it reserves only a little memory.
        let room = announced.min(1 << 16) as usize;
        EntryTable {
            hash,
            entries: Vec::with_capacity(room),
            bases: Vec::with_capacity(room),
            named: Vec::new(),
            end: 0,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Adds a whole object, whose id may be set later.
    pub(super) fn push_whole(&mut self, kind: Kind, offset: u64, crc32: u32, id: ObjectId) {
        self.push(offset, crc32, id, EntryBase::whole(kind));
    }

    /// Adds a delta whose base begins at `base`, and returns the base's entry; if no entry begins there, the
    /// delta stays unresolved.
    pub(super) fn push_delta_at(&mut self, base: u64, offset: u64, crc32: u32) -> Option<EntryNumber> {
        let base = self.find(base).map_or(EntryBase::NOWHERE, |at| EntryBase(at as u32));
        self.push(offset, crc32, self.hash.null(), base);
        base.entry()
    }

    /// The entry that begins at this offset. Searches from the end, because most bases are a few entries
    /// before their deltas.
    fn find(&self, offset: u64) -> Option<usize> {
        let count = self.entries.len();
        let mut reach = 8;
        while reach < count && self.entries[count - reach].offset > offset {
            reach *= 2;
        }
        let start = count.saturating_sub(reach);
        let found = self.entries[start..].binary_search_by_key(&offset, |entry| entry.offset);
        found.ok().map(|at| start + at)
    }

    /// Adds a delta whose base is given by id.
    pub(super) fn push_named_delta(&mut self, base: &oid, offset: u64, crc32: u32) {
        self.named.push(NamedDelta { base: base.to_owned(), entry: self.len() });
        self.push(offset, crc32, self.hash.null(), EntryBase::NAMED);
    }

    /// Sets the ids of entries.
    pub(super) fn name(&mut self, named: &[Named]) {
        for Named { entry, id } in named {
            self.entries[*entry as usize].id = *id;
        }
    }

    /// Whether an entry has no id yet.
    pub(super) fn is_unnamed(&self, entry: EntryNumber) -> bool {
        self.entries[entry as usize].id.is_null()
    }

    fn push(&mut self, offset: u64, crc32: u32, id: ObjectId, base: EntryBase) {
        self.entries.push(Entry { id, crc32, offset });
        self.bases.push(base);
    }

    /// The kind of a whole object; `None` for a delta.
    pub(super) fn whole_kind(&self, entry: EntryNumber) -> Option<Kind> {
        let base = self.bases[entry as usize];
        [Kind::Commit, Kind::Tree, Kind::Blob, Kind::Tag]
            .into_iter()
            .find(|kind| base == EntryBase::whole(*kind))
    }

    /// The deflated bytes of an entry in its pack, for which `buffer` may be used, and their inflated length.
    pub(super) fn stream<'p>(
        &self,
        entry: EntryNumber,
        pack: &'p WrittenPack,
        buffer: &'p mut Vec<u8>,
    ) -> Result<(&'p [u8], u64), IngestReason> {
        let start = self.entries[entry as usize].offset;
        let end = self.entries.get(entry as usize + 1).map_or(self.end, |next| next.offset);
        let changed = || IngestReason::bad_object(start, "the pack has changed while it was read");
        let bytes = pack.range(start..end, buffer)?;
        let header = parse_entry_header(bytes, self.hash).map_err(|_| changed())?;
        Ok((&bytes[header.length..], header.size))
    }

    /// Lists the deltas of each entry; bases given by id are found when they are named. If there are none, a
    /// delta is left out if it and everything below it have ids.
    pub(super) fn children(&self) -> Children {
        let count = self.bases.len();
        let is_left = |entry: usize| !self.named.is_empty() || self.is_unnamed(entry as EntryNumber);
        let mut family: Vec<u32> = (0..count).map(|entry| is_left(entry).into()).collect();
        let mut starts = vec![0u32; count + 1];
        // Bases precede their deltas, so going backwards completes each family before it is added to its
        // base.
        for entry in (0..count).rev() {
            if let Some(base) = self.bases[entry].entry().filter(|_| family[entry] > 0) {
                family[base as usize] = family[base as usize].saturating_add(family[entry]);
                starts[base as usize + 1] += 1;
            }
        }
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut list = vec![0; starts[count] as usize];
        for (entry, base) in self.bases.iter().enumerate() {
            if let Some(base) = base.entry().filter(|_| family[entry] > 0) {
                let slot = &mut next[base as usize];
                list[*slot as usize] = entry as u32;
                *slot += 1;
            }
        }
        for base in 0..count {
            let children = &mut list[starts[base] as usize..starts[base + 1] as usize];
            if let Some(largest) = (0..children.len()).max_by_key(|at| family[children[*at] as usize]) {
                children[largest..].rotate_left(1);
            }
        }
        Children { starts, list }
    }
}

impl Children {
    /// The deltas of an entry, as a range of positions for [`Children::at`].
    pub(super) fn of(&self, entry: EntryNumber) -> std::ops::Range<u32> {
        match self.starts.get(entry as usize + 1) {
            Some(end) => self.starts[entry as usize]..*end,
            None => 0..0,
        }
    }

    pub(super) fn at(&self, position: u32) -> EntryNumber {
        self.list[position as usize]
    }
}
