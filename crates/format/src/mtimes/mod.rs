//! When the objects of a cruft pack were last wanted (gitformat-pack, "pack-*.mtimes files").
//!
//! ```text
//! "MTME" | version: u32 (1) | hash: u32 (1 SHA-1, 2 SHA-256)
//! seconds since 1970: u32 × n, in the order of the index
//! checksum of the pack
//! checksum of all of the above
//! ```
//!
//! A pack with such a file is a cruft pack: its objects are unreachable and are deleted when old enough.

use packrace_object::{HashKind, oid};

use crate::{Error, be, checksum};

const FORMAT: &str = "mtimes";
const SIGNATURE: &[u8; 4] = b"MTME";
const HEADER_BYTES: usize = 12;

/// The times of a cruft pack's objects.
#[derive(Debug, Clone)]
pub struct Mtimes<D> {
    data: D,
    len: u32,
}

impl<D: AsRef<[u8]>> Mtimes<D> {
    /// Opens the file of a pack with `len` objects and this checksum; checks header, length and the pack's
    /// checksum.
    pub fn open(data: D, len: u32, pack_checksum: &oid) -> Result<Self, Error> {
        let (bytes, hash) = (data.as_ref(), pack_checksum.kind());
        let id_bytes = hash.len_in_bytes();
        let expected = (HEADER_BYTES + 2 * id_bytes) as u64 + u64::from(len) * 4;
        if bytes.len() as u64 != expected {
            return Err(Error::new(FORMAT, "file is not as long as the index says", bytes.len() as u64));
        }
        if &bytes[..4] != SIGNATURE {
            return Err(Error::new(FORMAT, "signature is not MTME", 0));
        }
        if be::u32_at(bytes, 4) != 1 {
            return Err(Error::new(FORMAT, "version is not 1", 4));
        }
        if be::u32_at(bytes, 8) != u32::from(checksum::hash_number(hash)) {
            return Err(Error::new(FORMAT, "made for another hash", 8));
        }
        let table_end = HEADER_BYTES + len as usize * 4;
        if bytes[table_end..table_end + id_bytes] != *pack_checksum.as_bytes() {
            return Err(Error::new(FORMAT, "made for another pack", table_end as u64));
        }
        Ok(Mtimes { data, len })
    }

    /// The number of objects.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The time of the object at an index position, which must be below [`Self::len`], in seconds since 1970.
    pub fn seconds_at(&self, index_position: u32) -> u32 {
        assert!(index_position < self.len, "position {index_position} of {} times", self.len);
        be::u32_at(self.data.as_ref(), HEADER_BYTES + index_position as usize * 4)
    }

    /// Hashes the whole file and compares the hash with its checksum.
    pub fn verify_checksum(&self, hash: HashKind) -> Result<(), Error> {
        checksum::verify(FORMAT, self.data.as_ref(), hash)
    }
}

/// Makes the file for a pack with this checksum; `seconds` are in the order of its index.
pub fn write(seconds: impl ExactSizeIterator<Item = u32>, pack_checksum: &oid) -> Vec<u8> {
    let hash = pack_checksum.kind();
    let mut out = Vec::with_capacity(HEADER_BYTES + seconds.len() * 4 + 2 * hash.len_in_bytes());
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&1u32.to_be_bytes());
    out.extend_from_slice(&u32::from(checksum::hash_number(hash)).to_be_bytes());
    seconds.for_each(|seconds| out.extend_from_slice(&seconds.to_be_bytes()));
    out.extend_from_slice(pack_checksum.as_bytes());
    checksum::append(&mut out, hash);
    out
}

#[cfg(test)]
mod tests;
