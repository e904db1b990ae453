//! loose_object (see the crate's documentation).
