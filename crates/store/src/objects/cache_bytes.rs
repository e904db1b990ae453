//! Sizes of the delta base cache of an [`ObjectReader`](super::reader::ObjectReader), by how much it reads. A
//! larger cache costs memory in each thread; a smaller one applies the same deltas again.

/// For single objects far apart in history: tags, files of rules. Each chain is read once; the cache only
/// holds its links.
pub const FEW_OBJECTS: usize = 1 << 20;

/// For part of a history, or all of its commits: many are short deltas of their neighbours.
pub const MANY_OBJECTS: usize = 8 << 20;

/// For all objects of a history: versions of one path are deltas of each other, with other
/// paths between them.
pub const WHOLE_HISTORY: usize = 16 << 20;
