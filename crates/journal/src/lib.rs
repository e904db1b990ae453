//! The journal of events: changes to repositories as JSON lines (NDJSON) in files of one directory.
//!
//! For servers that must not lose an event, and for programs that follow them. One process writes. It is no
//! queue: readers keep their own position ([`JournalReader`]), and old segments are deleted by size and age
//! ([`JournalOptions`]).
//!
//! | file | content |
//! |---|---|
//! | `events-NUMBER.ndjson` | a segment: lines in order of their numbers; its name has the first one, in 20 digits |
//! | `pending-NAME` | the changes that a push is about to make; removed once they have their line |
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
//! ```
//! use packrace_journal::{Action, Journal, JournalEvent, JournalOptions, JournalReader};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! let event = JournalEvent {
//!     action: Action::Create,
//!     time: "2026-11-25T12:00:00Z".to_owned(),
//!     repository: b"team/tool.git".to_vec(),
//!     to: None,
//!     user: Some("alice".to_owned()),
//!     peer: "192.0.2.7:4711".to_owned(),
//!     door: "https".to_owned(),
//!     session: "1".to_owned(),
//!     refs: Vec::new(),
//!     options: Vec::new(),
//!     is_recovered: false,
//! };
//! let (journal, unfinished) = Journal::open(dir, JournalOptions::default(), Box::new(|_| {}))?;
//! assert!(unfinished.is_empty());
//! let announced = journal.announce(&event)?;
//! // Here the change happens.
//! let seq = journal.record(announced, &event)?;
//! let line = JournalReader::new(dir, 0).next_up_to(journal.durable())?.expect("it is durable");
//! assert_eq!(line.seq, seq);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **What survives a crash.** A line is durable before [`Journal::record`] returns. After a kill,
//! [`Journal::open`] returns the announcements without a line ([`Unfinished`]); the caller compares the refs
//! and records what changed. After a power cut, changes that were not reported may have no line:
//! announcements are not synced. A line that was cut off is removed, and so are the earlier lines of the same
//! push.
//!
//! **Errors.** A write or sync that fails although space was reserved stops the journal until it is reopened
//! ([`JournalError::Failed`]): the disk's content is then unknown.

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
