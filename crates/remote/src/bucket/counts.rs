//! Counts of requests to a store.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A whole object, perhaps on a condition.
    Get,
    /// A part of one.
    Range,
    /// An object, or a part of a long one, is written.
    Put,
    /// One is deleted.
    Delete,
    /// Keys are listed.
    List,
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// What was wanted.
    Done,
    /// The object is as it was.
    Unchanged,
    /// The condition did not hold, or there is no such object.
    Refused,
    /// No answer, or one that is an error.
    Failed,
}

impl RequestKind {
    /// All of them.
    pub const ALL: [RequestKind; 5] =
        [RequestKind::Get, RequestKind::Range, RequestKind::Put, RequestKind::Delete, RequestKind::List];

    /// As metrics say it.
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
    /// All of them.
    pub const ALL: [RequestOutcome; 4] =
        [RequestOutcome::Done, RequestOutcome::Unchanged, RequestOutcome::Refused, RequestOutcome::Failed];

    /// As metrics say it.
    pub fn word(self) -> &'static str {
        match self {
            RequestOutcome::Done => "done",
            RequestOutcome::Unchanged => "unchanged",
            RequestOutcome::Refused => "refused",
            RequestOutcome::Failed => "failed",
        }
    }
}

/// How often each came of each.
#[derive(Debug, Default)]
pub struct RequestCounts([[AtomicU64; RequestOutcome::ALL.len()]; RequestKind::ALL.len()]);

impl RequestCounts {
    pub(super) fn add(&self, kind: RequestKind, outcome: RequestOutcome) {
        self.0[kind as usize][outcome as usize].fetch_add(1, Relaxed);
    }

    /// How often this came of this.
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
