//! Repositories on object storage: one small object says what a repository is (`packrace_format::head`), everything else
//! is named by it and never changes.
//!
//! [`bucket`] talks to the store, and is the only async code here. [`probe`] finds out whether a store keeps its promises.
//! [`repository`] puts a repository into a bucket. [`cache`] keeps ordinary repositories on a node's own disk and brings
//! them up to what their heads say; [`commit`] puts pushes into the bucket, and [`upkeep`] folds the packs that they leave.

#![forbid(unsafe_code)]

pub mod bucket;
pub mod cache;
pub mod commit;
mod error;
mod layout;
pub mod probe;
pub mod repository;
pub mod upkeep;
mod upload;

pub use error::{Error, ErrorKind};
pub use layout::{BucketName, BucketUrl};
