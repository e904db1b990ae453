//! reftable (see the crate's documentation).
