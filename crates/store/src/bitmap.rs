//! The reachability bitmaps of a snapshot, in the snapshot's numbers.

use std::path::PathBuf;

use packrace_format::bitmap::{BitmapIndex, Bits};
use packrace_os::Mapped;

use crate::snapshot::{ObjectIx, PackIx, Snapshot, UnitIndex};

/// A bitmap file that was mapped with the snapshot and is looked into when first needed.
#[derive(Debug)]
pub(crate) struct BitmapFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Mapped,
    pub(crate) owner: BitmapOwner,
}

/// Whose objects the bits stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BitmapOwner {
    /// Those of a pack, in the order of the pack.
    Pack(PackIx),
    /// Those of the multi-pack-index that is this unit, in the order that it says.
    Multi(usize),
}

/// An opened bitmap file.
#[derive(Debug)]
pub(crate) struct OpenBitmap {
    index: BitmapIndex<Mapped>,
    owner: BitmapOwner,
}

impl OpenBitmap {
    /// Opens `file` and checks all of it; a damaged one is reported and not used.
    ///
    /// The checksum is verified because a flipped bit in a bitmap would otherwise leave objects out of a response.
    pub(crate) fn new(file: &BitmapFile, snapshot: &Snapshot) -> Option<Self> {
        let (objects, checksum) = match file.owner {
            BitmapOwner::Pack(pack) => {
                let pack = &snapshot.packs()[pack.0 as usize];
                (pack.len(), *pack.checksum())
            }
            BitmapOwner::Multi(unit) => match &snapshot.units()[unit].index {
                UnitIndex::Multi { index, .. } if index.has_bit_order() => (index.len(), index.checksum()),
                _ => return None,
            },
        };
        let opened = BitmapIndex::open(file.bytes.clone(), objects, snapshot.hash_kind())
            .and_then(|index| index.verify_checksum().map(|()| index));
        match opened {
            Ok(index) if index.owner_checksum() == checksum => Some(OpenBitmap { index, owner: file.owner }),
            Ok(_) => {
                tracing::warn!("bitmap {} is not used: it was made for other packs", file.path.display());
                None
            }
            Err(error) => {
                tracing::warn!("bitmap {} is not used: {error}", file.path.display());
                None
            }
        }
    }
}

/// A stored bitmap is damaged: do without bitmaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedBitmap;

/// The bitmaps of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotBitmap<'a> {
    snapshot: &'a Snapshot,
    open: &'a OpenBitmap,
}

impl<'a> SnapshotBitmap<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, open: &'a OpenBitmap) -> Self {
        SnapshotBitmap { snapshot, open }
    }

    /// No bit set, as many bits as there are objects.
    pub fn no_bits(&self) -> Bits {
        Bits::new(self.open.index.objects())
    }

    /// Adds everything that a commit reaches to `bits`; false if no bitmap is stored for it. After an error `bits`
    /// are worth nothing.
    pub fn or_into(&self, commit: ObjectIx, bits: &mut Bits) -> Result<bool, DamagedBitmap> {
        let Some(position) = self.position(commit) else { return Ok(false) };
        match self.open.index.or_bitmap_into(position, bits) {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(error)) => {
                tracing::warn!("bitmaps are not used: {error}");
                Err(DamagedBitmap)
            }
        }
    }

    /// The object that a bit stands for.
    pub fn bit_to_ix(&self, bit: u32) -> Option<ObjectIx> {
        match self.open.owner {
            BitmapOwner::Pack(pack) => {
                let stored = &self.snapshot.packs()[pack.0 as usize];
                let position = stored.reverse().index_position_at(bit);
                match self.snapshot.unit_of_pack(pack) {
                    Some(unit) => Some(ObjectIx(unit.range().start + position)),
                    None => self.snapshot.lookup(stored.index().id_at(position)),
                }
            }
            BitmapOwner::Multi(unit) => {
                let unit = &self.snapshot.units()[unit];
                let UnitIndex::Multi { index, .. } = &unit.index else { return None };
                Some(ObjectIx(unit.range().start + index.position_at_bit(bit)?))
            }
        }
    }

    /// The bit that stands for an object, if it is one of the owner's.
    pub fn ix_to_bit(&self, ix: ObjectIx) -> Option<u32> {
        let position = self.position(ix)?;
        match self.open.owner {
            BitmapOwner::Pack(pack) => {
                let stored = &self.snapshot.packs()[pack.0 as usize];
                stored.position_of_offset(stored.index().offset_at(position))
            }
            BitmapOwner::Multi(unit) => match &self.snapshot.units()[unit].index {
                UnitIndex::Multi { index, .. } => index.bit_of_position(position),
                UnitIndex::Pack(_) => None,
            },
        }
    }

    /// The object's position in the owner's index.
    fn position(&self, ix: ObjectIx) -> Option<u32> {
        let unit = match self.open.owner {
            BitmapOwner::Pack(pack) => match self.snapshot.unit_of_pack(pack) {
                Some(unit) => unit,
                None => {
                    return self.snapshot.packs()[pack.0 as usize].index().position_of(self.snapshot.id(ix));
                }
            },
            BitmapOwner::Multi(unit) => &self.snapshot.units()[unit],
        };
        let range = unit.range();
        range.contains(&ix.0).then(|| ix.0 - range.start)
    }
}
