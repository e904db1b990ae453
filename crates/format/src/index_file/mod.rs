//! The index of a work tree (gitformat-index): read and written whole as an [`IndexFile`].
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
//! UNTR  see untracked.rs
//! FSMN  version: u32 (1, 2) | a time: u64 (1), or a token, NUL (2) | length of the bitmap: u32 | positions of changed entries: bitmap
//! link  id of the shared index | deleted positions: bitmap | replaced positions: bitmap
//! ```

mod cache_tree;
mod entry;
mod file;
mod monitor;
mod resolve_undo;
mod split;
mod untracked;

pub use cache_tree::CacheTree;
pub use entry::{EntryKey, IndexEntry, Mode, StatData, Time};
pub use file::{IndexFile, IndexFileError, IndexParts, encode};
pub use monitor::Monitored;
pub use resolve_undo::ResolveUndo;
pub use split::{Link, Split, split};
pub use untracked::{invalidate_untracked, new_untracked};

const HEADER_BYTES: usize = 12;

/// Takes everything up to the next `end`, and drops `end` itself.
fn until<'a>(rest: &mut &'a [u8], end: u8) -> Option<&'a [u8]> {
    let at = memchr::memchr(end, rest)?;
    let (found, after) = (&rest[..at], &rest[at + 1..]);
    *rest = after;
    Some(found)
}

/// Takes a number encoded like offsets of deltas (gitformat-pack): each further byte adds one. `None` if it is cut
/// off, then with nothing left, or too large.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    loop {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value += u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(value);
        }
        value = value.checked_add(1)?.checked_mul(128)?;
    }
}

fn encode_varint(mut value: usize, out: &mut Vec<u8>) {
    let mut digits = [0; 10];
    let mut at = digits.len() - 1;
    digits[at] = (value & 0x7f) as u8;
    while value > 0x7f {
        value = (value >> 7) - 1;
        at -= 1;
        digits[at] = 0x80 | (value & 0x7f) as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod tests;
