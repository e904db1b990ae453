//! Events for the surrounding program: the lines of the journal, through a channel.

use std::io;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use packrace_journal::JournalReader;
pub use packrace_journal::Line as JournalLine;

use crate::events::Events;

/// Pause after the journal could not be read.
const DISK_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Who gets the lines of the journal.
#[derive(Debug)]
pub(super) struct Subscription {
    /// The number of the first line; `None` for future lines only.
    pub(super) from: Option<u64>,
    pub(super) sender: SyncSender<JournalLine>,
}

impl Subscription {
    /// Starts a thread that sends durable lines until the receiver or the journal is gone.
    pub(super) fn start(self, events: &Events) -> io::Result<()> {
        let mut durable = events.durable();
        let from = self.from.unwrap_or_else(|| events.journal.durable().saturating_add(1));
        let mut reader = JournalReader::new(events.journal.dir(), from);
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let work = move || {
            loop {
                let last = *durable.borrow_and_update();
                match reader.next_up_to(last) {
                    Ok(Some(line)) => {
                        if self.sender.send(line).is_err() {
                            return;
                        }
                    }
                    Ok(None) => {
                        if runtime.block_on(durable.changed()).is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        tracing::warn!("events: cannot read the journal: {error}");
                        std::thread::sleep(DISK_RETRY_INTERVAL);
                        // Nobody can mend a journal that is closed.
                        if durable.has_changed().is_err() {
                            return;
                        }
                    }
                }
            }
        };
        std::thread::Builder::new().name("events".into()).spawn(work).map(drop)
    }
}
