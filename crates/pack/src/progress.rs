/// A part of the work that a user waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Walking history: objects found so far.
    Enumerating,
    /// The same for objects that nothing reaches.
    EnumeratingCruft,
    /// Deciding how each object is sent.
    Counting,
    /// Looking for deltas, and deflating what has no usable representation.
    Compressing,
    /// Making the bytes of a pack.
    Writing,
    /// Removing loose objects that are in a pack, by the first byte of their names.
    RemovingDuplicates,
    /// Reading commits to choose those that get a bitmap.
    SelectingBitmaps,
    /// Finding what every commit brings in.
    ReadingTrees,
    /// Finding what the chosen commits reach.
    BuildingBitmaps,
    /// Reading the indexes that a multi-pack-index is made of.
    AddingPacks,
    /// Looking whether the packs of a multi-pack-index are there.
    LookingForPacks,
    /// Checking the order of ids in a multi-pack-index.
    VerifyingOrder,
    /// Comparing a multi-pack-index with the indexes of its packs.
    VerifyingOffsets,
    /// Counting what is read from each pack of a multi-pack-index.
    CountingReferenced,
    /// Deleting packs that nothing is read from.
    DeletingPacks,
    /// Looking for commits in all packs.
    FindingPackedCommits,
    /// Looking for commits in so many packs.
    FindingCommits {
        /// How many.
        packs: usize,
    },
    /// Taking the commits that refs lead to.
    CollectingReferenced,
    /// Taking the commits that are named on standard input.
    CollectingInput,
    /// Walking from there.
    ExpandingCommits,
    /// Looking whether everything is there that new refs lead to.
    CheckingConnectivity,
    /// Comparing a commit-graph with the commits.
    VerifyingCommits,
    /// Taking the entries of a pack from somebody who sends it.
    Receiving,
    /// The same from a file.
    Indexing,
    /// Applying the deltas of a pack.
    Resolving,
    /// Making loose objects of a pack.
    Unpacking,
}

/// What went into a pack; the numbers of git's closing progress line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// All objects.
    pub objects: u32,
    /// Those sent as deltas.
    pub deltas: u32,
    /// Those whose stored bytes were sent as they are, but for the header of a delta.
    pub reused: u32,
    /// Those of them that are deltas.
    pub reused_deltas: u32,
    /// Those of a pack that was sent as it is. Nothing more is known of them; they do not count as reused.
    pub pack_reused: u32,
}

/// Receives the progress of work, and may cancel it. Called from several threads.
pub trait ProgressSink: Sync {
    /// `done` of `total` (0: unknown) in `phase`.
    fn report(&self, phase: Phase, done: u64, total: u64);

    /// Whether the work is no longer needed; it then ends with [`crate::ErrorKind::Cancelled`].
    fn cancelled(&self) -> bool;

    /// One of several packs is complete, or the pack is stored.
    fn packed(&self, _: &Totals) {}
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
