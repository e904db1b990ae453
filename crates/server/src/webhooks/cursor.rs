//! The position of a hook in the journal: a file `webhook-NAME` in the journal's directory, with the number
//! of the next line.
//!
//! The file is synced and then renamed, so it is never partial. Its name is synced only when it is new: after
//! a kill or a power cut the file may be an older one, and the events after it are sent again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};
use packrace_os::{is_absent, read_regular_file};

/// Longer than any number.
const MAX_BYTES: u64 = 64;

/// The file of one hook.
#[derive(Debug)]
pub(super) struct Cursor {
    path: PathBuf,
    temporary: PathBuf,
    /// Serializes writes.
    writing: Mutex<()>,
}

impl Cursor {
    /// The cursor of the hook with this name, in the directory of a journal.
    pub(super) fn new(dir: &Path, name: &str) -> Self {
        let path = dir.join(format!("webhook-{name}"));
        Cursor { temporary: path.with_extension("new"), path, writing: Mutex::new(()) }
    }

    /// The number of the next line; `None` for a new hook. If the file has no number, it is that of the
    /// oldest line: sending an event twice is better than never.
    pub(super) fn read(&self) -> io::Result<Option<u64>> {
        match read_regular_file(&self.path, true, Role::Config, MAX_BYTES) {
            Ok(bytes) => {
                let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim_end().parse().ok());
                if number.is_none() {
                    let path = self.path.display();
                    tracing::error!("{path}: cursor is damaged; sending all events in the journal again");
                }
                Ok(Some(number.unwrap_or(0)))
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the number with which a hook begins, unless it was `kept`, and makes the file's name durable.
    /// Otherwise a power cut would turn the hook into a new one, which skips all earlier events.
    pub(super) fn begin(&self, kept: Option<u64>, next: u64) -> io::Result<()> {
        // An existing file is not written again: a full disk does not prevent a start.
        if kept != Some(next) {
            self.write(next)?;
        }
        let dir = self.path.parent().unwrap_or(Path::new("."));
        durable::sync_dir(dir, Role::Config)
    }

    /// Writes the number of the next line.
    pub(super) fn write(&self, next: u64) -> io::Result<()> {
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // A killed process may have left it.
        durable::remove_file(&self.temporary, Role::Config)?;
        let mut file = NewFile::create(&self.temporary, 0o640, Role::Config)?;
        file.write(format!("{next}\n").as_bytes())?;
        file.sync()?;
        file.replace(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use packrace_os::simulated::{DiskFault, DiskOp, on_disk};

    use super::*;

    #[test]
    fn a_power_cut_makes_no_hook_a_new_one() {
        let dir = packrace_testkit::scratch_dir();
        let cursor = Cursor::new(dir.path(), "ci");
        let (begun, steps) = on_disk(DiskFault::None, || cursor.begin(None, 7));
        begun.unwrap();
        let named = DiskOp::Rename(dir.path().join("webhook-ci"));
        let [sync, rename, sync_dir] =
            [DiskOp::Sync, named, DiskOp::SyncDir].map(|op| steps.iter().position(|step| step.op == op));
        assert!(sync.is_some() && sync < rename && rename < sync_dir, "{steps:?}");
        for at in 0..steps.len() {
            let fault = DiskFault::At(at, io::ErrorKind::StorageFull);
            let (begun, _) = on_disk(fault, || cursor.begin(Some(7), 8));
            assert!(begun.is_err(), "{at}: {steps:?}");
            assert!([7, 8].contains(&cursor.read().unwrap().unwrap()));
        }
        // The previous start may have been killed between the two.
        let (_, steps) = on_disk(DiskFault::None, || cursor.begin(Some(8), 8));
        assert_eq!(steps.iter().map(|step| &step.op).collect::<Vec<_>>(), [&DiskOp::SyncDir]);
    }

    #[test]
    fn what_was_written_is_read() {
        let dir = packrace_testkit::scratch_dir();
        let cursor = Cursor::new(dir.path(), "ci");
        assert_eq!(cursor.read().unwrap(), None);
        cursor.write(7).unwrap();
        // As after a kill.
        std::fs::write(dir.path().join("webhook-ci.new"), "9").unwrap();
        assert_eq!(cursor.read().unwrap(), Some(7));
        cursor.write(u64::MAX).unwrap();
        assert_eq!(cursor.read().unwrap(), Some(u64::MAX));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        for bad in ["", "x", "-1", "7 8", "\u{ff}", "99999999999999999999999"] {
            std::fs::write(dir.path().join("webhook-ci"), bad).unwrap();
            assert_eq!(cursor.read().unwrap(), Some(0), "{bad}");
        }
    }
}
