//! Git's file formats as views of bytes and writers into bytes; opens no file.
//!
//! For whoever inspects, checks or makes such files, wherever their bytes come from. It finds no repository,
//! resolves no delta chain across packs, and syncs nothing: that is `packrace-store`.
//!
//! | module | file |
//! |---|---|
//! | [`pack`], [`pack_index`], [`reverse_index`], [`mtimes`] | `.pack`, `.idx`, `.rev`, `.mtimes` |
//! | [`multi_pack_index`], [`bitmap`] | `multi-pack-index`, `.bitmap` |
//! | [`commit_graph`] | `commit-graph` and its chains |
//! | [`loose_object`], [`zlib`] | a loose object; zlib streams |
//! | [`bundle`] | the header of a bundle |
//! | [`packed_refs`], [`reftable`] | `packed-refs`, tables of refs and reflogs |
//! | [`index_file`] | the index of a work tree |
//! | [`head`] | the head of a repository in a bucket (packrace's own) |
//!
//! **Shape.** A view is opened over `AsRef<[u8]>` and checks sizes once; accessors borrow from it, and copy
//! nothing. Offsets and lengths count bytes; positions count entries.
//!
//! ```
//! use packrace_format::packed_refs::PackedRefs;
//! use packrace_object::HashKind;
//!
//! let file = b"# pack-refs with: peeled fully-peeled sorted \n\
//!     1112912053fabcdef0123456789abcdef0123456 refs/heads/main\n";
//! let refs = PackedRefs::open(&file[..], HashKind::Sha1)?;
//! let main = refs.find(b"refs/heads/main")?.expect("it is in the file");
//! assert_eq!(main.id.to_id().to_string(), "1112912053fabcdef0123456789abcdef0123456");
//!
//! let error = PackedRefs::open(&file[..file.len() - 1], HashKind::Sha1).unwrap_err();
//! assert_eq!((error.what, error.offset), ("unterminated line", 102));
//! # Ok::<(), packrace_format::Error>(())
//! ```
//!
//! **Errors.** [`Error`] names the format, what is wrong, and the offset. Writers have errors of their own,
//! for input that the format cannot hold.
//!
//! **Trust.** Any bytes give a value or a typed [`Error`]; no panic, no hang, and no allocation that the
//! input's length does not justify.

#![forbid(unsafe_code)]

mod be;
pub mod bitmap;
pub mod bundle;
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
