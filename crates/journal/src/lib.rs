//! The journal of events: changes to repositories as JSON lines (NDJSON) in files of one directory.
//!
//! | file | content |
//! |---|---|
//! | `events-NUMBER.ndjson` | a segment: lines in order of their numbers; its name has the first one, in 20
//! digits | | `pending-NAME` | the changes that a push is about to make; removed once they have their line |
//! | `lock` | held by the one process that writes |
//!
//! ```text
//! Journal::announce(event)   pending-NAME is written, the disk's room for its line taken: refuses what could not be recorded
//!   │ refs change
//! Journal::record(announced, event)
//!   │ line appended, synced together with those of others
//!   ▼
//! the pusher is told; each JournalReader continues
//! ```
//!
//! **Durability.** A line is durable before [`Journal::record`] returns. After a kill, [`Journal::open`]
//! returns the announcements without a line ([`Unfinished`]); the caller compares the refs and records what
//! changed. After a power cut, changes that were not reported may have no line: announcements are not synced.
//! A line that was cut off is removed, and so are the earlier lines of the same push.
//!
//! A write or sync that fails although space was reserved stops the journal until it is reopened: the disk's
//! content is then unknown.

#![forbid(unsafe_code)]

mod announcement;
mod event;
mod journal;
mod reader;
mod segments;

pub use announcement::Unfinished;
pub use event::{Action, JournalEvent, MAX_LINE_BYTES, MAX_OPTION_BYTES, RefEvent};
pub use journal::{Announced, Journal, JournalError, JournalOptions};
pub use reader::{JournalReader, Line};
pub use segments::stored_bytes;
