/// The bytes break the rules of their format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{format}: {what} at byte {offset}")]
#[non_exhaustive]
pub struct Error {
    /// The format, in usual words: `pack`, `idx`, `rev`, `midx`, `bitmap`, `commit-graph`, `reftable`, …
    pub format: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// The offset from the start of the file or value.
    pub offset: u64,
}

impl Error {
    pub(crate) fn new(format: &'static str, what: &'static str, offset: u64) -> Self {
        Error { format, what, offset }
    }
}
