//! Keeps repositories in a bucket small: [`prepare`] folds packs into fewer, [`collect()`] deletes objects
//! that no head names.

mod collect;
mod fold;

pub use collect::{Collected, Grace, collect, would_collect};
pub use fold::{FoldOutcome, PreparedFold, prepare};

#[cfg(test)]
mod tests;
