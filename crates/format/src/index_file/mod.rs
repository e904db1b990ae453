//! The index of a work tree (gitformat-index): read and written whole as an [`IndexFile`], or read for the objects that it
//! names alone.
//!
//! ```text
//! "DIRC" | version: u32 (2, 3, 4) | entries: u32
//! entry: stat 24 bytes | mode: u32 | stat 12 bytes | id | flags: u16 | more flags: u16, if the second bit of flags is set
//!        version 2, 3: path, then 1 to 8 NUL up to a multiple of 8
//!        version 4: how much of the last path is cut off: varint | path, NUL
//! extension: signature: 4 bytes | length: u32 | content
//! checksum of all of the above
//!
//! TREE  (name, NUL | entries: decimal, space | subtrees: decimal, LF | id unless entries is negative) × n
//! REUC  (path, NUL | mode: octal, NUL | mode | mode | an id for each mode that is not 0) × n
//! link  id of the shared index | two bitmaps
//! ```

mod cache_tree;
mod entry;
mod file;
mod resolve_undo;
mod split;

pub use cache_tree::CacheTree;
pub use entry::{Entry, EntryKey, Mode, StatData, Time};
pub use file::{IndexFile, IndexFileError, IndexParts, encode};
pub use resolve_undo::ResolveUndo;
pub use split::Link;

use packrace_object::{HashKind, ObjectId, StoredId};

use crate::{Error, be, checksum};

const FORMAT: &str = "index";
const HEADER_BYTES: usize = 12;
const MODE_AT: usize = 24;
const ID_AT: usize = 40;
const EXTENDED: u16 = 0x4000;

/// What an index keeps alive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedObjects {
    /// Blobs of entries, trees that are known for directories, and blobs to undo resolved conflicts with; in the order of
    /// the file.
    pub ids: Vec<ObjectId>,
    /// The checksum of a shared index, which is in a file of its own and names more objects (`sharedindex.<checksum>`).
    pub shared: Option<ObjectId>,
}

/// Reads the objects that an index names. Submodules are left out, as their commits are in other repositories. The
/// checksum is checked unless it is all zeros, as with `index.skipHash`; the order of entries is not looked at. Memory:
/// 33 bytes an id.
pub fn named_objects(bytes: &[u8], hash: HashKind) -> Result<NamedObjects, Error> {
    if bytes.len() < HEADER_BYTES + hash.len_in_bytes() {
        return Err(Error::new(FORMAT, "file is cut off", bytes.len() as u64));
    }
    if !checksum::trailer(bytes, hash).is_null() {
        checksum::verify(FORMAT, bytes, hash)?;
    }
    let mut reader = Reader { bytes, at: 0, hash, found: NamedObjects::default() };
    reader.entries()?;
    reader.extensions()?;
    Ok(reader.found)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    hash: HashKind,
    found: NamedObjects,
}

impl<'a> Reader<'a> {
    fn entries(&mut self) -> Result<(), Error> {
        let header = self.take(HEADER_BYTES)?;
        if &header[..4] != b"DIRC" {
            return Err(Error::new(FORMAT, "signature is not DIRC", 0));
        }
        let (version, entries) = (be::u32_at(header, 4), be::u32_at(header, 8));
        if !(2..=4).contains(&version) {
            return Err(Error::new(FORMAT, "version is not 2, 3 or 4", 4));
        }
        for _ in 0..entries {
            let start = self.at;
            let fixed = self.take(ID_AT + self.hash.len_in_bytes() + 2)?;
            let mode = be::u32_at(fixed, MODE_AT);
            if mode & 0o170_000 != 0o160_000 {
                self.found.ids.extend(StoredId::raw(fixed, ID_AT, self.hash).map(StoredId::to_id));
            }
            let flags = u16::from_be_bytes([fixed[fixed.len() - 2], fixed[fixed.len() - 1]]);
            if flags & EXTENDED != 0 {
                self.take(2)?;
            }
            if version == 4 {
                while self.take(1)?[0] & 0x80 != 0 {}
                self.until(0)?;
            } else {
                self.until(0)?;
                self.take((self.at - start).next_multiple_of(8) - (self.at - start))?;
            }
        }
        Ok(())
    }

    fn extensions(&mut self) -> Result<(), Error> {
        let end = self.bytes.len().checked_sub(self.hash.len_in_bytes());
        let end = end.filter(|end| *end >= self.at).ok_or_else(|| self.cut_off())?;
        while self.at < end {
            let header = self.take(8)?;
            let (signature, length) = (&header[..4], be::u32_at(header, 4) as usize);
            let content_at = self.at;
            let content_end = content_at.checked_add(length).filter(|content_end| *content_end <= end);
            let content_end = content_end.ok_or_else(|| self.cut_off())?;
            let (hash, found) = (self.hash, NamedObjects::default());
            let mut inner = Reader { bytes: &self.bytes[..content_end], at: content_at, hash, found };
            match signature {
                b"TREE" => inner.cache_tree()?,
                b"REUC" => inner.resolve_undo()?,
                b"link" => inner.found.shared = Some(inner.id()?).filter(|id| !id.is_null()),
                // In capitals: may be passed over. Others say what the entries mean, but name no object.
                _ => {}
            }
            let NamedObjects { ids, shared } = inner.found;
            self.found.ids.extend(ids);
            self.found.shared = self.found.shared.or(shared);
            self.at = content_end;
        }
        Ok(())
    }

    fn cache_tree(&mut self) -> Result<(), Error> {
        while self.at < self.bytes.len() {
            self.until(0)?;
            let entries = self.until(b' ')?;
            self.until(b'\n')?;
            if !entries.starts_with(b"-") {
                let id = self.id()?;
                self.found.ids.push(id);
            }
        }
        Ok(())
    }

    fn resolve_undo(&mut self) -> Result<(), Error> {
        while self.at < self.bytes.len() {
            self.until(0)?;
            let mut stages = 0;
            for _ in 0..3 {
                stages += usize::from(self.until(0)? != b"0");
            }
            for _ in 0..stages {
                let id = self.id()?;
                self.found.ids.push(id);
            }
        }
        Ok(())
    }

    fn id(&mut self) -> Result<ObjectId, Error> {
        let bytes = self.take(self.hash.len_in_bytes())?;
        Ok(StoredId::raw(bytes, 0, self.hash).expect("taken as long as an id").to_id())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let taken = self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| self.cut_off())?;
        self.at += count;
        Ok(taken)
    }

    /// What comes before the next `end`, which is passed over.
    fn until(&mut self, end: u8) -> Result<&'a [u8], Error> {
        let rest = &self.bytes[self.at..];
        let length = memchr::memchr(end, rest).ok_or_else(|| self.cut_off())?;
        self.at += length + 1;
        Ok(&rest[..length])
    }

    fn cut_off(&self) -> Error {
        Error::new(FORMAT, "file is cut off", self.at as u64)
    }
}

/// Takes what stands before the next `end`, and that.
fn until<'a>(rest: &mut &'a [u8], end: u8) -> Option<&'a [u8]> {
    let at = memchr::memchr(end, rest)?;
    let (found, after) = (&rest[..at], &rest[at + 1..]);
    *rest = after;
    Some(found)
}

#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod tests;
