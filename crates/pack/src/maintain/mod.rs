//! Work that keeps a repository fast: `packrace commit-graph`, `multi-pack-index`, `repack` and
//! `pack-objects` without their command lines.

pub mod bitmap_build;
pub mod commit_graph;
pub mod geometry;
mod history;
pub mod multi_pack_index;
pub mod pack_files;
mod path_filters;
pub mod promisor;
pub mod prune;
pub mod repack;
pub mod server_info;
mod sets;
pub mod unreachable;
