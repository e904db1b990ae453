//! Reftables (git's "reftable" technical document): a sorted table of refs, and a log of their changes.
//!
//! ```text
//! header   'REFT' | u8 version | u24 block size | u64 min update index | u64 max update index | v2: u32 hash id
//! blocks   ref blocks 'r', their index 'i'; object blocks 'o', their index; log blocks 'g', their index
//! footer   header again | u64 ref index | u64 objects << 5 | id length | u64 object index | u64 logs | u64 log index
//!          | u32 CRC-32 of the footer before it
//! ```
//!
//! [`Table`] looks names up and iterates; deletions are handed to the caller, who merges tables. Object blocks are
//! not used. Everything is read in place, but log blocks, which are deflated.

mod block;
mod iter;
#[cfg(test)]
mod tests;

use packrace_object::{HashKind, ObjectId};

use crate::Error;
use block::Block;
pub use iter::{LogIter, RefIter};

const FORMAT: &str = "reftable";
const SIGNATURE: &[u8; 4] = b"REFT";
const HEADER_V1_BYTES: usize = 24;
const HEADER_V2_BYTES: usize = 28;
/// What the footer has after the header's copy.
const FOOTER_REST_BYTES: usize = 5 * 8 + 4;

/// Index blocks that lead to each other are followed this far: far more than any table of 2^64 bytes needs.
const MAX_INDEX_LEVELS: usize = 16;

/// What a ref record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefValue<'a> {
    /// The ref was deleted: it hides the ref in older tables.
    Deletion,
    /// It points at an object that is no annotated tag.
    Id(ObjectId),
    /// It points at an annotated tag; with what that finally tags.
    Tag {
        /// The tag.
        id: ObjectId,
        /// What it finally tags.
        peeled: ObjectId,
    },
    /// It stands for another ref.
    Symbolic(&'a [u8]),
}

/// One ref record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefRecord<'a> {
    /// The full name.
    pub name: &'a [u8],
    /// When it was written.
    pub update_index: u64,
    /// What it says.
    pub value: RefValue<'a>,
}

/// One log record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    /// The full name of the ref.
    pub name: Vec<u8>,
    /// When it was written.
    pub update_index: u64,
    /// What happened; `None` deletes an older record of the same name and update index.
    pub change: Option<LogChange>,
}

/// What happened to a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChange {
    /// What it pointed at before.
    pub old: ObjectId,
    /// What it points at since.
    pub new: ObjectId,
    /// Who did it.
    pub name: Vec<u8>,
    /// Their address.
    pub email: Vec<u8>,
    /// When, in seconds since 1970.
    pub seconds: u64,
    /// The committer's time zone. The document says minutes, but git stores `-0700` as -700.
    pub zone: i16,
    /// Why.
    pub message: Vec<u8>,
}

/// A view of one reftable.
#[derive(Debug, Clone)]
pub struct Table<D> {
    data: D,
    layout: Layout,
}

/// What header and footer say, checked against the length of the file.
#[derive(Debug, Clone, Copy)]
struct Layout {
    hash: HashKind,
    header_bytes: usize,
    /// 0 where blocks are not aligned.
    block_bytes: usize,
    min_update_index: u64,
    max_update_index: u64,
    /// Where the footer starts.
    end: usize,
    ref_index_at: usize,
    log_at: usize,
    log_index_at: usize,
    /// Where ref blocks end at the latest: the first of the sections that follow.
    refs_end: usize,
    has_refs: bool,
}

impl<D: AsRef<[u8]>> Table<D> {
    /// Checks the header, and the footer with its checksum. Blocks are checked when they are read.
    pub fn open(data: D) -> Result<Self, Error> {
        let layout = Layout::read(data.as_ref())?;
        Ok(Table { data, layout })
    }

    /// The hash of object names.
    pub fn hash_kind(&self) -> HashKind {
        self.layout.hash
    }

    /// The first and the last update that the table holds.
    pub fn update_indexes(&self) -> (u64, u64) {
        (self.layout.min_update_index, self.layout.max_update_index)
    }

    /// All ref records whose names are `name` or come after it, by name.
    pub fn refs_from(&self, name: &[u8]) -> Result<RefIter<'_>, Error> {
        RefIter::new(self.data.as_ref(), self.layout, name)
    }

    /// What the table says of the ref of this name; `None` if nothing.
    pub fn find(&self, name: &[u8]) -> Result<Option<RefValue<'_>>, Error> {
        let mut refs = self.refs_from(name)?;
        let is_found = refs.advance()? && refs.current().is_some_and(|record| record.name == name);
        Ok(refs.value().filter(|_| is_found))
    }

    /// All log records, by name, the newest of each first.
    pub fn logs(&self) -> Result<LogIter<'_>, Error> {
        LogIter::new(self.data.as_ref(), self.layout)
    }
}

impl Layout {
    fn read(bytes: &[u8]) -> Result<Self, Error> {
        let bad = |what, offset: usize| Error::new(FORMAT, what, offset as u64);
        if bytes.len() < HEADER_V1_BYTES || &bytes[..4] != SIGNATURE {
            return Err(bad("signature is not REFT", 0));
        }
        let header_bytes = match bytes[4] {
            1 => HEADER_V1_BYTES,
            2 => HEADER_V2_BYTES,
            _ => return Err(bad("version is neither 1 nor 2", 4)),
        };
        let footer_bytes = header_bytes + FOOTER_REST_BYTES;
        if bytes.len() < header_bytes + footer_bytes {
            return Err(bad("file is too short", bytes.len()));
        }
        let end = bytes.len() - footer_bytes;
        let footer = &bytes[end..];
        if footer[..header_bytes] != bytes[..header_bytes] {
            return Err(bad("footer does not repeat the header", end));
        }
        let (covered, checksum) = footer.split_at(footer_bytes - 4);
        if libdeflater::crc32(covered) != be(checksum, 4) as u32 {
            return Err(bad("footer has a wrong checksum", bytes.len() - 4));
        }
        let hash = match header_bytes {
            HEADER_V1_BYTES => HashKind::Sha1,
            _ => match &bytes[24..28] {
                b"sha1" => HashKind::Sha1,
                b"s256" => HashKind::Sha256,
                _ => return Err(bad("hash is neither sha1 nor s256", 24)),
            },
        };
        let place = |at: usize, shift: u32| {
            let position = be(&footer[header_bytes + at..], 8) >> shift;
            let position = usize::try_from(position).ok().filter(|position| *position <= end);
            position.ok_or_else(|| bad("section starts beyond the end", end + header_bytes + at))
        };
        let (ref_index_at, objects_at, log_at, log_index_at) =
            (place(0, 0)?, place(8, 5)?, place(24, 0)?, place(32, 0)?);
        let sections = [ref_index_at, objects_at, log_at];
        let refs_end = sections.into_iter().filter(|at| *at > 0).min().unwrap_or(end);
        let first_type = bytes[..end].get(header_bytes).copied();
        match first_type {
            None | Some(b'r') => {}
            // Only logs: where they start is 0 or left out.
            Some(b'g') if log_at <= header_bytes && ref_index_at == 0 => {}
            Some(_) => return Err(bad("first block is of an unknown type", header_bytes)),
        }
        Ok(Layout {
            hash,
            header_bytes,
            block_bytes: be(&bytes[5..], 3) as usize,
            min_update_index: be(&bytes[8..], 8),
            max_update_index: be(&bytes[16..], 8),
            end,
            ref_index_at,
            log_at: if first_type == Some(b'g') { 0 } else { log_at },
            log_index_at,
            refs_end,
            has_refs: first_type == Some(b'r'),
        })
    }

    /// The block that starts at `at`.
    fn block<'a>(&self, bytes: &'a [u8], at: usize) -> Result<Block<'a>, Error> {
        Block::read(&bytes[..self.end], at, if at == 0 { self.header_bytes } else { 0 })
    }
}

/// The big-endian number in the first `length` bytes, which the caller knows to be there.
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
