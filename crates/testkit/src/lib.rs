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

use std::sync::LazyLock;

/// A directory for a test: in memory, where thousands of small files and as many syncs cost next to nothing, unless `TMPDIR`
/// says where, or the machine has no room there. Hooks that a server confines can write only where it has its temporary files: tests
/// of those take `tempfile::tempdir`.
pub fn scratch_dir() -> tempfile::TempDir {
    const MEMORY: &str = "/dev/shm";
    // Tests use a twentieth of it at a time.
    const ROOM: u64 = 2 << 30;
    static IS_IN_MEMORY: LazyLock<bool> = LazyLock::new(|| {
        let has_room = packrace_os::free_bytes(MEMORY.as_ref()).is_ok_and(|free| free >= ROOM);
        std::env::var_os("TMPDIR").is_none() && has_room
    });
    let dir = if *IS_IN_MEMORY { tempfile::tempdir_in(MEMORY) } else { tempfile::tempdir() };
    dir.expect("a temporary directory")
}
