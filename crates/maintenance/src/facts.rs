//! What is known of a repository when it is decided what it needs. Plain data.

/// A measured repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its own packs.
    pub packs: Vec<PackFacts>,
    /// Its own loose objects; no more than [`Facts::MAX_COUNTED`] are counted.
    pub loose_objects: u64,
    /// The multi-pack-index, if there is one.
    pub multi_pack_index: Option<IndexFacts>,
    /// The bitmap that is used, if there is one.
    pub bitmap: Option<BitmapFacts>,
    /// What refs point at, each object once.
    pub tips: u64,
    /// How many of them no bitmap knows of: fetches walk from there.
    pub tips_outside_bitmap: u64,
    /// Tips of branches.
    pub branch_tips: u64,
    /// How many of them no commit-graph has.
    pub tips_outside_graph: u64,
    /// Files of the commit-graph.
    pub graph_files: u64,
    /// How refs are stored.
    pub refs: RefFacts,
    /// Entries of the reflog of `HEAD` that are too old.
    pub expired_log_entries: u64,
    /// What processes have left that are no more.
    pub stale: StaleFacts,
    /// A look at how the objects of the largest pack are stored, if it is worth one.
    pub deltas: Option<DeltaFacts>,
    /// Whether history is cut somewhere.
    pub is_shallow: bool,
    /// Whether objects come from another repository.
    pub borrows: bool,
    /// Whether objects may be missing that a remote has promised.
    pub is_partial: bool,
}

impl Facts {
    /// Most loose objects and refs that are counted.
    pub const MAX_COUNTED: u64 = 100_000;

    /// Objects in its own packs, a copy each.
    pub fn packed_objects(&self) -> u64 {
        self.packs.iter().map(|pack| u64::from(pack.objects)).sum()
    }

    /// Bytes of its own packs.
    pub fn packed_bytes(&self) -> u64 {
        self.packs.iter().map(|pack| pack.bytes).sum()
    }

    /// How many of a hundred tips the bitmap knows of; `None` where there is nothing to know.
    pub fn bitmap_coverage(&self) -> Option<u64> {
        let covered = self.tips.saturating_sub(self.tips_outside_bitmap);
        (self.tips > 0).then(|| if self.bitmap.is_some() { covered * 100 / self.tips } else { 0 })
    }

    /// Packs that a repack may take apart and that hold what refs reach.
    pub(crate) fn ordinary(&self) -> impl Iterator<Item = &PackFacts> {
        self.packs.iter().filter(|pack| pack.kind == PackKind::Ordinary)
    }

    /// Those of them that are shorter: a longer one stays as it is when everything is packed anew.
    pub(crate) fn ordinary_below(&self, big_pack_bytes: Option<u64>) -> impl Iterator<Item = &PackFacts> {
        self.ordinary().filter(move |pack| big_pack_bytes.is_none_or(|least| pack.bytes < least))
    }
}

/// What a pack is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PackKind {
    /// Objects of any kind.
    #[default]
    Ordinary,
    /// It has a `.keep`.
    Kept,
    /// It holds what nothing refers to.
    Cruft,
    /// It holds what a remote has promised.
    Promisor,
    /// It cannot be read. It stays where it is.
    Damaged,
}

/// A pack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackFacts {
    /// Its name without extension.
    pub name: String,
    /// What it is for.
    pub kind: PackKind,
    /// Its objects.
    pub objects: u32,
    /// Its bytes, without those of its index.
    pub bytes: u64,
    /// How long ago it was written, in seconds.
    pub age_seconds: u64,
    /// Of a cruft pack, objects that have expired.
    pub expired: u32,
}

/// A multi-pack-index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexFacts {
    /// Packs that it covers.
    pub covered: usize,
    /// Packs that it names and that are not there.
    pub missing: usize,
}

/// A bitmap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BitmapFacts {
    /// How many objects it knows of.
    pub objects: u64,
    /// How long ago the file that it belongs to was written, in seconds.
    pub age_seconds: u64,
}

/// How refs are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefFacts {
    /// As files.
    Files {
        /// Files below `refs/`.
        loose: u64,
        /// The length of `packed-refs`.
        packed_bytes: u64,
    },
    /// As a stack of reftables, which has so many.
    Tables(u64),
}

impl Default for RefFacts {
    fn default() -> Self {
        RefFacts::Files { loose: 0, packed_bytes: 0 }
    }
}

/// What processes have left that are no more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StaleFacts {
    /// Files and folders.
    pub count: u64,
    /// Their bytes, without those of folders.
    pub bytes: u64,
}

/// How some trees and blobs of a pack are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeltaFacts {
    /// Looked at.
    pub sampled: u64,
    /// Of those, stored whole.
    pub whole: u64,
    /// Whether deltas were searched anew for this very pack.
    pub is_searched: bool,
}
