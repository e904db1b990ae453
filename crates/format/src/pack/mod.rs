//! pack (see the crate's documentation).
