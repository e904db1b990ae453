//! The journal of events: what happened to repositories, as lines of JSON (NDJSON) in files of one directory.
//!
//! | file | what it is |
//! |---|---|
//! | `events-NUMBER.ndjson` | a segment: lines in the order of their numbers, the first of which its name has, in 20 digits |
//! | `pending-NAME` | what a push is about to change; it goes when that has its line |
//! | `lock` | held by the one process that writes |
//!
//! ```text
//! Journal::announce(event)   pending-NAME is written, the disk's room for its line taken: refuses what could not be recorded
//!   │ refs change
//! Journal::record(announced, event)
//!   │ line appended, synced together with those of others
//!   ▼
//! the pusher is told; JournalReader, which others hold, goes on
//! ```
//!
//! **What survives what.** A line is durable before [`Journal::record`] returns. After a kill, [`Journal::open`] hands out what had
//! been announced and has no line ([`Unfinished`]), so that whoever can look at the refs records what did change. After a power
//! cut, what nobody was told may be without line: announcements are not synced. A line that was cut off is removed, and so are
//! the lines before it of a push that has several.
//!
//! A write or a sync that fails although there was room ends the journal until it is opened again: what the disk has then is not known.

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
