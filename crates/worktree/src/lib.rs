//! The index and the work tree: what `add`, `update-index`, `write-tree` and `stash` read and change.
//!
//! A thin layer over the `gix-*` crates for ignore rules, attributes, pathspecs and filters, and over
//! `format::index_file`; `store::publish` makes objects durable.

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
