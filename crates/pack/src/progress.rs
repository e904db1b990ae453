/// A part of the work that is reported to a waiting user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Walking history: objects found so far.
    Enumerating,
    /// The same for unreachable objects.
    EnumeratingCruft,
    /// Deciding how to send each object.
    Counting,
    /// Searching for deltas among objects of the same path.
    CompressingByPath,
    /// Searching for deltas, and deflating objects without a usable representation.
    Compressing,
    /// Making the bytes of a pack.
    Writing,
    /// Removing loose objects that are also in a pack, by the first byte of their ids.
    RemovingDuplicates,
    /// Reading commits to choose those that get a bitmap.
    SelectingBitmaps,
    /// Finding what each commit introduces.
    ReadingTrees,
    /// Finding what the selected commits reach.
    BuildingBitmaps,
    /// Reading the indexes for a multi-pack-index.
    AddingPacks,
    /// Checking that the packs of a multi-pack-index exist.
    LookingForPacks,
    /// Checking the order of ids in a multi-pack-index.
    VerifyingOrder,
    /// Comparing a multi-pack-index with the indexes of its packs.
    VerifyingOffsets,
    /// Counting the objects that a multi-pack-index takes from each pack.
    CountingReferenced,
    /// Deleting packs that a multi-pack-index does not use.
    DeletingPacks,
    /// Looking for commits in all packs.
    FindingPackedCommits,
    /// Looking for commits in some packs.
    FindingCommits {
        /// The number of packs.
        packs: usize,
    },
    /// Collecting the commits that refs peel to.
    CollectingReferenced,
    /// Collecting the commits named on standard input.
    CollectingInput,
    /// Walking from the collected commits.
    ExpandingCommits,
    /// Computing the changed-path filters of a commit-graph.
    ComputingFilters,
    /// Checking that everything that new refs reach exists.
    CheckingConnectivity,
    /// Comparing a commit-graph with the commits.
    VerifyingCommits,
    /// Receiving the entries of a pack.
    Receiving,
    /// Reading the entries of a pack from a file.
    Indexing,
    /// Applying the deltas of a pack.
    Resolving,
    /// Writing the objects of a pack as loose objects.
    Unpacking,
}

/// The totals of a pack; the numbers of git's closing progress line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// All objects.
    pub objects: u32,
    /// Objects sent as deltas.
    pub deltas: u32,
    /// Objects whose stored bytes were reused, except for the headers of deltas.
    pub reused: u32,
    /// Reused objects that are deltas.
    pub reused_deltas: u32,
    /// Objects reused from a pack that was sent unchanged, or whose bitmaps found them ([`PackReuseScope`]); these are not
    /// counted as deltas or as reused.
    ///
    /// [`PackReuseScope`]: crate::PackReuseScope
    pub pack_reused: u32,
    /// The packs that they are from.
    pub packs_reused: u32,
}

impl Totals {
    /// The numbers by their names in git's traces.
    pub fn by_name(&self) -> [(&'static str, u32); 6] {
        [
            ("written", self.objects),
            ("written/delta", self.deltas),
            ("reused", self.reused),
            ("reused/delta", self.reused_deltas),
            ("pack-reused", self.pack_reused),
            ("packs-reused", self.packs_reused),
        ]
    }
}

/// The numbers of a bitmap file that is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BitmapTotals {
    /// Commits that have a bitmap.
    pub selected: u64,
    /// Those whose bitmap was there before.
    pub reused: u64,
    /// Pseudo-merges that have a bitmap.
    pub pseudo_merges: u64,
    /// The commits of all of them.
    pub pseudo_merge_parents: u64,
    /// How often what an ancestor's bitmap says was added to another one.
    pub from_ancestors: u64,
    /// Whether the file has a lookup table.
    pub lookup_table: bool,
}

/// How bitmaps helped to find the objects of a pack. As in git, a commit that is named counts each time, and once more if it
/// is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BitmapUse {
    /// Commits that have a bitmap.
    pub hits: u64,
    /// Commits that have none.
    pub misses: u64,
    /// Objects named by the request that have no bitmap: commits, and all others.
    pub roots_without: u64,
    /// Pseudo-merges whose bitmap was used.
    pub pseudo_merges: u64,
}

impl BitmapUse {
    /// The numbers by their names in git's traces.
    pub fn by_name(&self) -> [(&'static str, u64); 4] {
        [
            ("pseudo_merges_satisfied", self.pseudo_merges),
            ("bitmap/hits", self.hits),
            ("bitmap/misses", self.misses),
            ("bitmap/roots_without_bitmap", self.roots_without),
        ]
    }
}

/// The packs that a repack makes after those of reachable objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepackPart {
    /// What a filter leaves out.
    Filtered,
    /// Unreachable objects.
    Cruft,
    /// Unreachable objects that have expired.
    Expired,
}

/// Receives progress and may cancel the work; called from several threads.
pub trait ProgressSink: Sync {
    /// Reports `done` of `total` (0: unknown) in `phase`.
    fn report(&self, phase: Phase, done: u64, total: u64);

    /// Whether to stop the work, which then ends with [`crate::ErrorKind::Cancelled`].
    fn cancelled(&self) -> bool;

    /// Reports the totals of a complete pack: one of several, or a stored one.
    fn packed(&self, _: &Totals) {}

    /// Reports that a bitmap file is made.
    fn bitmaps_made(&self, _: &BitmapTotals) {}

    /// Reports that objects were found by bitmaps; how is computed only for those who ask.
    fn bitmaps_used(&self, _: &dyn Fn() -> BitmapUse) {}

    /// Reports how many unreachable objects were made loose.
    fn loosened(&self, _: u64) {}

    /// Reports that a repack goes on with these packs.
    fn begin_part(&self, _: RepackPart) {}
}

/// Ignores progress and never cancels.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl ProgressSink for NoProgress {
    fn report(&self, _: Phase, _: u64, _: u64) {}

    fn cancelled(&self) -> bool {
        false
    }
}
