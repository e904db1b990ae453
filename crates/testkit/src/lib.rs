//! For development only: a deterministic repository builder, a scripted peer and the tidy test.
//!
//! [`RepoBuilder`] makes a repository with stock git that is identical on every machine; [`Git`] runs a
//! chosen stock git without the machine's configuration; [`peer`] runs a scripted client, whole or byte by
//! byte; [`received`] checks received packs; [`raw_client`] reads packs, hundreds at once; [`certificates`]
//! are for TLS; [`BucketServer`] is an object store. Helpers panic on failure: their callers are tests.

mod bucket_server;
mod builder;
pub mod certificates;
mod extent;
mod fixtures;
mod git;
pub mod handmade;
mod history;
mod layout;
pub mod mounted;
pub mod peer;
mod program;
mod random;
pub mod raw_client;
pub mod received;
mod storage;

pub use bucket_server::BucketServer;
pub use builder::{RefFormat, Repo, RepoBuilder, Size, reachable_objects};
pub use extent::Extent;
pub use git::{Git, clean_environment, in_newest_words};
pub use program::{copy_program, write_program};
pub use random::Random;
pub use storage::{Bitmap, GraphLayout, Loose, Storage};

/// A directory in memory, if the machine supports it: for thousands of small files, or as many syncs, which
/// cost nothing there.
pub fn in_memory() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    dir.expect("a temporary directory")
}
