//! How a built repository stores its objects and refs.

/// Which bitmap to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bitmap {
    /// Write no bitmap.
    #[default]
    No,
    /// One without a lookup table.
    Plain,
    /// One with a lookup table.
    LookupTable,
}

/// Which commit-graph to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GraphLayout {
    /// Write no commit-graph.
    #[default]
    No,
    /// One file.
    Single,
    /// A chain of two files.
    Split,
}

/// Which objects are loose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loose {
    /// All objects are in packs.
    #[default]
    No,
    /// The objects of the newest pack; needs at least two packs.
    Newest,
    /// All objects are loose.
    All,
}

/// The storage of objects and refs.
#[derive(Debug, Clone)]
pub struct Storage {
    /// Packs that share the history, oldest first; at least 1.
    pub packs: usize,
    /// Which objects are loose.
    pub loose: Loose,
    /// Whether the oldest pack has a `.keep`.
    pub keep_oldest: bool,
    /// Whether the older half of the packs is in another repository, beside this one.
    pub alternate: bool,
    /// Whether to write a multi-pack-index; the bitmap then belongs to it.
    pub multi_pack_index: bool,
    /// The bitmap.
    pub bitmap: Bitmap,
    /// The commit-graph.
    pub commit_graph: GraphLayout,
    /// Cut the history to this depth.
    pub shallow_depth: Option<usize>,
    /// Whether refs are in `packed-refs` (with the newest one loose).
    pub packed_refs: bool,
}

impl Default for Storage {
    fn default() -> Self {
        Storage {
            packs: 1,
            loose: Loose::No,
            keep_oldest: false,
            alternate: false,
            multi_pack_index: false,
            bitmap: Bitmap::No,
            commit_graph: GraphLayout::No,
            shallow_depth: None,
            packed_refs: true,
        }
    }
}
