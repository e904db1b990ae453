//! Repositories on object storage. One small mutable object, the head, describes a repository
//! (`packrace_format::head`); everything that it names is immutable.
//!
//! [`bucket`] talks to the store and is the only async code here. [`probe`] checks the guarantees of a store.
//! [`repository`] imports a repository into a bucket. [`cache`] keeps ordinary repositories on a node's own
//! disk and brings them up to their heads; [`commit`] commits pushes to the bucket; [`upkeep`] folds packs
//! and collects objects.

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
