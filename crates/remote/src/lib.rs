//! Repositories on object storage. One small mutable object, the head, describes a repository
//! (`packrace_format::head`); everything that it names is immutable.
//!
//! For servers without disks of their own. It is no general client of object stores, and serves no git client
//! (`packrace-server` does).
//!
//! [`bucket`] talks to the store and is the only async code here. [`probe`] checks the guarantees of a store.
//! [`repository`] imports a repository into a bucket. [`cache`] keeps ordinary repositories on a node's own
//! disk and brings them up to their heads; [`commit`] commits pushes to the bucket; [`upkeep`] folds packs
//! and collects objects.
//!
//! ```
//! use packrace_remote::{BucketName, BucketUrl};
//!
//! let url: BucketUrl = "s3://git/production".parse()?;
//! assert_eq!((url.bucket.as_str(), url.prefix.as_str()), ("git", "production/"));
//! assert_eq!(BucketName::new("team/tool")?.as_str(), "team/tool.git");
//! assert!(BucketName::new("team/../tool").is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **What survives a crash.** A push is in the bucket when its head is swapped, in one conditional write, and
//! not before. Objects that no head names are collected later. The cache may be lost at any time.
//!
//! **Errors.** [`Error::kind`] says what a caller can do. Requests are retried within a bound, in [`bucket`].
//! Sizes are in bytes.

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
