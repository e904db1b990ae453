//! Work that keeps a repository fast: what `packrace commit-graph` and `packrace repack` do, without their command
//! lines.

pub mod commit_graph;
pub mod geometry;
mod history;
pub mod multi_pack_index;
pub mod prune;
pub mod repack;
pub mod server_info;
pub mod verify_graph;
