//! Whether the files of a snapshot are as they were when they were mapped: docs/decisions/0030-disk-faults.md.

use packrace_object::{HashKind, TrailerHasher};
use packrace_os::count::Role;
use packrace_os::{FileIdentity, Mapped, Standing, faults};

use super::{PackIx, Snapshot};
use crate::error::Error;
use crate::objects::pack::Pack;
use crate::objects::pack_set::{PackSet, UnitIndex};
use crate::objects::verified;

impl Snapshot {
    /// An error if a fault was met in any file that is mapped: what was made of it is worth nothing. Costs a load where no map
    /// of the process was ever damaged, and else one a map.
    pub fn check_maps(&self) -> Result<(), Error> {
        if faults::damaged_maps() == 0 {
            return Ok(());
        }
        let own = self.listed().into_iter().flat_map(|set| &set.packs).flat_map(Pack::maps);
        let own = own.chain(self.helpers());
        own.into_iter().try_for_each(Mapped::check)?;
        match self.lock_later().clone() {
            Some(later) => later.check_maps(),
            None => Ok(()),
        }
    }

    /// The same, and an error if one of these packs, or a file that was used to find their objects, was changed in place: cut
    /// off within a page, or written over. For what is made of them and not told yet. Up to three looks a pack, and one each
    /// for multi-pack-index, bitmaps and commit-graph.
    pub fn check_files(&self, packs: impl IntoIterator<Item = PackIx>) -> Result<(), Error> {
        for pack in packs {
            self.packs()[pack.0 as usize].check_files()?;
        }
        let hash = self.hash_kind();
        self.helpers().try_for_each(|map| check_helper(map, hash))?;
        // Hashing what was touched may have met a fault.
        self.check_maps()
    }

    /// The same for all packs that were opened: for what says of objects in any of them that they are there.
    pub fn check_opened_files(&self) -> Result<(), Error> {
        let packs = self.listed().map_or(0, |set| set.packs.len());
        self.check_files((0..packs as u32).map(PackIx))?;
        match self.lock_later().clone() {
            Some(later) => later.check_opened_files(),
            None => Ok(()),
        }
    }

    /// Whether opening it again may show more: a map is damaged, or a pack could not be used when it was made, which whoever
    /// mends it in place does not show by the directory.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.listed().is_some_and(PackSet::has_unusable_packs) || self.check_maps().is_err()
    }

    /// The packs, if anybody has asked for them.
    fn listed(&self) -> Option<&PackSet> {
        self.shared.packs.get()?.as_ref().ok()
    }

    /// What may have been used beside packs and what stands next to each.
    fn helpers(&self) -> impl Iterator<Item = &Mapped> {
        let shared = &*self.shared;
        let multi =
            self.listed().into_iter().flat_map(|set| &set.units).filter_map(|unit| match &unit.index {
                UnitIndex::Multi { index, .. } => Some(index.data()),
                UnitIndex::Pack(_) => None,
            });
        // Those that nobody has opened have not decided anything.
        let graph =
            shared.commit_graph_files.iter().flatten().filter(|_| shared.commit_graph.get().is_some());
        let bitmaps = self.listed().into_iter().flat_map(|set| &set.bitmap_files);
        let bitmaps = bitmaps.filter(|_| shared.bitmap.get().is_some());
        multi.chain(graph).chain(bitmaps.map(|file| &file.bytes))
    }
}

/// An error if a map of a pack, of which ranges were sent, is damaged, or its file is not what it was: for those who have the
/// map and not the snapshot that it comes from. One look; a file that was touched is hashed, once for each version.
pub fn check_unchanged(map: &Mapped, hash: HashKind) -> Result<(), Error> {
    match map.look(Role::Pack) {
        Standing::Same | Standing::Elsewhere => Ok(()),
        Standing::Damaged(damaged) => Err(damaged.into()),
        // As each push does whose objects are in it already (`freshen`).
        Standing::Touched(now) => verify(map, now, || is_hashed(map, hash)),
    }
}

impl Pack {
    /// See [`Snapshot::check_files`].
    fn check_files(&self) -> Result<(), Error> {
        // Of one that was never opened, or cannot be, nothing was made.
        if !self.is_open() {
            return Ok(());
        }
        let hash = self.checksum().kind();
        check_unchanged(self.map(), hash)?;
        // Another pack may have been written over it.
        if !self.bytes().ends_with(self.checksum().as_bytes()) {
            return Err(self.map().mark_damaged().into());
        }
        self.maps_beside().try_for_each(|map| check_helper(map, hash))
    }
}

/// A file that ends with a hash of all before, and that nobody touches who does not write to it.
fn check_helper(map: &Mapped, hash: HashKind) -> Result<(), Error> {
    match map.look(Role::Index) {
        Standing::Same | Standing::Elsewhere => Ok(()),
        Standing::Damaged(damaged) => Err(damaged.into()),
        // A link that is made to it changes one of its times only (`git clone --local`).
        Standing::Touched(now) if now.modified == map.identity().and_then(|file| file.modified) => {
            verify(map, now, || is_hashed(map, hash))
        }
        Standing::Touched(_) => Err(map.mark_damaged().into()),
    }
}

/// Marks the map if it is not as it has to be, unless this version of the file was found right before.
fn verify(map: &Mapped, now: FileIdentity, is_right: impl FnOnce() -> bool) -> Result<(), Error> {
    let verify = || if is_right() { Ok(()) } else { Err(map.mark_damaged()) };
    Ok(verified::once_of(vec![now], verify)?)
}

/// Whether the last bytes are the hash of all before them.
fn is_hashed(bytes: &[u8], hash: HashKind) -> bool {
    let Some(at) = bytes.len().checked_sub(hash.len_in_bytes()) else { return false };
    let mut hasher = TrailerHasher::new(hash);
    hasher.update(&bytes[..at]);
    hasher.finish().as_bytes() == &bytes[at..]
}

#[cfg(test)]
mod tests;
