//! How the objects and refs of a built repository lie on disk.

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

/// Which objects stand outside packs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loose {
    /// All objects are in packs.
    #[default]
    No,
    /// What the newest pack would hold; needs at least two packs.
    Newest,
    /// No object is in a pack.
    All,
}

/// How the objects lie on disk.
#[derive(Debug, Clone)]
pub struct Storage {
    /// Packs that share the history, oldest first; at least 1.
    pub packs: usize,
    /// Objects outside packs.
    pub loose: Loose,
    /// Whether the oldest pack has a `.keep`.
    pub keep_oldest: bool,
    /// Whether the older half of the packs lies in another repository, beside this one.
    pub alternate: bool,
    /// Whether there is a multi-pack-index; the bitmap then belongs to it.
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
