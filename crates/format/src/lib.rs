//! Git's file formats as views of bytes and writers into bytes; opens no file.
//!
//! One folder (or file) per format. Trust contract of every reader here: any bytes give a value or a typed
//! [`Error`] with an offset; no panic, no hang, and no allocation that the input's length does not justify.

#![forbid(unsafe_code)]

mod be;
pub mod bitmap;
mod checksum;
mod chunks;
pub mod commit_graph;
mod error;
pub mod head;
mod id_table;
pub mod index_file;
pub mod loose_object;
pub mod mtimes;
pub mod multi_pack_index;
mod name_range;
pub mod pack;
pub mod pack_index;
pub mod packed_refs;
pub mod reftable;
pub mod reverse_index;
pub mod zlib;

pub use error::Error;
pub use name_range::NameRange;

#[cfg(test)]
mod test_files;
