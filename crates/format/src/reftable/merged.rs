//! Several tables as one: for records with the same key, the newest table wins.
//!
//! A heap of iterators. While the small new tables of a stack wait, reading on in the big old one takes one
//! comparison per record. The caller's prefix bounds every iterator before deletions are left out, so a run
//! of deletions after the prefix costs nothing.

use std::cmp::Ordering;

use packrace_object::{ObjectId, StoredId};

use crate::{Error, NameRange};

use super::{LogIter, LogRecord, RefIter, RefRecord, RefValue, RefsTo, Table};

/// How to treat deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletions {
    /// Return them like other records.
    Show,
    /// Leave them out, and the records that they delete.
    Hide,
}

/// A table of a stack is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("table {table} of the stack: {source}")]
pub struct StackError {
    /// The number of the table, from the oldest.
    pub table: usize,
    /// What is wrong with it.
    pub source: Error,
}

/// Tables, oldest first.
#[derive(Debug)]
pub struct Stack<'t, D>(&'t [Table<D>]);

impl<D> Clone for Stack<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Stack<'_, D> {}

impl<'t, D: AsRef<[u8]>> Stack<'t, D> {
    /// A stack of tables, oldest first.
    pub fn new(tables: &'t [Table<D>]) -> Self {
        Stack(tables)
    }

    /// The newest table's value of this name, which may be [`RefValue::Deletion`]; reads one block per table.
    pub fn find(&self, name: &[u8]) -> Result<Option<RefValue<'t>>, StackError> {
        self.find_above(0, name)
    }

    fn find_above(&self, lowest: usize, name: &[u8]) -> Result<Option<RefValue<'t>>, StackError> {
        for (table, candidate) in self.0.iter().enumerate().skip(lowest).rev() {
            if let Some(value) = candidate.find(name).map_err(|source| StackError { table, source })? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// All refs from `name` on, by name.
    pub fn refs_from(&self, name: &[u8], deletions: Deletions) -> Result<MergedRefs<'t>, StackError> {
        self.refs_in(&NameRange::from(name), deletions)
    }

    /// All refs whose names start with `prefix`, by name.
    pub fn refs_with_prefix(
        &self,
        prefix: &[u8],
        deletions: Deletions,
    ) -> Result<MergedRefs<'t>, StackError> {
        self.refs_in(&NameRange::of_prefix(prefix), deletions)
    }

    /// All refs in a range, by name.
    pub fn refs_in(&self, range: &NameRange, deletions: Deletions) -> Result<MergedRefs<'t>, StackError> {
        MergedRefs::new(self.each(|table| table.refs_in(range))?, deletions)
    }

    /// All refs that point at `id` or at a tag that peels to it, by name.
    pub fn refs_to(&self, id: &ObjectId) -> Result<MergedRefsTo<'t, D>, StackError> {
        Ok(MergedRefsTo { stack: *self, merge: Merge::new(self.each(|table| table.refs_to(id))?)? })
    }

    /// All log records, by name, newest first per name.
    pub fn logs(&self, deletions: Deletions) -> Result<MergedLogs<'t>, StackError> {
        MergedLogs::new(self.each(Table::logs)?, deletions)
    }

    /// The log records of this ref and of later ones, by name, newest first per name.
    pub fn logs_from(&self, name: &[u8], deletions: Deletions) -> Result<MergedLogs<'t>, StackError> {
        MergedLogs::new(self.each(|table| table.logs_from(name))?, deletions)
    }

    /// The log records of this ref, newest first.
    pub fn logs_of(&self, name: &[u8], deletions: Deletions) -> Result<MergedLogs<'t>, StackError> {
        MergedLogs::new(self.each(|table| table.logs_of(name))?, deletions)
    }

    /// The log records of this ref up to an update index, newest first.
    pub fn logs_of_until(
        &self,
        name: &[u8],
        update_index: u64,
        deletions: Deletions,
    ) -> Result<MergedLogs<'t>, StackError> {
        MergedLogs::new(self.each(|table| table.logs_of_until(name, update_index))?, deletions)
    }

    fn each<S>(&self, open: impl Fn(&'t Table<D>) -> Result<S, Error>) -> Result<Vec<S>, StackError> {
        let opened = self.0.iter().enumerate();
        opened.map(|(table, it)| open(it).map_err(|source| StackError { table, source })).collect()
    }
}

/// Iterates over the refs of several tables, like [`RefIter`] over one.
#[derive(Debug)]
pub struct MergedRefs<'t> {
    merge: Merge<RefIter<'t>>,
    deletions: Deletions,
}

impl<'t> MergedRefs<'t> {
    /// Merges `sources`, oldest table first.
    pub fn new(
        sources: impl IntoIterator<Item = RefIter<'t>>,
        deletions: Deletions,
    ) -> Result<Self, StackError> {
        Ok(MergedRefs { merge: Merge::new(sources.into_iter().collect())?, deletions })
    }

    /// The current record.
    #[inline]
    pub fn current(&self) -> Option<RefRecord<'_>> {
        self.merge.first().and_then(RefIter::current)
    }

    /// The value of the current record, valid as long as the tables.
    #[inline]
    pub fn value(&self) -> Option<RefValue<'t>> {
        self.merge.first().and_then(RefIter::value)
    }

    /// The name and value of the current record, with ids as stored.
    #[inline]
    pub fn stored(&self) -> Option<(&[u8], RefValue<'t, StoredId<'t>>)> {
        let first = self.merge.first()?;
        Some((first.key(), first.stored_value()?))
    }

    /// The number of the current record's table, from the oldest.
    pub fn table(&self) -> Option<usize> {
        self.merge.first_number()
    }

    /// Moves to the next record; false at the end.
    pub fn advance(&mut self) -> Result<bool, StackError> {
        while self.merge.advance()? {
            let value = self.merge.first().and_then(RefIter::stored_value);
            if self.deletions == Deletions::Show || !matches!(value, Some(RefValue::Deletion)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Iterates over the refs of several tables that point at one object, like [`RefsTo`] over one.
#[derive(Debug)]
pub struct MergedRefsTo<'t, D> {
    stack: Stack<'t, D>,
    merge: Merge<RefsTo<'t>>,
}

impl<'t, D: AsRef<[u8]>> MergedRefsTo<'t, D> {
    /// The current record.
    pub fn current(&self) -> Option<RefRecord<'_>> {
        self.merge.first().and_then(RefsTo::current)
    }

    /// The value of the current record, valid as long as the tables.
    pub fn value(&self) -> Option<RefValue<'t>> {
        self.merge.first().and_then(RefsTo::value)
    }

    /// Moves to the next record that no newer table overrides; false at the end.
    pub fn advance(&mut self) -> Result<bool, StackError> {
        while self.merge.advance()? {
            let Some((number, record)) = self.merge.first_number().zip(self.current()) else { break };
            if self.stack.find_above(number + 1, record.name)?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Iterates over the logs of several tables, like [`LogIter`] over one.
#[derive(Debug)]
pub struct MergedLogs<'t> {
    merge: Merge<LogIter<'t>>,
    deletions: Deletions,
}

impl<'t> MergedLogs<'t> {
    /// Merges `sources`, oldest table first.
    pub fn new(
        sources: impl IntoIterator<Item = LogIter<'t>>,
        deletions: Deletions,
    ) -> Result<Self, StackError> {
        Ok(MergedLogs { merge: Merge::new(sources.into_iter().collect())?, deletions })
    }

    /// The current record.
    pub fn current(&self) -> Option<LogRecord<'_>> {
        self.merge.first().and_then(LogIter::current)
    }

    /// The number of the current record's table, from the oldest.
    pub fn table(&self) -> Option<usize> {
        self.merge.first_number()
    }

    /// Moves to the next record; false at the end.
    pub fn advance(&mut self) -> Result<bool, StackError> {
        while self.merge.advance()? {
            let is_deletion = self.current().is_some_and(|record| record.change.is_none());
            if self.deletions == Deletions::Show || !is_deletion {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// An iterator over the sorted records of one table.
trait RecordSource {
    fn advance(&mut self) -> Result<bool, Error>;
    /// The sort key of the current record.
    fn key(&self) -> &[u8];
}

impl RecordSource for RefIter<'_> {
    fn advance(&mut self) -> Result<bool, Error> {
        RefIter::advance(self)
    }

    fn key(&self) -> &[u8] {
        RefIter::key(self)
    }
}

impl RecordSource for RefsTo<'_> {
    fn advance(&mut self) -> Result<bool, Error> {
        RefsTo::advance(self)
    }

    fn key(&self) -> &[u8] {
        self.current().map_or(&[], |record| record.name)
    }
}

impl RecordSource for LogIter<'_> {
    fn advance(&mut self) -> Result<bool, Error> {
        LogIter::advance(self)
    }

    fn key(&self) -> &[u8] {
        LogIter::key(self)
    }
}

#[derive(Debug)]
struct Merge<S> {
    /// Oldest table first.
    sources: Vec<S>,
    /// A heap of the sources that have a current record: the least key on top; of equal keys, the newest
    /// table's.
    heap: Vec<usize>,
    /// The lesser child of the top.
    second: Option<usize>,
    /// Whether the record on top has not been returned yet.
    is_ahead: bool,
}

impl<S: RecordSource> Merge<S> {
    fn new(mut sources: Vec<S>) -> Result<Self, StackError> {
        let mut heap = Vec::with_capacity(sources.len());
        for (table, it) in sources.iter_mut().enumerate() {
            if it.advance().map_err(|source| StackError { table, source })? {
                heap.push(table);
            }
        }
        let mut merge = Merge { sources, heap, second: None, is_ahead: true };
        for place in (0..merge.heap.len() / 2).rev() {
            merge.sink(place);
        }
        merge.pass_hidden()?;
        Ok(merge)
    }

    #[inline]
    fn first(&self) -> Option<&S> {
        self.heap.first().filter(|_| !self.is_ahead).map(|number| &self.sources[*number])
    }

    fn first_number(&self) -> Option<usize> {
        self.heap.first().copied().filter(|_| !self.is_ahead)
    }

    #[inline]
    fn advance(&mut self) -> Result<bool, StackError> {
        if !std::mem::take(&mut self.is_ahead) && !self.heap.is_empty() {
            self.step(0)?;
            self.pass_hidden()?;
        }
        Ok(!self.heap.is_empty())
    }

    /// Skips records of older tables that have the key on top.
    #[inline]
    fn pass_hidden(&mut self) -> Result<(), StackError> {
        while let Some(second) = self.second {
            if self.sources[self.heap[second]].key() != self.sources[self.heap[0]].key() {
                break;
            }
            self.step(second)?;
        }
        Ok(())
    }

    /// Advances the source at a position of the heap, and restores the heap.
    #[inline]
    fn step(&mut self, place: usize) -> Result<(), StackError> {
        let table = self.heap[place];
        if !self.sources[table].advance().map_err(|source| StackError { table, source })? {
            self.heap.swap_remove(place);
        } else if place == 0 && self.second.is_none_or(|second| self.is_before(0, second)) {
            return Ok(());
        }
        self.sink(place);
        Ok(())
    }

    fn sink(&mut self, mut place: usize) {
        while let Some(child) = self.first_child(place).filter(|child| self.is_before(*child, place)) {
            self.heap.swap(place, child);
            place = child;
        }
        self.second = self.first_child(0);
    }

    fn first_child(&self, place: usize) -> Option<usize> {
        let (left, right) = (2 * place + 1, 2 * place + 2);
        match right < self.heap.len() && self.is_before(right, left) {
            true => Some(right),
            false => Some(left).filter(|left| *left < self.heap.len()),
        }
    }

    #[inline]
    fn is_before(&self, left: usize, right: usize) -> bool {
        let (left, right) = (self.heap[left], self.heap[right]);
        match self.sources[left].key().cmp(self.sources[right].key()) {
            Ordering::Equal => left > right,
            order => order.is_lt(),
        }
    }
}
