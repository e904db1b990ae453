//! multi_pack_index (see the crate's documentation).
