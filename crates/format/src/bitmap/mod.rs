//! bitmap (see the crate's documentation).
