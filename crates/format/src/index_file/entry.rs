use std::borrow::Borrow;

use packrace_object::ObjectId;

/// The key of an index entry: path, then stage. Stored as `path | NUL | stage`, whose bytes sort in that
/// order because no path contains NUL; so an index is searched by plain bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey(Box<[u8]>);

/// The length of the part after the path.
const TAIL_BYTES: usize = 2;

impl EntryKey {
    /// The key of a path without NUL. Stage 0 is a merged entry; 1 to 3 are base, ours and theirs of a
    /// conflict.
    pub fn new(path: &[u8], stage: u8) -> Self {
        assert!(stage < 4 && !path.contains(&0), "no place in an index");
        EntryKey([path, &[0, stage]].concat().into())
    }

    /// The path, from the top of the work tree.
    pub fn path(&self) -> &[u8] {
        &self.0[..self.0.len() - TAIL_BYTES]
    }

    /// 0 to 3.
    pub fn stage(&self) -> u8 {
        self.0[self.0.len() - 1]
    }
}

impl Borrow<[u8]> for EntryKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for EntryKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.stage(), String::from_utf8_lossy(self.path()))
    }
}

/// The kind of object that an entry names (gitformat-index, "32-bit mode").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// A regular file.
    File,
    /// An executable file.
    Executable,
    /// A symbolic link; the blob is its target.
    Link,
    /// A commit of a submodule.
    Gitlink,
    /// A directory, stored as its tree (sparse index).
    Dir,
}

impl Mode {
    /// The mode with these bits; for files, only the owner's execute bit counts.
    pub fn of_bits(bits: u32) -> Option<Self> {
        match bits & 0o170_000 {
            0o100_000 if bits & 0o100 != 0 => Some(Mode::Executable),
            0o100_000 => Some(Mode::File),
            0o120_000 => Some(Mode::Link),
            0o160_000 => Some(Mode::Gitlink),
            0o040_000 => Some(Mode::Dir),
            _ => None,
        }
    }

    /// The bits as stored in index files and trees.
    pub fn bits(self) -> u32 {
        match self {
            Mode::File => 0o100_644,
            Mode::Executable => 0o100_755,
            Mode::Link => 0o120_000,
            Mode::Gitlink => 0o160_000,
            Mode::Dir => 0o040_000,
        }
    }

    /// Whether this is a regular file, executable or not.
    pub fn is_file(self) -> bool {
        matches!(self, Mode::File | Mode::Executable)
    }
}

/// A time, cut to 32 bits of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time {
    /// Seconds since 1970, the lower 32 bits.
    pub seconds: u32,
    /// Less than 1,000,000,000.
    pub nanoseconds: u32,
}

/// The file's stat(2) data when its entry was made; numbers are cut to 32 bits. All zero if the file was
/// never examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatData {
    /// When the content or the inode last changed.
    pub changed: Time,
    /// When the content last changed.
    pub modified: Time,
    /// The device.
    pub device: u32,
    /// The inode.
    pub inode: u32,
    /// The owner.
    pub user: u32,
    /// The group.
    pub group: u32,
    /// The length.
    pub size_bytes: u32,
}

/// The entry of an index for a path at a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// The object: a blob, or the commit of a submodule.
    pub id: ObjectId,
    /// What it is.
    pub mode: Mode,
    /// The file's metadata.
    pub stat: StatData,
    /// The user promises that the file does not change (`--assume-unchanged`).
    pub assume_valid: bool,
    /// The file need not be in the work tree (`--skip-worktree`).
    pub skip_worktree: bool,
    /// The path is to be added later: the object is the empty blob, and no tree has it yet
    /// (`add --intent-to-add`).
    pub intent_to_add: bool,
}

impl IndexEntry {
    /// An entry without flags, of a file that was never examined.
    pub fn new(id: ObjectId, mode: Mode) -> Self {
        let stat = StatData::default();
        IndexEntry { id, mode, stat, assume_valid: false, skip_worktree: false, intent_to_add: false }
    }

    /// Whether the entry needs version 3 or later.
    pub(super) fn is_extended(&self) -> bool {
        self.skip_worktree || self.intent_to_add
    }
}
