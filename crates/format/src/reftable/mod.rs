//! Reftables (git's "reftable" technical document): a sorted table of refs, and a log of their changes.
//!
//! [`Table`] looks names and objects up and iterates over one table; [`Stack`] merges several, and the newest wins.
//! Callers see deletions. Everything is read in place except log blocks, which are deflated. The layout of the file
//! stands in `layout.rs`, that of blocks in `block.rs`.
//!
//! # Use without the rest of packrace
//!
//! `examples/reftable.rs` writes a table and reads it back in thirty lines. The rules for callers:
//!
//! - **Writing one**: refs sorted by name, then log records by name and falling update index, into a [`Writer`]; its sink
//!   gets the file in order, the footer last. A table is visible to git when its file, synced whole, is named in
//!   `tables.list` ([`TableName`], [`format_list`]), which is replaced under `tables.list.lock` by a rename.
//! - **Update indexes** number the transactions of a stack from 1; a new table has the next one as its least and greatest.
//! - **Deleting** is writing: [`RefValue::Deletion`] hides a ref of older tables, a [`LogRecord`] without a change the
//!   record of the same name and index. A reader of one table sees them; [`Deletions::Hide`] leaves them out of a [`Stack`].
//! - **Compacting**: [`geometric`] says which tables, [`compact`] writes one in their place.
//! - **Reading**: [`Table::open`] takes anything that derefs to bytes, such as a map. It checks header and footer; what
//!   is read later can still be damaged, and gives an [`Error`] with its offset. Blocks have no checksum.

mod block;
mod compact;
mod layout;
mod logs;
mod merged;
mod objects;
mod refs;
mod stack;
#[cfg(test)]
mod tests;
mod writer;

use packrace_object::{HashKind, ObjectId, StoredId};

use crate::{Error, NameRange};
pub use compact::{CompactError, compact};
use layout::Layout;
pub use logs::LogIter;
pub use merged::{Deletions, MergedLogs, MergedRefs, MergedRefsTo, Stack, StackError};
pub use objects::RefsTo;
pub use refs::RefIter;
pub use stack::{DEFAULT_FACTOR, MAX_FACTOR, TableName, format_list, geometric, parse_list};
pub use writer::{
    DEFAULT_BLOCK_BYTES, DEFAULT_RESTART_INTERVAL, MAX_BLOCK_BYTES, ReftableWriteError, TableOptions, Writer,
    Written,
};

const FORMAT: &str = "reftable";

/// What a ref record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefValue<'a, Id = ObjectId> {
    /// The ref was deleted: it hides the ref in older tables.
    Deletion,
    /// It points at an object that is not an annotated tag.
    Id(Id),
    /// It points at an annotated tag, and says what that peels to.
    Tag {
        /// The tag.
        id: Id,
        /// The object that it peels to.
        peeled: Id,
    },
    /// It is a symbolic ref to another ref.
    Symbolic(&'a [u8]),
}

impl<'a> RefValue<'a, StoredId<'_>> {
    /// The same with owned ids.
    #[inline]
    pub fn to_ids(self) -> RefValue<'a> {
        match self {
            RefValue::Deletion => RefValue::Deletion,
            RefValue::Id(id) => RefValue::Id(id.to_id()),
            RefValue::Tag { id, peeled } => RefValue::Tag { id: id.to_id(), peeled: peeled.to_id() },
            RefValue::Symbolic(target) => RefValue::Symbolic(target),
        }
    }
}

/// One ref record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefRecord<'a> {
    /// The full name.
    pub name: &'a [u8],
    /// The update that wrote it.
    pub update_index: u64,
    /// What it says.
    pub value: RefValue<'a>,
}

/// One log record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRecord<'a> {
    /// The full name of the ref.
    pub name: &'a [u8],
    /// The update that wrote it.
    pub update_index: u64,
    /// What happened; `None` deletes an older record of the same name and update index.
    pub change: Option<LogChange<'a>>,
}

/// What happened to a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogChange<'a> {
    /// The object before.
    pub old: ObjectId,
    /// The object since then.
    pub new: ObjectId,
    /// Who did it.
    pub name: &'a [u8],
    /// Their address.
    pub email: &'a [u8],
    /// When, in seconds since 1970.
    pub seconds: u64,
    /// The committer's time zone. The document says minutes, but git stores `-0700` as -700.
    pub zone: i16,
    /// Why. Git ends it with a line feed, and leaves it empty if no reason was given.
    pub message: &'a [u8],
}

/// A view of one reftable.
#[derive(Debug, Clone)]
pub struct Table<D> {
    data: D,
    layout: Layout,
}

impl<D: AsRef<[u8]>> Table<D> {
    /// Checks the header, and the footer with its checksum. Blocks are checked when they are read.
    pub fn open(data: D) -> Result<Self, Error> {
        let layout = Layout::read(data.as_ref())?;
        Ok(Table { data, layout })
    }

    /// The bytes of the table.
    pub fn data(&self) -> &D {
        &self.data
    }

    /// The hash of object names.
    pub fn hash_kind(&self) -> HashKind {
        self.layout.hash
    }

    /// The first and the last update that the table holds.
    pub fn update_indexes(&self) -> (u64, u64) {
        (self.layout.min_update_index, self.layout.max_update_index)
    }

    /// The alignment of blocks; 0 if they are not aligned.
    pub fn block_bytes(&self) -> usize {
        self.layout.block_bytes
    }

    /// The size of the table as it counts for compaction ([`geometric`]): without header and footer, plus one, as
    /// git 2.47 was observed to count.
    pub fn content_bytes(&self) -> u64 {
        (self.layout.end - self.layout.header_bytes) as u64 + 1
    }

    /// The bytes of the table.
    pub fn bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// Returns the bytes, which may be a map to be closed.
    pub fn into_inner(self) -> D {
        self.data
    }

    /// All ref records whose names are `name` or come after it, by name.
    pub fn refs_from(&self, name: &[u8]) -> Result<RefIter<'_>, Error> {
        self.refs_in(&NameRange::from(name))
    }

    /// All ref records whose names start with `prefix`, by name. Reads no block after the first other name.
    pub fn refs_with_prefix(&self, prefix: &[u8]) -> Result<RefIter<'_>, Error> {
        self.refs_in(&NameRange::of_prefix(prefix))
    }

    /// All ref records in a range, by name. Reads no block after the first name beyond it.
    pub fn refs_in(&self, range: &NameRange) -> Result<RefIter<'_>, Error> {
        RefIter::new(self.bytes(), self.layout, range)
    }

    /// What the table says of the ref of this name; `None` if nothing. Reads one block besides the index; a table
    /// without an index (up to three blocks, as git writes them) is read from its start.
    pub fn find(&self, name: &[u8]) -> Result<Option<RefValue<'_>>, Error> {
        Ok(refs::find(self.bytes(), &self.layout, name)?.map(|(_, value)| value))
    }

    /// All ref records that point at `id`, or at a tag that peels to it, by name: by object blocks or, without
    /// them, by reading all refs. A tag of a tag is found by its own id and by what both peel to, not by the tag
    /// between. Newer tables of a stack may override these names.
    pub fn refs_to(&self, id: &ObjectId) -> Result<RefsTo<'_>, Error> {
        RefsTo::new(self.bytes(), self.layout, id)
    }

    /// Whether there is a record, deletions included, of a ref whose name starts with `prefix`. Allocates nothing.
    pub fn has_below(&self, prefix: &[u8]) -> Result<bool, Error> {
        refs::has_below(self.bytes(), &self.layout, prefix)
    }

    /// Whether there are log records.
    pub fn has_logs(&self) -> bool {
        self.layout.logs.is_some()
    }

    /// All log records, by name, the newest of each first.
    pub fn logs(&self) -> Result<LogIter<'_>, Error> {
        LogIter::new(self.bytes(), self.layout, b"", b"")
    }

    /// The log records of the ref of this name, the newest first.
    pub fn logs_of(&self, name: &[u8]) -> Result<LogIter<'_>, Error> {
        self.logs_of_until(name, u64::MAX)
    }

    /// The log records of the ref of this name and of those after it, by name, the newest of each first.
    pub fn logs_from(&self, name: &[u8]) -> Result<LogIter<'_>, Error> {
        LogIter::new(self.bytes(), self.layout, &log_key(name, u64::MAX), b"")
    }

    /// The log records of the ref of this name up to an update index, the newest first.
    pub fn logs_of_until(&self, name: &[u8], update_index: u64) -> Result<LogIter<'_>, Error> {
        let key = log_key(name, update_index);
        LogIter::new(self.bytes(), self.layout, &key, &key[..name.len() + 1])
    }
}

fn log_key(name: &[u8], update_index: u64) -> Vec<u8> {
    [name, b"\0", &(!update_index).to_be_bytes()].concat()
}

/// The big-endian number in the first `length` bytes, which the caller has checked to be there.
fn be(bytes: &[u8], length: usize) -> u64 {
    bytes[..length].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A number as packs and reftables encode it: seven bits a byte, most significant first, each continuation worth one.
#[inline]
fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut byte = *bytes.get(*at)?;
    *at += 1;
    let mut number = u64::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        byte = *bytes.get(*at)?;
        *at += 1;
        number = number.checked_add(1)?.checked_mul(128)? | u64::from(byte & 0x7f);
    }
    Some(number)
}
