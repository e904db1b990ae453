//! A file of bitmaps, before and after it is opened.

use std::path::PathBuf;

use packrace_format::bitmap::BitmapIndex;
use packrace_os::Mapped;

use crate::objects::numbers::PackIx;

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
    /// Those of the multi-pack-index of this object directory, in the order that it says.
    Multi { dir: usize },
}

/// An opened bitmap file.
#[derive(Debug)]
pub(crate) struct OpenBitmap {
    pub(super) index: BitmapIndex<Mapped>,
    pub(super) owner: BitmapOwner,
    /// Whether the owner's index is the snapshot's first: its objects then have its positions for numbers. Otherwise
    /// they may have the numbers of copies in other units, and have to be looked up.
    pub(super) is_first: bool,
}
