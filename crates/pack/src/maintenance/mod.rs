//! Work that keeps a repository fast: what `packrace commit-graph`, `multi-pack-index`, `repack` and `pack-objects` do,
//! without their command lines.

pub mod commit_graph;
pub mod geometry;
mod history;
pub mod multi_pack_index;
pub mod pack_files;
pub mod prune;
pub mod repack;
pub mod server_info;
pub(crate) mod sets;
pub mod unreachable;
pub mod verify_graph;
