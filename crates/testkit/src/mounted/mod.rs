//! A FUSE file system that passes all requests on to a directory, counts them, and records what a power cut
//! would lose.
//!
//! ```text
//! program ── system calls ──▶ kernel ── requests ──▶ Passthrough (this process) ──▶ directory behind it
//! ```
//!
//! On FUSE and network file systems each request is a round trip, so requests are counted. The kernel splits
//! a write at 1 MiB (`/proc/sys/fs/fuse/max_pages_limit`) and at page boundaries of the file. A file is one
//! node under all its names, so that data written under a temporary name counts for its later name. Writes
//! reach the directory at once. [`Recording::crashed`] computes what may be left of unsynced ones: during a
//! recording, every change of any program and thread is recorded in order.

mod nodes;
mod passthrough;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fuser::{BackgroundSession, Config, INodeNo, MountOption};
use packrace_os::simulated::{DiskState, Recording};

use nodes::Nodes;
use passthrough::Passthrough;

/// Number of threads that answer requests.
const THREADS: usize = 4;

/// The kernel's requests for some files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Created files and directories.
    pub creates: u64,
    /// Requests to read.
    pub reads: u64,
    /// Bytes returned by these.
    pub read_bytes: u64,
    /// Requests to write.
    pub writes: u64,
    /// Bytes received by these.
    pub written_bytes: u64,
    /// Requests to sync a file or directory.
    pub syncs: u64,
}

/// A mounted file system; it is unmounted when dropped.
pub struct Mount {
    place: PathBuf,
    nodes: Arc<Nodes>,
    session: Option<BackgroundSession>,
}

impl Mount {
    /// Mounts the directory `behind` at `place`, which must be an empty directory. The error names what is
    /// missing.
    pub fn new(behind: &Path, place: &Path) -> io::Result<Mount> {
        let nodes = Arc::new(Nodes::new(std::fs::canonicalize(behind)?)?);
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("packrace-testkit".to_string())];
        config.n_threads = Some(THREADS);
        let passthrough = Passthrough::new(Arc::clone(&nodes));
        let session = fuser::spawn_mount(passthrough, place, &config).map_err(|e| {
            io::Error::other(format!(
                "FUSE cannot be mounted at {}: {e}; that needs /dev/fuse, and for others than root fusermount3 \
                 (package fuse3)",
                place.display()
            ))
        })?;
        Ok(Mount { place: place.to_path_buf(), nodes, session: Some(session) })
    }

    /// The mount point.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Requests for files that had a name with `is_meant` at any time; names are paths from the top.
    pub fn traffic(&self, is_meant: impl Fn(&Path) -> bool) -> Traffic {
        self.nodes.traffic(is_meant)
    }

    /// Resets the counters.
    pub fn count_anew(&self) {
        self.nodes.count_anew();
    }

    /// From now on, reads fail as on an unresponsive disk (EIO) if `is_meant` is true for a path from the top
    /// and the requested bytes: both calls and accesses to mapped pages. The kernel's caches of such files
    /// are dropped. Do not map files of a mount that is served by the same process: the kernel may wait for
    /// itself.
    pub fn fail_reads(
        &self,
        is_meant: impl Fn(&Path, Range<u64>) -> bool + Send + 'static,
    ) -> io::Result<()> {
        self.forget(self.nodes.fail_reads(Some(Box::new(is_meant))))
    }

    /// From now on, all reads succeed.
    pub fn heal(&self) -> io::Result<()> {
        self.forget(self.nodes.fail_reads(None))
    }

    /// Makes the kernel read these nodes again.
    fn forget(&self, nodes: Vec<u64>) -> io::Result<()> {
        let Some(session) = &self.session else { return Ok(()) };
        let notifier = session.notifier();
        nodes.into_iter().try_for_each(|node| notifier.inval_inode(INodeNo(node), 0, 0))
    }

    /// Runs `work` and records its changes. Until it is done, hard links cannot be created, and directories
    /// cannot be renamed: what a crash makes of these is not known.
    pub fn recorded<T>(&self, work: impl FnOnce() -> T) -> io::Result<(T, Recording)> {
        let before = DiskState::of(self.nodes.behind())?;
        self.nodes.begin_recording();
        let result = work();
        Ok((result, Recording::new(self.nodes.behind(), before, self.nodes.end_recording())))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        if session.umount_and_join().is_err() {
            // A file is still open. The directory is free at once; the kernel ends the rest when it is closed.
            let _ = Command::new("umount").arg("--lazy").arg(&self.place).status();
        }
    }
}

#[cfg(test)]
mod tests;
