//! Git object ids, kinds, hashing and the parsing of commits, trees and tags.
//!
//! The other crates are built on it. It reads no repository (`packrace-store` does).
//!
//! Ids are [`gix_hash::ObjectId`]: SHA-1 or SHA-256, `Copy`, and the same type for users of gix. Parsing is
//! limited to the needs of a walk: the tree cursor returns the byte range of every entry, and damaged dates
//! in commits are read as git reads them. [`fsck`] checks single objects as `git fsck` does.
//!
//! ```
//! use packrace_object::{HashKind, Kind, object_id, parse_commit};
//!
//! let content = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\
//!     author A U Thor <a@example.com> 1112912053 -0700\n\
//!     committer A U Thor <a@example.com> 1112912053 -0700\n\nFirst\n";
//! let commit = parse_commit(content, HashKind::Sha1)?;
//! assert_eq!(commit.tree, object_id(HashKind::Sha1, Kind::Tree, b"")?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Errors.** [`MalformedObject`] has the offset. [`CollisionAttack`]: SHA-1 input that was made to collide
//! has no id.
//!
//! **Trust.** Every function accepts any bytes, never panics on them, and allocates no more than its input
//! justifies.

pub mod fsck;
mod hashing;
mod kind;
mod midstates;
mod naming;
mod new_commit;
mod parse;
mod stored_id;
pub mod tree;

pub use gix_hash::{Kind as HashKind, ObjectId, oid};
pub use hashing::{CollisionAttack, ObjectHasher, TrailerHasher};
pub use kind::Kind;
pub use midstates::{Like, Midstates, Unnamed};
pub use naming::{object_id, object_ids};
pub use new_commit::NewCommit;
pub use parse::{Commit, MAX_TAG_DEPTH, MalformedObject, Tag, parse_commit, parse_tag};
pub use stored_id::StoredId;
