//! Finds which of many indexes has an object: docs/decisions/0035-many-packs.md.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, OnceLock};

use packrace_format::multi_pack_index::MultiPackIndexChain;
use packrace_object::oid;
use packrace_os::Mapped;

use crate::objects::pack::PackFiles;

/// Minimum number of indexes for which a table is built.
const LEAST_INDEXES: usize = 4;

/// A table is built after this many index searches per object in it. While an index is in the processor's
/// cache, a search takes 10 ns and adding an object some 70 ns; otherwise a search takes 100 ns.
const PROBES_AN_OBJECT: u64 = 2;

/// A table is rebuilt when more indexes than this are not in it.
const MOST_BESIDE: usize = 32;

/// Maximum number of objects in a table, which takes about 10 bytes each.
const MOST_OBJECTS: u64 = 1 << 25;

/// Memory limit for all tables of a process. Beyond it, indexes are searched one after the other.
const MOST_BYTES: usize = 1 << 30;

/// Bytes used by all tables.
static TABLE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Secret, so that an attacker cannot choose names that fall into one bucket.
static KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0u8) | 1);

/// The index of one pack or of many.
#[derive(Debug, Clone)]
pub(crate) enum Index {
    Pack(Arc<PackFiles>),
    Multi(Arc<MultiPackIndexChain<Mapped>>),
}

impl Index {
    /// How many numbers its objects get.
    fn room(&self) -> u32 {
        match self {
            Index::Pack(files) => files.room(),
            Index::Multi(index) => index.len(),
        }
    }

    /// Number of objects. Opens the index.
    fn len(&self) -> u32 {
        match self {
            Index::Pack(files) => files.index().len(),
            Index::Multi(index) => index.len(),
        }
    }

    #[inline]
    fn position_of(&self, id: &oid) -> Option<u32> {
        match self {
            Index::Pack(files) => files.index().position_of(id),
            Index::Multi(index) => index.position_of(id),
        }
    }

    #[inline]
    fn id_at(&self, position: u32) -> &oid {
        match self {
            Index::Pack(files) => files.index().id_at(position),
            Index::Multi(index) => index.id_at(position),
        }
    }

    /// Whether it was gone when first searched.
    fn is_lost(&self) -> bool {
        match self {
            Index::Pack(files) => files.has_lost_index(),
            Index::Multi(_) => false,
        }
    }

    fn is_same(&self, other: &Index) -> bool {
        match (self, other) {
            (Index::Pack(one), Index::Pack(other)) => Arc::ptr_eq(one, other),
            (Index::Multi(one), Index::Multi(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// A sequence of indexes. Their objects are numbered consecutively; numbers that an index does not
/// need are unused.
#[derive(Debug, Clone)]
struct IndexRow {
    indexes: Vec<Index>,
    /// The first number of each index, and the end of the last.
    starts: Vec<u32>,
}

impl IndexRow {
    fn new(indexes: Vec<Index>) -> Self {
        let mut starts = vec![0u32];
        for index in &indexes {
            // The numbering of all indexes has already checked for overflow.
            starts.push(starts[starts.len() - 1].saturating_add(index.room()));
        }
        IndexRow { indexes, starts }
    }

    fn room(&self) -> u32 {
        self.starts[self.indexes.len()]
    }

    /// The first number of an object of this name, searching the indexes in order.
    fn search(&self, id: &oid) -> Option<u32> {
        self.search_counted(id).0
    }

    /// As above, with the number of indexes searched.
    fn search_counted(&self, id: &oid) -> (Option<u32>, usize) {
        let found =
            self.indexes.iter().enumerate().find_map(|(at, index)| Some((at, index.position_of(id)?)));
        match found {
            Some((at, position)) => (Some(self.starts[at] + position), at + 1),
            None => (None, self.indexes.len()),
        }
    }

    /// How many indexes were gone when first searched.
    fn lost(&self) -> usize {
        self.indexes.iter().filter(|index| index.is_lost()).count()
    }

    #[inline]
    fn id_at(&self, number: u32) -> &oid {
        let at = self.starts.partition_point(|start| *start <= number) - 1;
        self.indexes[at].id_at(number - self.starts[at])
    }
}

/// Finds objects in the indexes of a directory: the number in the first index that has it.
#[derive(Debug)]
pub(crate) struct Finder {
    /// Indexes that are not in the table, except `apart`.
    front: IndexRow,
    /// All other indexes.
    rest: IndexRow,
    /// The multi-pack-index, or an index with most of the objects: searched separately.
    apart: Option<Apart>,
    /// For `rest`; the inner `None` means that no table can be built.
    table: OnceLock<Option<Arc<FinderTable>>>,
    /// Index searches so far.
    probes: AtomicU64,
    is_building: AtomicBool,
}

#[derive(Debug)]
struct Apart {
    index: Index,
    /// The number of its first object; later indexes are shifted by its room.
    start: u32,
    room: u32,
}

impl Finder {
    /// A finder for these indexes, in search order. The table of `before` is reused if only leading
    /// indexes are new.
    pub(crate) fn new(indexes: &[Index], before: Option<&Finder>) -> Self {
        let total: u64 = indexes.iter().map(|index| u64::from(index.room())).sum();
        let is_apart = |index: &Index| {
            matches!(index, Index::Multi(_)) || u64::from(index.room()) * 2 > total && indexes.len() > 1
        };
        let at = indexes.iter().position(is_apart);
        let apart = at.map(|at| Apart {
            start: indexes[..at].iter().fold(0u32, |sum, index| sum.saturating_add(index.room())),
            room: indexes[at].room(),
            index: indexes[at].clone(),
        });
        let others = indexes.iter().enumerate().filter(|(number, _)| Some(*number) != at);
        let mut others: Vec<Index> = others.map(|(_, index)| index.clone()).collect();
        let extended = before.and_then(|before| {
            let table = before.table.get()?.as_ref()?;
            let front = others.len().checked_sub(table.row.indexes.len())?;
            let same = others[front..].iter().zip(&table.row.indexes).all(|(one, other)| one.is_same(other));
            (same && front <= MOST_BESIDE).then(|| (front, table.clone()))
        });
        let (front, rest, table) = match extended {
            Some((front, table)) => {
                others.truncate(front);
                (IndexRow::new(others), table.row.clone(), OnceLock::from(Some(table)))
            }
            None => (IndexRow::new(Vec::new()), IndexRow::new(others), OnceLock::new()),
        };
        Finder { front, rest, apart, table, probes: AtomicU64::new(0), is_building: AtomicBool::new(false) }
    }

    /// The number of the object in the first index that has it.
    #[inline]
    pub(crate) fn find(&self, id: &oid) -> Option<u32> {
        let Some(apart) = &self.apart else { return self.find_in_rows(id) };
        if self.rest.indexes.is_empty() && self.front.indexes.is_empty() {
            return apart.index.position_of(id);
        }
        match self.find_in_rows(id) {
            Some(number) if number < apart.start => Some(number),
            found => match apart.index.position_of(id) {
                Some(position) => Some(apart.start + position),
                None => found.map(|number| number + apart.room),
            },
        }
    }

    /// How many indexes searched for a missing object were gone. Cheaper than that search.
    pub(crate) fn lost(&self) -> usize {
        let rest = match self.table.get() {
            Some(Some(table)) => table.lost,
            _ => self.rest.lost(),
        };
        let apart = self.apart.iter().filter(|apart| apart.index.is_lost()).count();
        rest + self.front.lost() + apart
    }

    fn find_in_rows(&self, id: &oid) -> Option<u32> {
        let found = self.front.search(id);
        if found.is_some() {
            return found;
        }
        let found = match self.table.get() {
            Some(Some(table)) => table.find(id),
            Some(None) => self.rest.search(id),
            None => self.search_and_count(id),
        };
        Some(self.front.room() + found?)
    }

    fn search_and_count(&self, id: &oid) -> Option<u32> {
        let (found, searched) = self.rest.search_counted(id);
        if self.rest.indexes.len() >= LEAST_INDEXES {
            let probes = self.probes.fetch_add(searched as u64, Relaxed);
            let is_worth_it = probes > u64::from(self.rest.room()) * PROBES_AN_OBJECT;
            if is_worth_it && !self.is_building.swap(true, Relaxed) {
                self.table.get_or_init(|| FinderTable::build(self.rest.clone()).map(Arc::new));
            }
        }
        found
    }
}

/// The first number of each object of some indexes, by the hash of its name.
#[derive(Debug)]
struct FinderTable {
    row: IndexRow,
    /// Shifts a hash so that its top bits give the bucket number.
    shift: u32,
    /// The start of each bucket, and the end of the last.
    buckets: Vec<u32>,
    entries: Vec<TableEntry>,
    bytes: usize,
    /// How many indexes were gone.
    lost: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct TableEntry {
    /// More bits of the hash.
    tag: u32,
    number: u32,
}

/// The hash of a name. Names are already evenly distributed hashes, unless an attacker chose them.
#[inline]
fn hash_of(id: &oid) -> u64 {
    let mut head = [0; 8];
    head.copy_from_slice(&id.as_bytes()[..8]);
    let product = u128::from(u64::from_be_bytes(head) ^ *KEY) * u128::from(*KEY);
    (product >> 64) as u64 ^ product as u64
}

impl FinderTable {
    /// `None` if it would need too much memory.
    fn build(row: IndexRow) -> Option<Self> {
        let objects: u64 = row.indexes.iter().map(|index| u64::from(index.len())).sum();
        if objects > MOST_OBJECTS {
            return None;
        }
        // About four per bucket: half a cache line.
        let bits = (objects / 4).max(2).ilog2();
        let bytes = (objects as usize + 1) * size_of::<TableEntry>() + ((1 << bits) + 1) * size_of::<u32>();
        if TABLE_BYTES.fetch_add(bytes, Relaxed) + bytes > MOST_BYTES {
            TABLE_BYTES.fetch_sub(bytes, Relaxed);
            tracing::warn!("lookup table for {objects} packed objects not built: tables use too much memory");
            return None;
        }
        let shift = 64 - bits;
        let lost = row.lost();
        let mut table =
            FinderTable { row, lost, shift, buckets: vec![0; (1 << bits) + 1], entries: Vec::new(), bytes };
        let hashes = |row: &IndexRow, each: &mut dyn FnMut(u32, u64)| {
            for (index, start) in row.indexes.iter().zip(&row.starts) {
                (0..index.len()).for_each(|position| each(start + position, hash_of(index.id_at(position))));
            }
        };
        let FinderTable { row, buckets, entries, .. } = &mut table;
        hashes(row, &mut |_, hash| buckets[(hash >> shift) as usize + 1] += 1);
        for at in 1..buckets.len() {
            buckets[at] += buckets[at - 1];
        }
        // The first of several copies stays: entries arrive in index order.
        let mut ends: Vec<u32> = buckets[..buckets.len() - 1].to_vec();
        entries.resize(objects as usize, TableEntry::default());
        hashes(row, &mut |number, hash| {
            let bucket = (hash >> shift) as usize;
            let (start, end) = (buckets[bucket] as usize, ends[bucket] as usize);
            let tag = hash as u32;
            let is_known = entries[start..end]
                .iter()
                .any(|entry| entry.tag == tag && row.id_at(entry.number) == row.id_at(number));
            if !is_known {
                entries[end] = TableEntry { tag, number };
                ends[bucket] += 1;
            }
        });
        // Unused slots of a bucket get a number that no object has.
        for (bucket, end) in ends.into_iter().enumerate() {
            let rest = end as usize..buckets[bucket + 1] as usize;
            entries[rest].fill(TableEntry { tag: 0, number: u32::MAX });
        }
        Some(table)
    }

    #[inline]
    fn find(&self, id: &oid) -> Option<u32> {
        if id.as_bytes().len() < 8 {
            return None;
        }
        let hash = hash_of(id);
        let bucket = (hash >> self.shift) as usize;
        let entries = &self.entries[self.buckets[bucket] as usize..self.buckets[bucket + 1] as usize];
        let tag = hash as u32;
        for entry in entries {
            if entry.number == u32::MAX {
                return None;
            }
            if entry.tag == tag && *self.row.id_at(entry.number) == *id {
                return Some(entry.number);
            }
        }
        None
    }
}

impl Drop for FinderTable {
    fn drop(&mut self) {
        TABLE_BYTES.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests;
