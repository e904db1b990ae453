//! A disk that fails on request and records the order of its changes.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use super::DiskChange;

/// The operations of [`crate::durable`] on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskOp {
    /// A file is created.
    Create,
    /// This many bytes are written to it.
    Write(usize),
    /// It is truncated or extended.
    Truncate,
    /// Its content is made durable.
    Sync,
    /// The names in a directory are made durable.
    SyncDir,
    /// It is renamed to this name.
    Rename(PathBuf),
    /// It is removed.
    Remove,
    /// Its mode changes.
    SetMode,
    /// Its times are set to now.
    Touch,
    /// A directory is made.
    MakeDir,
}

/// One change of the disk, attempted or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskStep {
    /// The file or directory.
    pub path: PathBuf,
    /// What happens to it.
    pub op: DiskOp,
}

/// When the disk fails. Steps are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// No step fails.
    None,
    /// This step fails with this error; the others succeed.
    At(usize, io::ErrorKind),
    /// From this step on no change happens, as if the process had been killed.
    StopAt(usize),
}

struct Disk {
    fault: DiskFault,
    steps: Vec<DiskStep>,
}

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
    static CHANGES: RefCell<Option<Vec<DiskChange>>> = const { RefCell::new(None) };
}

/// Runs `work` on this thread with a disk that fails as specified. Also returns the steps in order,
/// including failed ones.
pub fn on_disk<T>(fault: DiskFault, work: impl FnOnce() -> T) -> (T, Vec<DiskStep>) {
    DISK.set(Some(Disk { fault, steps: Vec::new() }));
    let result = work();
    let disk = DISK.take().expect("set above");
    (result, disk.steps)
}

/// Called before every change of a disk.
pub(crate) fn before(path: &Path, op: DiskOp) -> io::Result<()> {
    DISK.with_borrow_mut(|disk| {
        let Some(disk) = disk else { return Ok(()) };
        let number = disk.steps.len();
        disk.steps.push(DiskStep { path: path.to_owned(), op });
        match disk.fault {
            DiskFault::At(at, kind) if at == number => Err(kind.into()),
            DiskFault::StopAt(at) if at <= number => Err(io::Error::other("the process was killed")),
            _ => Ok(()),
        }
    })
}

/// Called after every successful change of a disk.
pub(crate) fn done(change: impl FnOnce() -> DiskChange) {
    CHANGES.with_borrow_mut(|changes| {
        if let Some(changes) = changes {
            changes.push(change());
        }
    });
}

pub(super) fn begin_recording() {
    CHANGES.set(Some(Vec::new()));
}

pub(super) fn end_recording() -> Vec<DiskChange> {
    CHANGES.take().unwrap_or_default()
}

pub(super) fn recorded_len() -> usize {
    CHANGES.with_borrow(|changes| changes.as_ref().map_or(0, Vec::len))
}
