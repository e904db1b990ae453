//! The head of a repository in a bucket: its packs and tables, and where they are stored.
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
//! Big-endian. The last 32 bytes and the first 12 mean the same in every version. `docs/formats/head.md`
//! describes the fields.

mod read;
mod write;

use packrace_object::{HashKind, ObjectId};

pub use read::{HeadError, parse};
pub use write::write;

/// The longest head.
pub const MAX_HEAD_BYTES: usize = 1 << 20;

/// The most tokens of earlier writes.
pub const MAX_RECENT_TOKENS: usize = 256;

/// The most entries of each other list.
pub const MAX_ENTRIES: usize = 4096;

/// The last generation: 63 bits, so that the generation after any parsed one is a number, too.
pub const MAX_GENERATION: u64 = i64::MAX as u64;

const FORMAT: &str = "head";
const SIGNATURE: &[u8; 8] = b"PKRCHEAD";
const VERSION: u32 = 1;
const TOKEN_BYTES: usize = 16;
const DIGEST_BYTES: usize = 32;

/// A random number that a writer chooses for one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteToken(pub [u8; TOKEN_BYTES]);

/// Formats the token in hexadecimal.
impl std::fmt::Display for WriteToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The key of an object beside the head; different writers never use the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// The generation that the object's writer meant to write.
    pub generation: u64,
    /// The token of the object's writer.
    pub token: WriteToken,
}

/// Where the bytes of a file are stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FilePlace {
    /// In the head itself.
    Inline(Vec<u8>),
    /// In an object, at an offset.
    Object {
        /// Which object.
        key: ObjectKey,
        /// The offset in the object.
        offset: u64,
    },
}

/// A file with its length and hash; its end, if it is in an object, fits in 63 bits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoredFile {
    /// The length in bytes.
    pub length: u64,
    /// The hash of its bytes.
    pub sha256: [u8; DIGEST_BYTES],
    /// Where the bytes are stored.
    pub place: FilePlace,
}

/// The kinds of files of a pack.
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
    /// All kinds; the index comes last, because a pack without an index is ignored.
    pub const ALL: [PackFileKind; 4] =
        [PackFileKind::Pack, PackFileKind::Reverse, PackFileKind::Bitmap, PackFileKind::Index];

    /// The extension of the file's name, without the dot.
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
    /// Its trailer, which is part of its files' names.
    pub checksum: ObjectId,
    /// Its files, at most one of each kind.
    pub files: Vec<(PackFileKind, StoredFile)>,
}

/// A reftable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTable {
    /// Its name in the stack, which has git's form.
    pub name: Vec<u8>,
    /// Its bytes.
    pub file: StoredFile,
}

/// The state of a repository at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The hash of its objects.
    pub hash: HashKind,
    /// One more than the generation of the previous head; from 1 to [`MAX_GENERATION`].
    pub generation: u64,
    /// The token of the write that made this head.
    pub token: WriteToken,
    /// Tokens of earlier writes, newest first: a writer that does not know whether its write succeeded finds
    /// its token here.
    pub recent: Vec<WriteToken>,
    /// Objects of lower generations may be deleted, so no head may add a name for one.
    pub floor: u64,
    /// The generation that last dropped possibly reachable objects: a check begun before it must be repeated.
    pub shrunk: u64,
    /// The repository's configuration: keys and values.
    pub config: Vec<(Vec<u8>, Vec<u8>)>,
    /// Commits whose parents are cut off (shallow).
    pub shallow: Vec<ObjectId>,
    /// Its packs.
    pub packs: Vec<StoredPack>,
    /// Its ref stack, oldest table first.
    pub tables: Vec<StoredTable>,
    /// Objects that this head no longer names, kept for a while for readers of an older head.
    pub dropped: Vec<ObjectKey>,
}

#[cfg(test)]
mod tests;
