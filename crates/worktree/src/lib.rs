//! The index and the work tree: what `add`, `update-index`, `write-tree` and `stash` read and change.
//!
//! Thin, over the `gix-*` crates for ignore rules, attributes, pathspecs and filters, and over `format::index_file`; how
//! objects become durable is `store::publish`'s business.

#![forbid(unsafe_code)]

pub mod checkout;
pub mod difference;
mod error;
pub mod files;
pub mod filter;
pub mod index;
pub mod listing;
pub mod merge;
pub mod objects;
pub mod paths;
mod platforms;
pub mod stage;
pub mod stash;
pub mod status;
pub mod switch;
pub mod untracked;

pub use error::WorkError;
