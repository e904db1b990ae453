//! Numbers of packs and packed objects, and locations of objects.

/// The number of a packed object, valid only within its [`Snapshot`](crate::Snapshot). Not every number below
/// [`Snapshot::numbers_end`](crate::Snapshot::numbers_end) is in use. Units follow each other; within a unit,
/// objects are in index order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectIx(pub u32);

/// The number of a pack in a [`Snapshot`](crate::Snapshot).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackIx(pub u32);

/// The location of a packed object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Location {
    /// The pack.
    pub pack: PackIx,
    /// The offset of its entry.
    pub offset: u64,
}
