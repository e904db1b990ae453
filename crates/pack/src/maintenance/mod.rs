//! Work that keeps a repository fast: what `packrace commit-graph` and `packrace repack` do, without their command
//! lines.

pub mod commit_graph;
mod history;
pub mod verify_graph;
