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
    /// The file of webhooks; `None` for none.
    pub webhooks: Option<PathBuf>,
    /// How long connecting to a receiver may take, and then its answer.
    pub webhook_timeout: Duration,
    /// For how long an event is tried that a receiver does not take.
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
