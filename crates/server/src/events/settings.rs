//! How events are kept and told.

use std::path::PathBuf;
use std::time::Duration;

use packrace_journal::JournalOptions;

/// How events are kept and told. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSettings {
    /// The directory of the journal; `None` for none.
    pub journal: Option<PathBuf>,
    /// See [`JournalOptions::segment_bytes`].
    pub segment_bytes: u64,
    /// See [`JournalOptions::max_bytes`].
    pub max_bytes: u64,
    /// See [`JournalOptions::max_age`].
    pub max_age: Duration,
    /// Clients of `/-/events` at the same time.
    pub max_followers: usize,
}

impl Default for EventSettings {
    fn default() -> Self {
        let JournalOptions { segment_bytes, max_bytes, max_age } = JournalOptions::default();
        EventSettings { journal: None, segment_bytes, max_bytes, max_age, max_followers: 64 }
    }
}

impl EventSettings {
    pub(super) fn options(&self) -> JournalOptions {
        let EventSettings { segment_bytes, max_bytes, max_age, .. } = *self;
        JournalOptions { segment_bytes, max_bytes, max_age }
    }
}
