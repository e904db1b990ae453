//! The index and the work tree: what `add`, `update-index`, `write-tree` and `stash` read and change.
//!
//! Thin, over the `gix-*` crates for ignore rules, attributes, pathspecs and filters, and over `format::index_file`; how
//! objects become durable is `store::publish`'s business.

#![forbid(unsafe_code)]

pub mod filter;
pub mod index;
pub mod paths;
pub mod stage;
