//! Numbers for packs and packed objects, and where those are stored.

/// The number of a packed object in a [`Snapshot`](crate::Snapshot), which alone gives them: not each number below
/// [`Snapshot::numbers_end`](crate::Snapshot::numbers_end) is that of an object. Units follow each other, and within a unit objects are in the order of its
/// index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectIx(pub u32);

/// The number of a pack in a [`Snapshot`](crate::Snapshot).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackIx(pub u32);

/// Where a packed object is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Location {
    /// The pack.
    pub pack: PackIx,
    /// Where its entry starts.
    pub offset: u64,
}
