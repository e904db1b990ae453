//! reverse_index (see the crate's documentation).
