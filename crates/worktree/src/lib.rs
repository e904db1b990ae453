//! The index and the work tree: what `add`, `update-index`, `write-tree` and `stash` read and change.
//!
//! A thin layer over the `gix-*` crates for ignore rules, attributes, pathspecs and filters, and over
//! `format::index_file`; `store::publish` makes objects durable. It prints nothing and has no commands
//! (`packrace-commands` has).
//!
//! ```
//! use std::path::Path;
//! use packrace_store::{OpenOptions, Repository};
//! use packrace_worktree::index::Index;
//!
//! /// The number of conflicted entries.
//! fn conflicts(repository: &Path) -> Result<usize, Box<dyn std::error::Error>> {
//!     let repository = Repository::open(repository, &OpenOptions::default())?;
//!     let index = Index::read(&repository)?; // empty if there is none
//!     Ok(index.entries().filter(|(key, _)| key.stage() > 0).count())
//! }
//! # let repo = packrace_testkit::RepoBuilder::new(packrace_testkit::Size::Tiny).build();
//! # assert_eq!(conflicts(repo.path()).unwrap(), 0);
//! ```
//!
//! **What survives a crash.** The index is written once, under `index.lock`, and renamed when it is whole.
//! Objects are durable before. Files of the work tree are not synced, as in git.
//!
//! **Errors.** One type per module; [`WorkError`] unites those of commands that do several things. Paths are
//! bytes, with `/`, from the top of the work tree.

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
pub mod path_attributes;
pub mod paths;
mod platforms;
pub mod stage;
pub mod stash;
pub mod status;
pub mod switch;
pub mod untracked;

pub use error::WorkError;
