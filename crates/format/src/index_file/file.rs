//! A whole index: entries and extensions.

use packrace_object::{HashKind, ObjectId, StoredId, TrailerHasher};

use super::{
    CacheTree, EntryKey, HEADER_BYTES, IndexEntry, Link, Mode, Monitored, ResolveUndo, StatData, Time,
    encode_varint, split, varint,
};
use crate::{be, checksum};

const STAT_BYTES: usize = 40;
const ASSUME_VALID: u16 = 0x8000;
const EXTENDED: u16 = 0x4000;
const STAGE_SHIFT: u16 = 12;
/// In an entry's flags, also the length of all longer paths.
const MAX_LENGTH: usize = 0xfff;
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;

/// In version 4, all paths together may be this many times as long as the file, because they share prefixes.
const MAX_PATHS_TIMES: usize = 64;

/// Why bytes are not an index, in git's words where git has words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexFileError {
    /// Shorter than the shortest index, or truncated.
    #[error("index file smaller than expected")]
    TooSmall,
    /// Another signature; git shows it in native byte order on most machines.
    #[error("bad signature 0x{0:08x}")]
    Signature(u32),
    /// An unknown version.
    #[error("bad index version {0}")]
    Version(u32),
    /// The checksum does not match the content.
    #[error("bad index file sha1 signature")]
    Checksum,
    /// An entry has unknown flags.
    #[error("unknown index entry format 0x{0:08x}")]
    EntryFormat(u32),
    /// An entry has a mode that cannot be in an index.
    #[error("unknown mode {bits:o} of index entry '{}'", String::from_utf8_lossy(.path))]
    EntryMode {
        /// The entry's path.
        path: Vec<u8>,
        /// The entry's mode.
        bits: u32,
    },
    /// A path does not end where it should, or shares more with the path before than that has.
    #[error("malformed name field in the index, near path '{}'", String::from_utf8_lossy(.0))]
    Name(Vec<u8>),
    /// Entries are not in order.
    #[error("unordered stage entries in index")]
    Unordered,
    /// The same path and stage twice.
    #[error("unordered stage entries for '{}'", String::from_utf8_lossy(.0))]
    Twice(Vec<u8>),
    /// An unknown extension without which the entries cannot be understood.
    #[error("index uses {} extension, which we do not understand", String::from_utf8_lossy(.0))]
    Extension([u8; 4]),
    /// The extension for a split index is damaged.
    #[error("{0} in link extension")]
    Link(&'static str),
    /// The shared index is not the expected one.
    #[error("broken index, expect {expect} in shared index, got {found}")]
    Shared {
        /// The expected checksum, from the extension.
        expect: ObjectId,
        /// The checksum of the shared index.
        found: ObjectId,
    },
}

/// An index in memory.
#[derive(Debug, Clone)]
pub struct IndexFile {
    /// 2, 3 or 4.
    pub version: u32,
    /// In ascending order, unless the file is split.
    pub entries: Vec<(EntryKey, IndexEntry)>,
    /// The cached trees.
    pub cache_tree: Option<CacheTree>,
    /// Conflicts that were resolved, in ascending order.
    pub resolve_undo: Vec<ResolveUndo>,
    /// The extension `UNTR` as read: names of files that are not in the index.
    pub untracked: Option<Vec<u8>>,
    /// What a file system monitor has said; of a split index once it is joined.
    pub monitored: Option<Monitored>,
    /// The extension of a split index.
    monitored_apart: Option<Vec<u8>>,
    /// The shared index that holds most entries.
    pub link: Option<Link>,
    /// Whether directories may replace the entries below them.
    pub is_sparse: bool,
    /// The checksum at the end; null if it was not computed.
    pub checksum: ObjectId,
}

impl IndexFile {
    /// Reads an index. The checksum is checked unless it is null. The order of entries is checked here, or
    /// for a split index in [`IndexFile::join`].
    ///
    /// Memory: what the file's length justifies, and up to 64 times its length for paths of version 4.
    pub fn decode(bytes: &[u8], hash: HashKind) -> Result<Self, IndexFileError> {
        if bytes.len() < HEADER_BYTES + hash.len_in_bytes() {
            return Err(IndexFileError::TooSmall);
        }
        if &bytes[..4] != b"DIRC" {
            return Err(IndexFileError::Signature(be::u32_at(bytes, 0).swap_bytes()));
        }
        let (version, count) = (be::u32_at(bytes, 4), be::u32_at(bytes, 8));
        if !(2..=4).contains(&version) {
            return Err(IndexFileError::Version(version));
        }
        let checksum = checksum::trailer(bytes, hash);
        if !checksum.is_null() && checksum::verify("index", bytes, hash).is_err() {
            return Err(IndexFileError::Checksum);
        }
        let end = bytes.len() - hash.len_in_bytes();
        let mut decoder = Decoder {
            bytes: &bytes[..end],
            at: HEADER_BYTES,
            hash,
            version,
            path_bytes: 0,
            previous: Vec::new(),
        };
        let entries = decoder.entries(count)?;
        let mut file = IndexFile {
            version,
            entries,
            cache_tree: None,
            resolve_undo: Vec::new(),
            untracked: None,
            monitored: None,
            monitored_apart: None,
            link: None,
            is_sparse: false,
            checksum,
        };
        decoder.extensions(&mut file)?;
        if file.link.is_none() {
            check_order(&file.entries)?;
            file.read_monitored();
        }
        Ok(file)
    }

    /// Merges a split index with its shared index.
    pub fn join(&mut self, shared: IndexFile) -> Result<(), IndexFileError> {
        let Some(link) = self.link.take() else { return Ok(()) };
        if shared.checksum != link.shared || shared.link.is_some() {
            return Err(IndexFileError::Shared { expect: link.shared, found: shared.checksum });
        }
        let own = std::mem::take(&mut self.entries);
        self.entries = split::join(own, shared.entries, &link)?;
        self.is_sparse |= shared.is_sparse;
        check_order(&self.entries)?;
        self.read_monitored();
        Ok(())
    }

    /// Its positions are those of all entries.
    fn read_monitored(&mut self) {
        let stored = self.monitored_apart.take();
        self.monitored = stored.and_then(|stored| Monitored::decode(&stored, self.entries.len() as u32));
    }

    /// The objects that it keeps alive: blobs of entries, cached trees of directories, and blobs for undoing
    /// resolved conflicts; some occur more than once. Commits of submodules are in other repositories.
    pub fn named_objects(&self) -> Vec<ObjectId> {
        let own = self.entries.iter().filter(|(_, entry)| entry.mode != Mode::Gitlink);
        let undo = self.resolve_undo.iter().flat_map(|undo| undo.stages.iter().flatten());
        let mut ids: Vec<ObjectId> = own.map(|(_, entry)| entry.id).chain(undo.map(|(_, id)| *id)).collect();
        let mut trees: Vec<&CacheTree> = self.cache_tree.iter().collect();
        while let Some(tree) = trees.pop() {
            ids.extend(tree.known.map(|(_, id)| id));
            trees.extend(tree.children().map(|(_, child)| child));
        }
        ids
    }
}

fn check_order(entries: &[(EntryKey, IndexEntry)]) -> Result<(), IndexFileError> {
    for pair in entries.windows(2) {
        match pair[0].0.cmp(&pair[1].0) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => return Err(IndexFileError::Twice(pair[0].0.path().to_vec())),
            std::cmp::Ordering::Greater => return Err(IndexFileError::Unordered),
        }
    }
    match entries.first() {
        Some((key, _)) if key.path().is_empty() => Err(IndexFileError::Name(Vec::new())),
        _ => Ok(()),
    }
}

struct Decoder<'a> {
    /// All bytes before the checksum.
    bytes: &'a [u8],
    at: usize,
    hash: HashKind,
    version: u32,
    /// The length of all paths so far.
    path_bytes: usize,
    previous: Vec<u8>,
}

impl<'a> Decoder<'a> {
    fn entries(&mut self, count: u32) -> Result<Vec<(EntryKey, IndexEntry)>, IndexFileError> {
        let shortest = STAT_BYTES + self.hash.len_in_bytes() + 2;
        // Too large a count is detected at the end of the bytes.
        let mut entries = Vec::with_capacity((count as usize).min(self.bytes.len() / shortest));
        for _ in 0..count {
            entries.push(self.entry()?);
        }
        Ok(entries)
    }

    fn entry(&mut self) -> Result<(EntryKey, IndexEntry), IndexFileError> {
        let start = self.at;
        let fixed = self.take(STAT_BYTES + self.hash.len_in_bytes() + 2)?;
        let mode = be::u32_at(fixed, 24);
        let stat = decode_stat(fixed);
        let id = StoredId::raw(fixed, STAT_BYTES, self.hash).expect("taken as long").to_id();
        let flags = u16_at(fixed, fixed.len() - 2);
        let extended = match flags & EXTENDED != 0 {
            true => u16_at(self.take(2)?, 0),
            false => 0,
        };
        if extended & !(SKIP_WORKTREE | INTENT_TO_ADD) != 0 {
            return Err(IndexFileError::EntryFormat(u32::from(extended) << 16));
        }
        match self.version {
            4 => self.compressed_path()?,
            _ => self.padded_path(start, usize::from(flags) & MAX_LENGTH)?,
        }
        let path = &self.previous;
        let mode = Mode::of_bits(mode)
            .ok_or_else(|| IndexFileError::EntryMode { path: path.clone(), bits: mode })?;
        let entry = IndexEntry {
            id,
            mode,
            stat,
            assume_valid: flags & ASSUME_VALID != 0,
            skip_worktree: extended & SKIP_WORKTREE != 0,
            intent_to_add: extended & INTENT_TO_ADD != 0,
        };
        Ok((EntryKey::new(path, (flags >> STAGE_SHIFT & 3) as u8), entry))
    }

    /// Reads a path, and NULs up to a multiple of eight bytes since `start`.
    fn padded_path(&mut self, start: usize, length: usize) -> Result<(), IndexFileError> {
        let rest = &self.bytes[self.at..];
        let found = memchr::memchr(0, rest).ok_or(IndexFileError::TooSmall)?;
        if found.min(MAX_LENGTH) != length {
            return Err(IndexFileError::Name(rest[..found].to_vec()));
        }
        self.previous.clear();
        self.previous.extend_from_slice(&rest[..found]);
        let whole = (self.at + found - start + 8) & !7;
        self.at = start;
        self.take(whole).map(drop)
    }

    /// Reads how much of the last path to cut off, and what to append.
    fn compressed_path(&mut self) -> Result<(), IndexFileError> {
        let cut = self.varint()?;
        let rest = &self.bytes[self.at..];
        let length = memchr::memchr(0, rest).ok_or(IndexFileError::TooSmall)?;
        let kept = usize::try_from(cut).ok().and_then(|cut| self.previous.len().checked_sub(cut));
        let kept = kept.ok_or_else(|| IndexFileError::Name(self.previous.clone()))?;
        self.previous.truncate(kept);
        self.previous.extend_from_slice(&rest[..length]);
        self.at += length + 1;
        self.path_bytes += self.previous.len();
        if self.path_bytes / MAX_PATHS_TIMES > self.bytes.len() {
            return Err(IndexFileError::Name(self.previous[..self.previous.len().min(MAX_LENGTH)].to_vec()));
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, IndexFileError> {
        let mut rest = &self.bytes[self.at..];
        let value = varint(&mut rest);
        self.at = self.bytes.len() - rest.len();
        value.ok_or_else(|| match rest.is_empty() {
            true => IndexFileError::TooSmall,
            false => IndexFileError::Name(self.previous.clone()),
        })
    }

    fn extensions(&mut self, file: &mut IndexFile) -> Result<(), IndexFileError> {
        while self.at < self.bytes.len() {
            let header = self.take(8)?;
            let signature: [u8; 4] = *header.first_chunk().expect("eight bytes");
            let content = self.take(be::u32_at(header, 4) as usize)?;
            match &signature {
                b"TREE" => file.cache_tree = CacheTree::decode(content, self.hash),
                b"REUC" => file.resolve_undo = ResolveUndo::decode(content, self.hash).unwrap_or_default(),
                b"UNTR" => file.untracked = Some(content.to_vec()),
                b"link" => {
                    file.link = Some(Link::decode(content, self.hash)?).filter(|link| !link.shared.is_null())
                }
                b"sdir" => file.is_sparse = true,
                b"FSMN" => file.monitored_apart = Some(content.to_vec()),
                // Offsets within this file.
                b"EOIE" | b"IEOT" => {}
                _ if signature[0].is_ascii_uppercase() => {}
                _ => return Err(IndexFileError::Extension(signature)),
            }
        }
        Ok(())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], IndexFileError> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(IndexFileError::TooSmall)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn decode_stat(bytes: &[u8]) -> StatData {
    let number = |position: usize| be::u32_at(bytes, 4 * position);
    let time = |position| Time { seconds: number(position), nanoseconds: number(position + 1) };
    StatData {
        changed: time(0),
        modified: time(2),
        device: number(4),
        inode: number(5),
        user: number(7),
        group: number(8),
        size_bytes: number(9),
    }
}

/// The content of a new index.
#[derive(Debug, Clone, Copy)]
pub struct IndexParts<'a> {
    /// The cached trees of these entries.
    pub cache_tree: Option<&'a CacheTree>,
    /// Conflicts that were resolved.
    pub resolve_undo: &'a [ResolveUndo],
    /// The extension `UNTR`.
    pub untracked: Option<&'a [u8]>,
    /// What a file system monitor has said.
    pub monitored: Option<&'a Monitored>,
    /// Whether directories may replace the entries below them.
    pub is_sparse: bool,
    /// The shared index, if the entries are only what differs from it.
    pub link: Option<&'a Link>,
    /// Whether to leave the checksum out (`index.skipHash`).
    pub skip_hash: bool,
}

/// Writes an index of ascending entries, or the entries of a [`split`](super::split()) one; also returns its checksum. Version 3 is written only if an entry has
/// flags that version 2 cannot store.
pub fn encode<'a>(
    entries: impl ExactSizeIterator<Item = (&'a EntryKey, &'a IndexEntry)> + Clone,
    version: u32,
    parts: &IndexParts<'_>,
    hash: HashKind,
) -> (Vec<u8>, ObjectId) {
    let is_extended = entries.clone().any(|(_, entry)| entry.is_extended());
    let version = if version == 4 { 4 } else { 2 + u32::from(is_extended) };
    let mut out = Vec::with_capacity(HEADER_BYTES + entries.len() * 96);
    out.extend_from_slice(b"DIRC");
    out.extend_from_slice(&version.to_be_bytes());
    let count = u32::try_from(entries.len()).expect("more entries than memory has room for");
    out.extend_from_slice(&count.to_be_bytes());
    let mut previous: &[u8] = &[];
    for (key, entry) in entries {
        encode_entry(key, entry, version, previous, &mut out);
        previous = key.path();
    }
    let mut extension = |signature: &[u8; 4], encode: &mut dyn FnMut(&mut Vec<u8>)| {
        out.extend_from_slice(signature);
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        encode(&mut out);
        let length = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    };
    if let Some(link) = parts.link {
        extension(b"link", &mut |out| link.encode(out));
    }
    if let Some(tree) = parts.cache_tree {
        extension(b"TREE", &mut |out| tree.encode(b"", out));
    }
    if !parts.resolve_undo.is_empty() {
        extension(b"REUC", &mut |out| parts.resolve_undo.iter().for_each(|undo| undo.encode(out)));
    }
    if let Some(untracked) = parts.untracked {
        extension(b"UNTR", &mut |out| out.extend_from_slice(untracked));
    }
    if let Some(monitored) = parts.monitored {
        extension(b"FSMN", &mut |out| monitored.encode(out));
    }
    if parts.is_sparse {
        extension(b"sdir", &mut |_| {});
    }
    let checksum = match parts.skip_hash {
        true => ObjectId::null(hash),
        false => {
            let mut hasher = TrailerHasher::new(hash);
            hasher.update(&out);
            hasher.finish()
        }
    };
    out.extend_from_slice(checksum.as_slice());
    (out, checksum)
}

fn encode_entry(key: &EntryKey, entry: &IndexEntry, version: u32, previous: &[u8], out: &mut Vec<u8>) {
    let (start, path, stat) = (out.len(), key.path(), &entry.stat);
    let numbers = [
        stat.changed.seconds,
        stat.changed.nanoseconds,
        stat.modified.seconds,
        stat.modified.nanoseconds,
        stat.device,
        stat.inode,
        entry.mode.bits(),
        stat.user,
        stat.group,
        stat.size_bytes,
    ];
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
    out.extend_from_slice(entry.id.as_slice());
    let mut flags = path.len().min(MAX_LENGTH) as u16 | u16::from(key.stage()) << STAGE_SHIFT;
    flags |= if entry.assume_valid { ASSUME_VALID } else { 0 };
    flags |= if entry.is_extended() { EXTENDED } else { 0 };
    out.extend_from_slice(&flags.to_be_bytes());
    if entry.is_extended() {
        let skip = if entry.skip_worktree { SKIP_WORKTREE } else { 0 };
        let intent = if entry.intent_to_add { INTENT_TO_ADD } else { 0 };
        out.extend_from_slice(&(skip | intent).to_be_bytes());
    }
    if version == 4 {
        let common = previous.iter().zip(path).take_while(|(a, b)| a == b).count();
        encode_varint(previous.len() - common, out);
        out.extend_from_slice(&path[common..]);
        out.push(0);
    } else {
        out.extend_from_slice(path);
        let whole = (out.len() - start + 8) & !7;
        out.resize(start + whole, 0);
    }
}
