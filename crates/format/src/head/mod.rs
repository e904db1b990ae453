//! The head of a repository on object storage: which packs and tables it consists of, and where they are.
//!
//! ```text
//! "PKRCHEAD" | version: u32 (1) | hash: u32 (1 SHA-1, 2 SHA-256)
//! generation: u64 | token of the write: 16 bytes | floor: u64 | shrunk: u64
//! recent tokens:  count u16 | 16 bytes each, the newest first
//! configuration:  count u16 | key: u16 length, bytes | value: u32 length, bytes
//! shallow:        count u16 | an id each
//! packs:          count u16 | checksum: an id | files: count u8 | kind u8, file
//! tables:         count u16 | name: u8 length, bytes | file
//! dropped:        count u16 | object: u64 generation, 16 bytes
//! SHA-256 of all of the above
//!
//! file: length u64 | SHA-256 | 0, its bytes; or 1, object: u64 generation, 16 bytes | offset u64
//! ```
//!
//! Big-endian. The last 32 bytes and the first 12 mean the same in every version. `docs/formats/head.md` has the fields' meaning.

mod read;
mod write;

use packrace_object::{HashKind, ObjectId};

pub use read::{HeadError, parse};
pub use write::write;

/// Longest head.
pub const MAX_HEAD_BYTES: usize = 1 << 20;

/// Most tokens of earlier writes.
pub const MAX_RECENT_TOKENS: usize = 256;

/// Most entries of each other list.
pub const MAX_ENTRIES: usize = 4096;

/// The last generation: 63 bits, so that the one after any that was read is a number, too.
pub const MAX_GENERATION: u64 = i64::MAX as u64;

const FORMAT: &str = "head";
const SIGNATURE: &[u8; 8] = b"PKRCHEAD";
const VERSION: u32 = 1;
const TOKEN_BYTES: usize = 16;
const DIGEST_BYTES: usize = 32;

/// What one writer chose at random for one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteToken(pub [u8; TOKEN_BYTES]);

/// In hexadecimal.
impl std::fmt::Display for WriteToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An object beside the head. No two writers have one in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// The generation that its writer meant to write.
    pub generation: u64,
    /// Of its writer.
    pub token: WriteToken,
}

/// Where the bytes of a file are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FilePlace {
    /// In the head itself.
    Inline(Vec<u8>),
    /// In an object, from here on.
    Object {
        /// Which object.
        key: ObjectKey,
        /// Where in it.
        offset: u64,
    },
}

/// A file: what it is known by, and where it is. The end of one in an object fits 63 bits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoredFile {
    /// In bytes.
    pub length: u64,
    /// Of its bytes.
    pub sha256: [u8; DIGEST_BYTES],
    /// Where they are.
    pub place: FilePlace,
}

/// What a file of a pack is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackFileKind {
    /// The pack itself.
    Pack,
    /// Its index.
    Index,
    /// Its reverse index.
    Reverse,
    /// Its bitmap.
    Bitmap,
}

impl PackFileKind {
    /// All of them; the index comes last, as a pack without one is not looked at.
    pub const ALL: [PackFileKind; 4] =
        [PackFileKind::Pack, PackFileKind::Reverse, PackFileKind::Bitmap, PackFileKind::Index];

    /// How the name of such a file ends, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            PackFileKind::Pack => "pack",
            PackFileKind::Index => "idx",
            PackFileKind::Reverse => "rev",
            PackFileKind::Bitmap => "bitmap",
        }
    }

    fn number(self) -> u8 {
        match self {
            PackFileKind::Pack => 0,
            PackFileKind::Index => 1,
            PackFileKind::Reverse => 2,
            PackFileKind::Bitmap => 3,
        }
    }
}

/// A pack, with at least its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPack {
    /// Its trailer, by which its files are called.
    pub checksum: ObjectId,
    /// Its files; each kind once at most.
    pub files: Vec<(PackFileKind, StoredFile)>,
}

/// A reftable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTable {
    /// Its name in the stack; a good one.
    pub name: Vec<u8>,
    /// Its bytes.
    pub file: StoredFile,
}

/// What a repository is at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The hash of its objects.
    pub hash: HashKind,
    /// One more than that of the head that it took the place of; from 1 to [`MAX_GENERATION`].
    pub generation: u64,
    /// Of the write that made it.
    pub token: WriteToken,
    /// Of the writes before it, the newest first: whoever does not know whether a write of theirs counted finds it here.
    pub recent: Vec<WriteToken>,
    /// No head may come to name objects of generations below; they may be deleted.
    pub floor: u64,
    /// The generation that last dropped objects which may have been reachable: what began before must be checked anew.
    pub shrunk: u64,
    /// Its own configuration: key and value.
    pub config: Vec<(Vec<u8>, Vec<u8>)>,
    /// Commits at which its history is cut.
    pub shallow: Vec<ObjectId>,
    /// Its packs.
    pub packs: Vec<StoredPack>,
    /// Its stack of refs, the oldest table first.
    pub tables: Vec<StoredTable>,
    /// Objects that are no longer named, but stay for a while for those who read an older head.
    pub dropped: Vec<ObjectKey>,
}

#[cfg(test)]
mod tests;
