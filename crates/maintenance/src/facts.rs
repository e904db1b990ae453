//! The facts about a repository that decide its maintenance. Plain data.

/// A measured repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its own packs.
    pub packs: Vec<PackFacts>,
    /// Its own loose objects, counted up to [`Facts::MAX_COUNTED`].
    pub loose_objects: u64,
    /// The multi-pack-index, if there is one.
    pub multi_pack_index: Option<IndexFacts>,
    /// The bitmap in use, if there is one.
    pub bitmap: Option<BitmapFacts>,
    /// Targets of refs, without duplicates.
    pub tips: u64,
    /// Tips without a bit in the bitmap: fetches walk from there.
    pub tips_outside_bitmap: u64,
    /// Tips of branches.
    pub branch_tips: u64,
    /// Branch tips outside the commit-graph.
    pub tips_outside_graph: u64,
    /// Files of the commit-graph.
    pub graph_files: u64,
    /// How refs are stored.
    pub refs: RefFacts,
    /// Expired entries of the reflog of `HEAD`.
    pub expired_log_entries: u64,
    /// Leftovers of dead processes.
    pub stale: StaleFacts,
    /// A sample of how the objects of the largest pack are stored, if worthwhile.
    pub deltas: Option<DeltaFacts>,
    /// Whether the repository is shallow.
    pub is_shallow: bool,
    /// Whether it has alternates.
    pub borrows: bool,
    /// Whether objects promised by a remote may be missing.
    pub is_partial: bool,
}

impl Facts {
    /// Maximum count of loose objects and refs.
    pub const MAX_COUNTED: u64 = 100_000;

    /// Objects in its own packs, including duplicates.
    pub fn packed_objects(&self) -> u64 {
        self.packs.iter().map(|pack| u64::from(pack.objects)).sum()
    }

    /// Bytes of its own packs.
    pub fn packed_bytes(&self) -> u64 {
        self.packs.iter().map(|pack| pack.bytes).sum()
    }

    /// Percentage of tips in the bitmap; `None` without tips.
    pub fn bitmap_coverage(&self) -> Option<u64> {
        let covered = self.tips.saturating_sub(self.tips_outside_bitmap);
        (self.tips > 0).then(|| if self.bitmap.is_some() { covered * 100 / self.tips } else { 0 })
    }

    /// Packs that may be repacked and that hold objects reachable from refs.
    pub(crate) fn ordinary(&self) -> impl Iterator<Item = &PackFacts> {
        self.packs.iter().filter(|pack| pack.kind == PackKind::Ordinary)
    }

    /// Those of them below a size: larger ones are kept by a full repack.
    pub(crate) fn ordinary_below(&self, big_pack_bytes: Option<u64>) -> impl Iterator<Item = &PackFacts> {
        self.ordinary().filter(move |pack| big_pack_bytes.is_none_or(|least| pack.bytes < least))
    }
}

/// The purpose of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PackKind {
    /// Objects of any kind.
    #[default]
    Ordinary,
    /// It has a `.keep`.
    Kept,
    /// It holds unreachable objects.
    Cruft,
    /// It holds objects promised by a remote.
    Promisor,
    /// It is unreadable and is left alone.
    Damaged,
}

/// A pack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackFacts {
    /// Its name without extension.
    pub name: String,
    /// Its purpose.
    pub kind: PackKind,
    /// Its objects.
    pub objects: u32,
    /// Its size, without the index.
    pub bytes: u64,
    /// Its age in seconds.
    pub age_seconds: u64,
    /// Expired objects of a cruft pack.
    pub expired: u32,
}

/// A multi-pack-index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexFacts {
    /// Packs that it covers and that exist.
    pub covered: usize,
    /// Packs that it names but that are missing.
    pub missing: usize,
}

/// A bitmap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BitmapFacts {
    /// Number of objects that it covers.
    pub objects: u64,
    /// The age in seconds of the file that it belongs to.
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
    /// As a stack of this many reftables.
    Tables(u64),
}

impl Default for RefFacts {
    fn default() -> Self {
        RefFacts::Files { loose: 0, packed_bytes: 0 }
    }
}

/// Leftovers of dead processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StaleFacts {
    /// Files and folders.
    pub count: u64,
    /// Their size, without folders.
    pub bytes: u64,
}

/// How a sample of trees and blobs of a pack is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeltaFacts {
    /// The name of the pack.
    pub pack: String,
    /// Number of sampled objects.
    pub sampled: u64,
    /// How many of them are stored whole.
    pub whole: u64,
    /// Whether this pack is already the result of a new search for deltas.
    pub is_searched: bool,
    /// What such a search would save, if that was estimated.
    pub gain: Option<SearchGain>,
}

/// Sizes of some parts of the history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchGain {
    /// Of their deltas, as stored.
    pub stored_bytes: u64,
    /// Of all their objects, after a new search for deltas.
    pub searched_bytes: u64,
}

impl SearchGain {
    /// How much a search saves; 0 if nothing.
    pub fn saved_percent(&self) -> u64 {
        let saved = self.stored_bytes.saturating_sub(self.searched_bytes);
        (saved * 100).checked_div(self.stored_bytes).unwrap_or(0)
    }
}
