//! A directory that must not be moved while in use: users of its path hold it shared, and a mover waits until
//! it is free.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::{clock, reach};

/// Attempts and interval to wait while another process holds it alone: 5 s in total.
const MAX_TRIES: u32 = 1000;
const TRY_INTERVAL: Duration = Duration::from_millis(5);

/// Attempts while others work in it, one after the other: 60 s in total.
const MAX_TRIES_IN_TURN: u32 = 12_000;

/// An open directory, and its path.
#[derive(Debug)]
pub struct HeldDir {
    dir: File,
    path: PathBuf,
}

impl HeldDir {
    /// The current directory at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(HeldDir { dir: reach::open(path)?, path: path.to_owned() })
    }

    /// Holds it shared until this value is dropped. Waits for a move in progress, which takes one rename.
    /// Returns whether its path still leads to it; if the file system cannot lock directories, or another
    /// process holds it longer, nothing more is guaranteed.
    pub fn hold(&self) -> io::Result<bool> {
        self.lock_within(FlockOperation::NonBlockingLockShared, MAX_TRIES);
        self.is_in_place()
    }

    /// Holds it alone, if it is free and its path still leads to it.
    pub fn hold_alone(&self) -> io::Result<bool> {
        match flock(&self.dir, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(false),
            _ => self.is_in_place(),
        }
    }

    /// As [`HeldDir::hold_alone`], but waits for its turn; false if that takes too long.
    pub fn hold_in_turn(&self) -> io::Result<bool> {
        let is_free = self.lock_within(FlockOperation::NonBlockingLockExclusive, MAX_TRIES_IN_TURN);
        Ok(is_free && self.is_in_place()?)
    }

    /// Whether others do not hold it any more, after so many attempts at most.
    fn lock_within(&self, operation: FlockOperation, tries: u32) -> bool {
        for _ in 0..tries {
            match flock(&self.dir, operation) {
                Err(Errno::WOULDBLOCK | Errno::INTR) => clock::sleep(TRY_INTERVAL),
                _ => return true,
            }
        }
        false
    }

    fn is_in_place(&self) -> io::Result<bool> {
        let opened = self.dir.metadata()?;
        match std::fs::metadata(&self.path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (opened.dev(), opened.ino())),
            Err(error) if crate::is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for HeldDir {
    /// Closing is not enough: a child that another thread has just started holds the directory, and with it
    /// the lock, until it executes its program.
    fn drop(&mut self) {
        let _ = flock(&self.dir, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_the_other() {
        let top = tempfile::tempdir().unwrap();
        let open = || HeldDir::open(top.path()).unwrap();
        let first = open();
        assert!(first.hold_in_turn().unwrap());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| open().hold_in_turn().unwrap());
            clock::sleep(4 * TRY_INTERVAL);
            assert!(!second.is_finished());
            drop(first);
            assert!(second.join().unwrap());
        });
    }

    #[test]
    fn nobody_moves_what_others_hold() {
        let top = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| top.path().join(name));
        std::fs::create_dir(&a).unwrap();
        let open = || HeldDir::open(&a).unwrap();
        let (one, two) = (open(), open());
        assert!(one.hold().unwrap() && two.hold().unwrap());
        assert!(!open().hold_alone().unwrap());
        let _held_by_a_child = one.dir.try_clone().unwrap();
        drop((one, two));
        let alone = open();
        assert!(alone.hold_alone().unwrap());
        assert!(!open().hold_alone().unwrap());
        let before = open();
        std::fs::rename(&a, &b).unwrap();
        drop(alone);
        assert!(!before.hold().unwrap(), "it has gone");
        std::fs::create_dir(&a).unwrap();
        assert!(!before.hold().unwrap(), "another one is there");
        assert!(open().hold().unwrap() && HeldDir::open(&b).unwrap().hold().unwrap());
    }
}
