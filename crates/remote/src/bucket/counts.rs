//! Counts of requests to a store.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Reads a whole object, perhaps conditionally.
    Get,
    /// Reads a range of an object.
    Range,
    /// Writes an object, or a part of a long one.
    Put,
    /// Deletes an object.
    Delete,
    /// Lists keys.
    List,
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The request succeeded.
    Done,
    /// The object is unchanged (304).
    Unchanged,
    /// The condition did not hold, or the object does not exist.
    Refused,
    /// No response, or an error.
    Failed,
}

impl RequestKind {
    /// All kinds.
    pub const ALL: [RequestKind; 5] =
        [RequestKind::Get, RequestKind::Range, RequestKind::Put, RequestKind::Delete, RequestKind::List];

    /// Its name in metrics.
    pub fn word(self) -> &'static str {
        match self {
            RequestKind::Get => "get",
            RequestKind::Range => "range",
            RequestKind::Put => "put",
            RequestKind::Delete => "delete",
            RequestKind::List => "list",
        }
    }
}

impl RequestOutcome {
    /// All outcomes.
    pub const ALL: [RequestOutcome; 4] =
        [RequestOutcome::Done, RequestOutcome::Unchanged, RequestOutcome::Refused, RequestOutcome::Failed];

    /// Its name in metrics.
    pub fn word(self) -> &'static str {
        match self {
            RequestOutcome::Done => "done",
            RequestOutcome::Unchanged => "unchanged",
            RequestOutcome::Refused => "refused",
            RequestOutcome::Failed => "failed",
        }
    }
}

/// Counts by kind and outcome.
#[derive(Debug, Default)]
pub struct RequestCounts([[AtomicU64; RequestOutcome::ALL.len()]; RequestKind::ALL.len()]);

impl RequestCounts {
    pub(super) fn add(&self, kind: RequestKind, outcome: RequestOutcome) {
        self.0[kind as usize][outcome as usize].fetch_add(1, Relaxed);
    }

    /// Requests of this kind with this outcome.
    pub fn of(&self, kind: RequestKind, outcome: RequestOutcome) -> u64 {
        self.0[kind as usize][outcome as usize].load(Relaxed)
    }

    /// Requests of this kind.
    pub fn all_of(&self, kind: RequestKind) -> u64 {
        RequestOutcome::ALL.into_iter().map(|outcome| self.of(kind, outcome)).sum()
    }

    /// Requests of any kind.
    pub fn all(&self) -> u64 {
        RequestKind::ALL.into_iter().map(|kind| self.all_of(kind)).sum()
    }
}
