//! What is wrong with a commit-graph or multi-pack-index that cannot be opened, in git's words.

mod chunk_table;
pub mod commit_graph;
pub mod multi_pack_index;

pub use chunk_table::number_at;
