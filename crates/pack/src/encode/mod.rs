//! Encodes the selected objects: which stored deltas are reused, which deltas are searched for, and the
//! pack's bytes.

mod compose;
pub mod generate;
mod stored_entry;
