//! An index whose entries are mostly in another file (gitformat-index, "Split index").

use std::collections::HashSet;

use packrace_object::{HashKind, ObjectId, StoredId};

use super::{EntryKey, IndexEntry, IndexFileError};
use crate::bitmap::{Bits, Ewah, EwahBuf};

/// The extension `link`.
#[derive(Debug, Clone)]
pub struct Link {
    /// The checksum of the shared index, which is part of its name; null if there is none.
    pub shared: ObjectId,
    /// The two sets of positions in the shared index, as stored; empty if nothing has changed.
    bitmaps: Vec<u8>,
}

impl Link {
    pub(super) fn decode(bytes: &[u8], hash: HashKind) -> Result<Self, IndexFileError> {
        let shared =
            StoredId::raw(bytes, 0, hash).ok_or(IndexFileError::Link("extension too short"))?.to_id();
        Ok(Link { shared, bitmaps: bytes[hash.len_in_bytes()..].to_vec() })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.shared.as_slice());
        out.extend_from_slice(&self.bitmaps);
    }

    /// The positions of deleted entries in a shared index of this length, which may have been added again.
    pub fn deleted(&self, length: u32) -> Result<Vec<u32>, IndexFileError> {
        Ok(self.bitmaps(length)?.0.iter_ones().collect())
    }

    /// The deleted and the replaced entries of a shared index of `length`.
    fn bitmaps(&self, length: u32) -> Result<(Bits, Bits), IndexFileError> {
        if self.bitmaps.is_empty() {
            return Ok((Bits::new(length), Bits::new(length)));
        }
        let bytes = &self.bitmaps;
        let read = |at, what| {
            let (set, end) = Ewah::parse(bytes, at, bytes.len()).map_err(|_| IndexFileError::Link(what))?;
            Ok((set.to_bits(length).map_err(|_| IndexFileError::Link(what))?, end))
        };
        let (delete, end) = read(0, "corrupt delete bitmap")?;
        let (replace, end) = read(end, "corrupt replace bitmap")?;
        match end == bytes.len() {
            true => Ok((delete, replace)),
            false => Err(IndexFileError::Link("garbage at the end")),
        }
    }
}

/// What an index holds beside its shared index.
#[derive(Debug)]
pub struct Split<'a> {
    /// The extension.
    pub link: Link,
    /// Entries to write: replacements, without names, and then added entries.
    pub entries: Vec<(EntryKey, &'a IndexEntry)>,
    /// How many entries were added.
    pub added: usize,
}

/// Compares an index with a shared one; both are in ascending order. Entries that were deleted once stay so: if there is one again, it
/// is an added one, as in git.
pub fn split<'a>(
    entries: impl Iterator<Item = (&'a EntryKey, &'a IndexEntry)>,
    shared: &[(EntryKey, IndexEntry)],
    deleted: &HashSet<EntryKey>,
    checksum: ObjectId,
) -> Split<'a> {
    let (mut delete, mut replace) = (Vec::new(), Vec::new());
    let (mut written, mut added) = (Vec::new(), Vec::new());
    let mut shared = (0u32..).zip(shared).peekable();
    for (key, entry) in entries {
        while let Some((position, _)) = shared.next_if(|(_, (old, _))| old < key) {
            delete.push(position);
        }
        match shared.next_if(|(_, (old, _))| old == key) {
            None => added.push((key.clone(), entry)),
            Some((position, _)) if deleted.contains(key) => {
                delete.push(position);
                added.push((key.clone(), entry));
            }
            Some((_, (_, old))) if old == entry => {}
            Some((position, _)) => {
                replace.push(position);
                written.push((EntryKey::new(b"", key.stage()), entry));
            }
        }
    }
    delete.extend(shared.map(|(position, _)| position));
    let mut bitmaps = Vec::new();
    EwahBuf::from_ascending(delete).write(&mut bitmaps);
    EwahBuf::from_ascending(replace).write(&mut bitmaps);
    let link = Link { shared: checksum, bitmaps };
    let count = added.len();
    written.append(&mut added);
    Split { link, entries: written, added: count }
}

/// Merges the entries of the shared index with those of the split one.
pub(super) fn join(
    own: Vec<(EntryKey, IndexEntry)>,
    shared: Vec<(EntryKey, IndexEntry)>,
    link: &Link,
) -> Result<Vec<(EntryKey, IndexEntry)>, IndexFileError> {
    let corrupt = || IndexFileError::Link("corrupt replace bitmap");
    let (delete, replace) = link.bitmaps(shared.len() as u32)?;
    let mut own = own.into_iter();
    let mut entries = Vec::with_capacity(own.len() + shared.len());
    for (position, (key, entry)) in (0..).zip(shared) {
        let found = match replace.contains(position) {
            false => (key, entry),
            true => {
                let (named, replacement) = own.next().ok_or_else(corrupt)?;
                // The name may be omitted, because it is the same.
                if !named.path().is_empty() && named.path() != key.path() {
                    return Err(corrupt());
                }
                (EntryKey::new(key.path(), named.stage()), replacement)
            }
        };
        if !delete.contains(position) {
            entries.push(found);
        }
    }
    entries.extend(own);
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}
