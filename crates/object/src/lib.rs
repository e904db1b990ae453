//! Git object ids, kinds, hashing and the parsing of commits, trees and tags.
//!
//! Ids are [`gix_hash::ObjectId`]: SHA-1 or SHA-256, `Copy`. Parsing is limited to the needs of a walk: the
//! tree cursor returns the byte range of every entry, and damaged dates in commits are read as git reads
//! them.
//!
//! Trust contract: every function accepts any bytes, never panics on them, and allocates no more than its
//! input justifies.

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
