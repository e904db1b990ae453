//! The objects of a repository: packs and their indexes, loose objects, alternates, and their readers.

mod abbreviations;
pub(crate) mod accelerators;
pub(crate) mod attributes;
pub(crate) mod base_cache;
pub(crate) mod bitmap;
mod bitmap_file;
pub mod cache_bytes;
pub(crate) mod freshen;
pub mod helper_fault;
mod locality;
pub(crate) mod multi_pack_index;
pub(crate) mod numbers;
pub(crate) mod objects_dir;
pub(crate) mod pack;
pub(crate) mod pack_dir;
pub(crate) mod pack_fault;
mod pack_finder;
pub(crate) mod pack_set;
pub(crate) mod promisors;
pub(crate) mod reader;
pub(crate) mod replacements;
pub(crate) mod snapshot;
pub(crate) mod sources;
pub(crate) mod stored;
pub(crate) mod stream;
mod tree_paths;
mod verified;
