//! The repository on disk: configuration, snapshots of packs and refs, loose objects, alternates.

#![forbid(unsafe_code)]

pub mod refs;
mod repository;

pub use repository::Repository;
