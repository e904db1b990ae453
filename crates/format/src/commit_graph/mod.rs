//! commit_graph (see the crate's documentation).
