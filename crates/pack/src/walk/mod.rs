//! Walks history and trees: what is reachable, what is missing, what both sides have.

pub(crate) mod commits;
pub mod connectivity;
pub(crate) mod lenient_walk;
pub mod negotiate;
mod promised;
pub mod shallow;
pub(crate) mod trees;
