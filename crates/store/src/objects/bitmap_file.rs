//! A bitmap file, before and after it is opened.

use std::path::PathBuf;

use packrace_format::bitmap::BitmapIndex;
use packrace_os::Mapped;

use crate::objects::numbers::PackIx;

/// A bitmap file, mapped with the snapshot and opened on first use.
#[derive(Debug)]
pub(crate) struct BitmapFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Mapped,
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

/// An opened bitmap file.
#[derive(Debug)]
pub(crate) struct OpenBitmap {
    pub(super) index: BitmapIndex<Mapped>,
    pub(super) owner: BitmapOwner,
    /// Whether the owner's index is the first of the snapshot, so that positions equal object numbers.
    /// Otherwise objects must be looked up: their numbers may belong to copies in other units.
    pub(super) is_first: bool,
}
