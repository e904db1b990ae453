//! A disk that fails on cue, and tells in which order it was changed.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use super::DiskChange;

/// What [`crate::durable`] does to a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskOp {
    /// A file is made where none was.
    Create,
    /// So many bytes are written into it.
    Write(usize),
    /// It is cut off or made longer.
    Truncate,
    /// What was written into it is made durable.
    Sync,
    /// The names in a directory are made durable.
    SyncDir,
    /// It gets this name instead.
    Rename(PathBuf),
    /// It is removed.
    Remove,
    /// It gets another mode.
    SetMode,
    /// It gets the present time.
    Touch,
    /// A directory is made.
    MakeDir,
}

/// One change of the disk, tried or done.
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
    /// This step fails with this error, and the others are as always.
    At(usize, io::ErrorKind),
    /// From this step on nothing is done any more, as if the process had been killed.
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

/// Runs `work` on this thread with a disk that fails as told. Gives the steps in their order too, those that failed
/// included.
pub fn on_disk<T>(fault: DiskFault, work: impl FnOnce() -> T) -> (T, Vec<DiskStep>) {
    DISK.set(Some(Disk { fault, steps: Vec::new() }));
    let result = work();
    let disk = DISK.take().expect("set above");
    (result, disk.steps)
}

/// Comes before every change of a disk.
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

/// Comes after every change of a disk that was made.
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
