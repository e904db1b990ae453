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
//! link  id of the shared index | two bitmaps
//! ```

mod cache_tree;
mod entry;
mod file;
mod resolve_undo;
mod split;

pub use cache_tree::CacheTree;
pub use entry::{EntryKey, IndexEntry, Mode, StatData, Time};
pub use file::{IndexFile, IndexFileError, IndexParts, encode};
pub use resolve_undo::ResolveUndo;
pub use split::Link;

const HEADER_BYTES: usize = 12;

/// Takes everything up to the next `end`, and drops `end` itself.
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
