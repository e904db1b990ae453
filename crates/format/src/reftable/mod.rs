//! Reftables (git's "reftable" technical document): a sorted table of refs, and a log of their changes.
//!
//! [`Table`] looks up names and objects in one table and iterates over it; [`Stack`] merges several, and the
//! newest wins. Callers see deletions. Everything is read in place except log blocks, which are deflated.
//! `layout.rs` has the layout of the file, `block.rs` that of blocks.
//!
//! # Use without the rest of packrace
//!
//! `examples/reftable.rs` writes a table and reads it back in thirty lines, and `examples/inspect_reftables.rs` shows
//! what a repository's tables hold. Rules for callers:
//!
//! - **Writing**: pass refs sorted by name, then log records by name and decreasing update index, to a
//!   [`Writer`]; its sink gets the file in order, the footer last. A table is visible to git once its
//!   complete, synced file is named in `tables.list` ([`TableName`], [`format_list`]), which is replaced
//!   under `tables.list.lock` by a rename.
//! - **Update indexes** number the transactions of a stack from 1; a new table has the next one as its least
//!   and greatest.
//! - **Deleting** is writing: [`RefValue::Deletion`] hides a ref of older tables, a [`LogRecord`] without a
//!   change hides the record of the same name and index. A reader of one table sees them; [`Deletions::Hide`]
//!   leaves them out of a [`Stack`].
//! - **Compacting**: [`geometric`] selects the tables, [`compact`] writes one that replaces them.
//! - **Reading**: [`Table::open`] takes anything that derefs to bytes, such as a map. It checks header and
//!   footer; later reads can still find damage, and give an [`Error`] with its offset. Blocks have no
//!   checksum.

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

/// The value of a ref record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefValue<'a, Id = ObjectId> {
    /// The ref was deleted: it hides the ref in older tables.
    Deletion,
    /// It points at an object that is not an annotated tag.
    Id(Id),
    /// It points at an annotated tag, and states what that peels to.
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
    /// The value of the ref.
    pub value: RefValue<'a>,
}

/// One log record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRecord<'a> {
    /// The full name of the ref.
    pub name: &'a [u8],
    /// The update that wrote it.
    pub update_index: u64,
    /// The change; `None` deletes an older record of the same name and update index.
    pub change: Option<LogChange<'a>>,
}

/// A change of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogChange<'a> {
    /// The object before the change.
    pub old: ObjectId,
    /// The object after the change.
    pub new: ObjectId,
    /// The name of the committer.
    pub name: &'a [u8],
    /// The committer's email address.
    pub email: &'a [u8],
    /// The time, in seconds since 1970.
    pub seconds: u64,
    /// The committer's time zone; the document says minutes, but git stores `-0700` as -700.
    pub zone: i16,
    /// The reason. Git ends it with a line feed, and leaves it empty if there is none.
    pub message: &'a [u8],
}

/// A view of one reftable.
#[derive(Debug, Clone)]
pub struct Table<D> {
    data: D,
    layout: Layout,
}

impl<D: AsRef<[u8]>> Table<D> {
    /// Checks the header, and the footer with its checksum; blocks are checked when read.
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

    /// The first and the last update in the table.
    pub fn update_indexes(&self) -> (u64, u64) {
        (self.layout.min_update_index, self.layout.max_update_index)
    }

    /// The alignment of blocks; 0 if they are not aligned.
    pub fn block_bytes(&self) -> usize {
        self.layout.block_bytes
    }

    /// The size of the table for compaction ([`geometric`]): without header and footer, plus one, as observed
    /// in git 2.47.
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

    /// All ref records from `name` on, by name.
    pub fn refs_from(&self, name: &[u8]) -> Result<RefIter<'_>, Error> {
        self.refs_in(&NameRange::from(name))
    }

    /// All ref records whose names start with `prefix`, by name; reads no block after the first other name.
    pub fn refs_with_prefix(&self, prefix: &[u8]) -> Result<RefIter<'_>, Error> {
        self.refs_in(&NameRange::of_prefix(prefix))
    }

    /// All ref records in a range, by name; reads no block after the first name beyond it.
    pub fn refs_in(&self, range: &NameRange) -> Result<RefIter<'_>, Error> {
        RefIter::new(self.bytes(), self.layout, range)
    }

    /// The table's value of this ref; `None` if it has no record. Reads one block besides the index; a table
    /// without an index (up to three blocks, as git writes them) is read from its start.
    pub fn find(&self, name: &[u8]) -> Result<Option<RefValue<'_>>, Error> {
        Ok(refs::find(self.bytes(), &self.layout, name)?.map(|(_, value)| value))
    }

    /// All ref records that point at `id`, or at a tag that peels to it, by name; uses object blocks or,
    /// without them, reads all refs. A nested tag is found by its own id and by the peeled object, not by the
    /// tag between. Newer tables of a stack may override these names.
    pub fn refs_to(&self, id: &ObjectId) -> Result<RefsTo<'_>, Error> {
        RefsTo::new(self.bytes(), self.layout, id)
    }

    /// Whether there is a record of a ref whose name starts with `prefix`, deletions included; allocates
    /// nothing.
    pub fn has_below(&self, prefix: &[u8]) -> Result<bool, Error> {
        refs::has_below(self.bytes(), &self.layout, prefix)
    }

    /// Whether there are log records.
    pub fn has_logs(&self) -> bool {
        self.layout.logs.is_some()
    }

    /// All log records, by name, newest first per name.
    pub fn logs(&self) -> Result<LogIter<'_>, Error> {
        LogIter::new(self.bytes(), self.layout, b"", b"")
    }

    /// The log records of this ref, newest first.
    pub fn logs_of(&self, name: &[u8]) -> Result<LogIter<'_>, Error> {
        self.logs_of_until(name, u64::MAX)
    }

    /// The log records of this ref and of later ones, by name, newest first per name.
    pub fn logs_from(&self, name: &[u8]) -> Result<LogIter<'_>, Error> {
        LogIter::new(self.bytes(), self.layout, &log_key(name, u64::MAX), b"")
    }

    /// The log records of this ref up to an update index, newest first.
    pub fn logs_of_until(&self, name: &[u8], update_index: u64) -> Result<LogIter<'_>, Error> {
        let key = log_key(name, update_index);
        LogIter::new(self.bytes(), self.layout, &key, &key[..name.len() + 1])
    }
}

fn log_key(name: &[u8], update_index: u64) -> Vec<u8> {
    [name, b"\0", &(!update_index).to_be_bytes()].concat()
}

/// The big-endian number in the first `length` bytes, which must exist.
fn be(bytes: &[u8], length: usize) -> u64 {
    bytes[..length].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A number in the encoding of packs and reftables: seven bits per byte, most significant first; each
/// continuation adds one.
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
