//! Which of many indexes has an object: docs/decisions/0035-many-packs.md.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, OnceLock};

use packrace_format::multi_pack_index::MultiPackIndex;
use packrace_object::oid;
use packrace_os::Mapped;

use crate::objects::pack::PackFiles;

/// From so many indexes on a table may be made of them.
const LEAST_INDEXES: usize = 4;

/// A table is made once so many indexes were searched for each object that it will have. While an index is in the processor's
/// cache, to search it takes 10 ns, and to add an object some 70; when it is not, 100 ns.
const PROBES_AN_OBJECT: u64 = 2;

/// An extended table is made anew once so many indexes have come that are not in it.
const MOST_BESIDE: usize = 32;

/// Most objects of a table, which takes about 10 bytes for each.
const MOST_OBJECTS: u64 = 1 << 25;

/// Memory that all tables of a process take together. Beyond it none is made, and indexes are searched one after the other.
const MOST_BYTES: usize = 1 << 30;

/// What all tables take.
static TABLE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Nobody outside knows it, so that nobody can choose names which fall into one bucket.
static KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0u8) | 1);

/// The index of a pack or of many.
#[derive(Debug, Clone)]
pub(crate) enum Index {
    Pack(Arc<PackFiles>),
    Multi(Arc<MultiPackIndex<Mapped>>),
}

impl Index {
    /// How many numbers its objects get.
    fn room(&self) -> u32 {
        match self {
            Index::Pack(files) => files.room(),
            Index::Multi(index) => index.len(),
        }
    }

    /// How many objects it has. Opens it.
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

    /// Whether it was gone when it was first searched.
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

/// Some indexes, one after the other. Their objects are counted through; numbers that an index does not need are of no object.
#[derive(Debug, Clone)]
struct IndexRow {
    indexes: Vec<Index>,
    /// Where each begins, and where the last ends.
    starts: Vec<u32>,
}

impl IndexRow {
    fn new(indexes: Vec<Index>) -> Self {
        let mut starts = vec![0u32];
        for index in &indexes {
            // Whoever numbers all of them has seen that they are not too many.
            starts.push(starts[starts.len() - 1].saturating_add(index.room()));
        }
        IndexRow { indexes, starts }
    }

    fn room(&self) -> u32 {
        self.starts[self.indexes.len()]
    }

    /// The first number of an object of this name, from one index after the other.
    fn search(&self, id: &oid) -> Option<u32> {
        self.search_counted(id).0
    }

    /// The same, and how many indexes were searched.
    fn search_counted(&self, id: &oid) -> (Option<u32>, usize) {
        let found =
            self.indexes.iter().enumerate().find_map(|(at, index)| Some((at, index.position_of(id)?)));
        match found {
            Some((at, position)) => (Some(self.starts[at] + position), at + 1),
            None => (None, self.indexes.len()),
        }
    }

    /// How many indexes were gone when they were first searched.
    fn lost(&self) -> usize {
        self.indexes.iter().filter(|index| index.is_lost()).count()
    }

    #[inline]
    fn id_at(&self, number: u32) -> &oid {
        let at = self.starts.partition_point(|start| *start <= number) - 1;
        self.indexes[at].id_at(number - self.starts[at])
    }
}

/// Finds objects in the indexes of a directory, and says of each the number in the first that has it.
#[derive(Debug)]
pub(crate) struct Finder {
    /// Indexes that the table does not have, but for the one that is apart.
    front: IndexRow,
    /// All others.
    rest: IndexRow,
    /// One that has most objects, or that of many packs: it is searched by itself.
    apart: Option<Apart>,
    /// Of `rest`; `None` inside where there can be none.
    table: OnceLock<Option<Arc<FinderTable>>>,
    /// Indexes that were searched.
    probes: AtomicU64,
    is_building: AtomicBool,
}

#[derive(Debug)]
struct Apart {
    index: Index,
    /// The number of its first object: what comes behind it has numbers that are higher by its room.
    start: u32,
    room: u32,
}

impl Finder {
    /// Of these indexes, in the order in which they are searched; `before` found objects in some of them, and its table is
    /// used on if none but the first are new.
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

    /// How many of the indexes that were searched for what is nowhere were gone. Costs less than that search.
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

/// The first number of each object of some indexes, by a hash of its name.
#[derive(Debug)]
struct FinderTable {
    row: IndexRow,
    /// The first bits of a hash are the number of a bucket.
    shift: u32,
    /// Where each bucket begins, and where the last ends.
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

/// Where an object belongs: names are hashes already, and evenly spread but for what somebody has chosen.
#[inline]
fn hash_of(id: &oid) -> u64 {
    let mut head = [0; 8];
    head.copy_from_slice(&id.as_bytes()[..8]);
    let product = u128::from(u64::from_be_bytes(head) ^ *KEY) * u128::from(*KEY);
    (product >> 64) as u64 ^ product as u64
}

impl FinderTable {
    /// `None` if it would take too much memory.
    fn build(row: IndexRow) -> Option<Self> {
        let objects: u64 = row.indexes.iter().map(|index| u64::from(index.len())).sum();
        if objects > MOST_OBJECTS {
            return None;
        }
        // Some four to a bucket, which is half a line of the processor's cache.
        let bits = (objects / 4).max(2).ilog2();
        let bytes = (objects as usize + 1) * size_of::<TableEntry>() + ((1 << bits) + 1) * size_of::<u32>();
        if TABLE_BYTES.fetch_add(bytes, Relaxed) + bytes > MOST_BYTES {
            TABLE_BYTES.fetch_sub(bytes, Relaxed);
            tracing::warn!("no table of {objects} packed objects is made: all tables take too much memory");
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
        // Of an object that is there several times the first stays: what comes of indexes is in their order.
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
        // What was left of a bucket has the number of no object.
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
