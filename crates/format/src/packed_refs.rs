//! packed_refs (see the crate's documentation).
