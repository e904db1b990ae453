/// A part of the work that a user waits for; git's progress titles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Walking history: objects found so far.
    Enumerating,
    /// Deciding how each object is sent.
    Counting,
    /// Deflating what has no usable representation.
    Compressing,
    /// Choosing the commits that get a bitmap.
    SelectingBitmaps,
    /// Finding what those commits reach.
    BuildingBitmaps,
}

/// Who looks on while a plan or a stream is made. Called from several threads.
pub trait Watch: Sync {
    /// `done` of `total` (0: unknown) in `phase`.
    fn progress(&self, phase: Phase, done: u64, total: u64);

    /// Whether nobody waits for the result any more; the work then ends with [`crate::ErrorKind::Cancelled`].
    fn cancelled(&self) -> bool;
}

/// Nobody looks on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn progress(&self, _: Phase, _: u64, _: u64) {}

    fn cancelled(&self) -> bool {
        false
    }
}
