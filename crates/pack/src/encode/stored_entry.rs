//! Entries of stored packs: where they stand, what their headers say, and what they are deltas of.

use packrace_format::pack::{self, EntryKind};
use packrace_store::PackIx;

use crate::error::{Error, Reason};
use crate::universe::{Ix, Universe};

/// A stored entry whose header was read. The range lies within the pack's bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredEntry {
    pub(crate) pack: PackIx,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) header: pack::EntryHeader,
}

impl StoredEntry {
    /// The entry at this position of a pack.
    pub(crate) fn at(universe: &Universe, pack: PackIx, position: u32) -> Result<Self, Error> {
        let stored = &universe.snapshot().packs()[pack.0 as usize];
        let (start, end) = stored.entry_range(position);
        let bounds = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let bytes = bounds.and_then(|(start, end)| Some((start, end, stored.bytes().get(start..end)?)));
        let Some((start, end, bytes)) = bytes else {
            return Err(damaged(universe, pack, start, "the entry reaches beyond the end of the pack"));
        };
        let header = pack::parse_entry_header(bytes, universe.hash())
            .map_err(|error| damaged(universe, pack, start as u64, error.what))?;
        Ok(StoredEntry { pack, start, end, header })
    }

    pub(crate) fn is_delta(&self) -> bool {
        !matches!(self.header.kind, EntryKind::Object(_))
    }

    /// Where what follows the header begins.
    pub(crate) fn body_at(&self) -> usize {
        self.start + self.header.length
    }

    /// The object.
    pub(crate) fn ix(&self, universe: &Universe) -> Result<Ix, Error> {
        let ix = universe.snapshot().ix_of_offset(self.pack, self.start as u64);
        Ok(Ix(ix.ok_or_else(|| self.damaged(universe, "the entry is not in the index"))?.0))
    }

    /// Where the base begins that a delta names by this distance.
    pub(crate) fn base_offset(&self, universe: &Universe, distance: u64) -> Result<u64, Error> {
        let start = self.start as u64;
        let base = start.checked_sub(distance).filter(|base| *base < start);
        base.ok_or_else(|| self.damaged(universe, "delta base offset is out of bound"))
    }

    /// The object that begins where the base of this entry does.
    pub(crate) fn base_at(&self, universe: &Universe, offset: u64) -> Result<Ix, Error> {
        let base = universe.snapshot().ix_of_offset(self.pack, offset);
        Ok(Ix(base.ok_or_else(|| self.damaged(universe, "delta base is not in the index"))?.0))
    }

    /// What this is a delta of; `None` for a whole object and where a base that is named is not here.
    pub(crate) fn base(&self, universe: &Universe) -> Result<Option<Ix>, Error> {
        match self.header.kind {
            EntryKind::Object(_) => Ok(None),
            EntryKind::OfsDelta { distance } => {
                self.base_at(universe, self.base_offset(universe, distance)?).map(Some)
            }
            EntryKind::RefDelta { base } => universe.find(&base),
        }
    }

    fn damaged(&self, universe: &Universe, what: &str) -> Error {
        damaged(universe, self.pack, self.start as u64, what)
    }
}

fn damaged(universe: &Universe, pack: PackIx, offset: u64, what: &str) -> Error {
    let pack = universe.snapshot().packs()[pack.0 as usize].name().to_string();
    Reason::DamagedEntry { pack, offset, what: what.to_owned() }.into()
}
