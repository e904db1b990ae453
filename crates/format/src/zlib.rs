//! zlib (see the crate's documentation).
