/// The number of an object during a request: the snapshot's number for a packed object; loose objects follow
/// in the order in which they are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectNo(pub(crate) u32);
