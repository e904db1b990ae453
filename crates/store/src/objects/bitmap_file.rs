//! A bitmap file, before and after it is opened.

use std::path::PathBuf;

use packrace_format::bitmap::BitmapIndex;
use packrace_os::Mapped;

use crate::objects::numbers::PackIx;

/// A bitmap file, mapped with the snapshot and opened on first use; of a chain of multi-pack-indexes, those of the
/// lowest files, up to the first without bitmaps.
#[derive(Debug)]
pub(crate) struct BitmapFile {
    /// Lowest first; not empty.
    pub(crate) layers: Vec<(PathBuf, Mapped)>,
    pub(crate) owner: BitmapOwner,
}

/// Whose objects the bits represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BitmapOwner {
    /// Those of a pack, in pack order.
    Pack(PackIx),
    /// Those of this object directory's multi-pack-index, in the order that it defines.
    Multi { dir: usize },
}

/// Opened bitmap files.
#[derive(Debug)]
pub(crate) struct OpenBitmap {
    /// Lowest first; not empty.
    pub(super) layers: Vec<BitmapIndex<Mapped>>,
    pub(super) owner: BitmapOwner,
    /// Whether the owner's index is the first of the snapshot, so that positions equal object numbers.
    /// Otherwise objects must be looked up: their numbers may belong to copies in other units.
    pub(super) is_first: bool,
}

impl OpenBitmap {
    /// The number of objects that have a bit.
    pub(super) fn objects(&self) -> u32 {
        self.layers.last().map_or(0, BitmapIndex::objects)
    }

    /// The hash of a path of the object at this position of the owner's index, if stored.
    pub(super) fn name_hash_at(&self, position: u32) -> Option<u32> {
        self.layers.iter().find(|layer| position < layer.objects())?.name_hash_at(position)
    }
}
