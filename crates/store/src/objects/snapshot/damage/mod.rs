//! Detects changes to the files of a snapshot since they were mapped: docs/decisions/0030-disk-faults.md.

use std::sync::Arc;

use packrace_format::multi_pack_index::MultiPackIndex;
use packrace_object::{HashKind, ObjectId, TrailerHasher};
use packrace_os::count::Role;
use packrace_os::{FileIdentity, Mapped, Standing, faults};

use super::{KnownPacks, MIDX_CHAIN_DIR, PackIx, Snapshot};
use crate::error::Error;
use crate::objects::multi_pack_index;
use crate::objects::pack::Pack;
use crate::objects::pack_set::{PackSet, UnitIndex};
use crate::objects::sources::Sources;
use crate::objects::verified;

impl Snapshot {
    /// An error if any mapped file had a fault: results derived from it are invalid. Costs one load if no map
    /// of the process was ever damaged, otherwise one per map.
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

    /// As above; also an error if one of these packs, or a file used to find their objects, was changed in
    /// place: truncated within a page, or overwritten. For results that are not sent yet. Costs up to three
    /// stats per pack, and one each for multi-pack-index, bitmaps and commit-graph.
    pub fn check_files(&self, packs: impl IntoIterator<Item = PackIx>) -> Result<(), Error> {
        for pack in packs {
            self.packs()[pack.0 as usize].check_files()?;
        }
        let hash = self.hash_kind();
        self.helpers().try_for_each(|map| check_helper(map, hash))?;
        // Hashing touched files may have met a fault.
        self.check_maps()
    }

    /// As above for all opened packs: for statements that objects exist in any of them.
    pub fn check_opened_files(&self) -> Result<(), Error> {
        let packs = self.listed().map_or(0, |set| set.packs.len());
        self.check_files((0..packs as u32).map(PackIx))?;
        match self.lock_later().clone() {
            Some(later) => later.check_opened_files(),
            None => Ok(()),
        }
    }

    /// The objects now, found by the indexes of the packs alone, if a multi-pack-index is damaged, which is
    /// reported: for a request that has failed. Opening such an index does not hash it.
    pub fn without_damaged_multi_pack_index(&self) -> Result<Option<Arc<Snapshot>>, Error> {
        let mut is_damaged = false;
        for unit in self.units() {
            let UnitIndex::Multi { index, dir, is_chain, .. } = &unit.index else { continue };
            if let Err(error) = multi_pack_index::verify(index) {
                let name = if *is_chain { MIDX_CHAIN_DIR } else { "multi-pack-index" };
                tracing::error!("ignoring {}: {error}", self.dirs[*dir].pack_dir().join(name).display());
                is_damaged = true;
            }
        }
        if !is_damaged {
            return Ok(None);
        }
        let sources = Sources { use_multi_pack_index: false, ..self.shared.sources.clone() };
        // Others that share the directories of packs keep their indexes.
        let without = Snapshot::take(sources, self.attributes.clone(), &KnownPacks::default())?;
        without.list_packs()?;
        Ok(Some(Arc::new(without)))
    }

    /// Whether reopening may show more: a map is damaged, or a pack was unusable; a repair in place does not
    /// change the directory.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.listed().is_some_and(PackSet::has_unusable_packs) || self.check_maps().is_err()
    }

    /// The packs, if they have been listed.
    fn listed(&self) -> Option<&PackSet> {
        self.shared.packs.get()?.as_ref().ok()
    }

    /// The files that may have been used besides packs and their companions.
    fn helpers(&self) -> impl Iterator<Item = &Mapped> {
        let shared = &*self.shared;
        let multi = self.listed().into_iter().flat_map(|set| &set.units).flat_map(|unit| match &unit.index {
            UnitIndex::Multi { index, .. } => index.layers(),
            UnitIndex::Pack(_) => &[],
        });
        // Files that were never opened have not affected any result.
        let graph =
            shared.commit_graph_files.iter().flatten().filter(|_| shared.commit_graph.get().is_some());
        let bitmaps = self.listed().into_iter().flat_map(|set| &set.bitmap_files);
        let bitmaps = bitmaps.filter(|_| shared.bitmap.get().is_some());
        let bitmaps = bitmaps.flat_map(|file| &file.layers).map(|(_, bytes)| bytes);
        multi.map(MultiPackIndex::data).chain(graph).chain(bitmaps)
    }
}

/// An error if the map of a partly sent pack is damaged or its file has changed; for callers without the
/// snapshot. One stat; a touched file is hashed, once per version.
pub fn check_unchanged(map: &Mapped, hash: HashKind) -> Result<(), Error> {
    match map.look(Role::Pack) {
        Standing::Same | Standing::Elsewhere => Ok(()),
        Standing::Damaged(damaged) => Err(damaged.into()),
        // Every push of objects in the pack touches it (`freshen`).
        Standing::Touched(now) => verify(map, now, || is_hashed(map, hash)),
    }
}

impl Pack {
    /// See [`Snapshot::check_files`].
    fn check_files(&self) -> Result<(), Error> {
        // Nothing was read from a pack that was never opened or cannot be.
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

/// Checks a file that ends with a hash of its content and that only its writer touches, unless it is named by its hash:
/// files of a chain of commit-graphs, which every writer touches that keeps them.
fn check_helper(map: &Mapped, hash: HashKind) -> Result<(), Error> {
    match map.look(Role::Index) {
        Standing::Same | Standing::Elsewhere => Ok(()),
        Standing::Damaged(damaged) => Err(damaged.into()),
        // Creating a hard link changes only one of its times (`git clone --local`).
        Standing::Touched(now)
            if now.modified == map.identity().and_then(|file| file.modified)
                || is_named_by_hash(map, hash) =>
        {
            verify(map, now, || is_hashed(map, hash))
        }
        Standing::Touched(_) => Err(map.mark_damaged().into()),
    }
}

/// Marks the map as damaged unless it is intact; a version of the file that was verified before is not
/// verified again.
fn verify(map: &Mapped, now: FileIdentity, is_right: impl FnOnce() -> bool) -> Result<(), Error> {
    let verify = || if is_right() { Ok(()) } else { Err(map.mark_damaged()) };
    Ok(verified::once_of(vec![now], verify)?)
}

/// Whether the name of a file ends with the hash that the file ends with.
fn is_named_by_hash(map: &Mapped, hash: HashKind) -> bool {
    let name = map.path().and_then(|path| path.file_stem()).and_then(|stem| stem.to_str());
    let named = name.and_then(|name| ObjectId::from_hex(name.rsplit('-').next()?.as_bytes()).ok());
    named.is_some_and(|named| named.kind() == hash && map.ends_with(named.as_bytes()))
}

/// Whether the last bytes are the hash of the bytes before.
fn is_hashed(bytes: &[u8], hash: HashKind) -> bool {
    let Some(at) = bytes.len().checked_sub(hash.len_in_bytes()) else { return false };
    let mut hasher = TrailerHasher::new(hash);
    hasher.update(&bytes[..at]);
    hasher.finish().as_bytes() == &bytes[at..]
}

#[cfg(test)]
mod tests;
