//! A FUSE file system that hands everything on to a directory, counts what it is asked to do, and notes what a power cut
//! would take away.
//!
//! ```text
//! program ── system calls ──▶ kernel ── requests ──▶ Passthrough (this process) ──▶ directory behind it
//! ```
//!
//! On such file systems, and on those of a network, each request is a round trip: they are what is counted. The kernel
//! splits a write at 1 MiB (`/proc/sys/fs/fuse/max_pages_limit`) and at page boundaries of the file. A file is one node
//! under whatever names it had, so that what was written under a temporary name counts for the name it got afterwards.
//! Writes reach the directory at once. What may be left of them where nobody synced is for [`Recording::crashed`] to say: while
//! it is recorded, every change is noted in the order in which it came, by whatever program and thread.

mod nodes;
mod passthrough;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{BackgroundSession, Config, INodeNo, MountOption};
use packrace_os::simulated::{DiskState, Recording};

use nodes::Nodes;
use passthrough::Passthrough;

/// Requests are answered by so many threads.
const THREADS: usize = 4;

/// What the kernel asked of some files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Files and directories that were made.
    pub creates: u64,
    /// Requests to read.
    pub reads: u64,
    /// Bytes that these gave.
    pub read_bytes: u64,
    /// Requests to write.
    pub writes: u64,
    /// Bytes that these brought.
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
    /// Mounts what is in `behind` at `place`, which must be an empty directory. The error names what is missing.
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

    /// Where it is mounted.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// What was asked of files that at some time had a name for which `is_meant` says so; names are paths from the top.
    pub fn traffic(&self, is_meant: impl Fn(&Path) -> bool) -> Traffic {
        self.nodes.traffic(is_meant)
    }

    /// Counts from here on.
    pub fn count_anew(&self) {
        self.nodes.count_anew();
    }

    /// From now on, reads fail as those of a disk that does not answer (EIO), where `is_meant` says so of a name from the top
    /// and the bytes that are asked for: calls, and what touches a page of a map. What the kernel knows of such files is
    /// forgotten. Do not map files of a mount that is served by the same process: the kernel may wait for itself.
    pub fn fail_reads(
        &self,
        is_meant: impl Fn(&Path, Range<u64>) -> bool + Send + 'static,
    ) -> io::Result<()> {
        self.forget(self.nodes.fail_reads(Some(Box::new(is_meant))))
    }

    /// From now on, all can be read.
    pub fn heal(&self) -> io::Result<()> {
        self.forget(self.nodes.fail_reads(None))
    }

    /// Has the kernel read these nodes anew.
    fn forget(&self, nodes: Vec<u64>) -> io::Result<()> {
        let Some(session) = &self.session else { return Ok(()) };
        let notifier = session.notifier();
        nodes.into_iter().try_for_each(|node| notifier.inval_inode(INodeNo(node), 0, 0))
    }

    /// Runs some work, and notes what comes of it. Until it is done, hard links cannot be made, nor directories be renamed:
    /// what a crash makes of these is not known.
    pub fn recorded<T>(&self, work: impl FnOnce() -> T) -> io::Result<(T, Recording)> {
        let before = DiskState::of(self.nodes.behind())?;
        self.nodes.begin_recording();
        let result = work();
        Ok((result, Recording::new(self.nodes.behind(), before, self.nodes.end_recording())))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // Who still has a file open there keeps it from going; the kernel ends it with this process.
            let _ = session.umount_and_join();
        }
    }
}

#[cfg(test)]
mod tests;
