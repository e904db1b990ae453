//! Settings of events.

use std::path::PathBuf;
use std::time::Duration;

use packrace_journal::JournalOptions;

/// Settings of the journal, its followers and webhooks. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSettings {
    /// The directory of the journal; `None`: no journal.
    pub journal: Option<PathBuf>,
    /// See [`JournalOptions::segment_bytes`].
    pub segment_bytes: u64,
    /// See [`JournalOptions::max_bytes`].
    pub max_bytes: u64,
    /// See [`JournalOptions::max_age`].
    pub max_age: Duration,
    /// Most concurrent clients of `/-/events`.
    pub max_followers: usize,
    /// The webhook file; `None`: no webhooks.
    pub webhooks: Option<PathBuf>,
    /// Time limit of connecting to a receiver, and of its response.
    pub webhook_timeout: Duration,
    /// How long delivery of an event is retried.
    pub webhook_retry_time: Duration,
}

impl Default for EventSettings {
    fn default() -> Self {
        let JournalOptions { segment_bytes, max_bytes, max_age } = JournalOptions::default();
        EventSettings {
            journal: None,
            segment_bytes,
            max_bytes,
            max_age,
            max_followers: 64,
            webhooks: None,
            webhook_timeout: Duration::from_secs(10),
            webhook_retry_time: Duration::from_secs(3600),
        }
    }
}

impl EventSettings {
    pub(super) fn options(&self) -> JournalOptions {
        let EventSettings { segment_bytes, max_bytes, max_age, .. } = *self;
        JournalOptions { segment_bytes, max_bytes, max_age }
    }
}
