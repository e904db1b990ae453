//! An append-only file that is read while it grows: disk space is reserved in advance, and one thread can
//! sync while another writes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock};
use rustix::io::Errno;

use crate::count::{self, Op, Role};
use crate::reach;
use crate::simulated::{DiskChange, DiskOp, before, done};

/// A log, open for writing. Dropping it keeps the file.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    path: std::path::PathBuf,
    role: Role,
}

impl LogFile {
    /// Creates the file `path`; fails with [`io::ErrorKind::AlreadyExists`] if it exists. `mode` is subject to the umask.
    pub fn create(path: &Path, mode: u32, role: Role) -> io::Result<Self> {
        LogFile::opened(path, OFlags::CREATE | OFlags::EXCL, mode, role)
    }

    /// Opens the file `path`, or creates it.
    pub fn open_or_create(path: &Path, mode: u32, role: Role) -> io::Result<Self> {
        LogFile::opened(path, OFlags::CREATE, mode, role)
    }

    /// Opens an existing file.
    pub fn open(path: &Path, role: Role) -> io::Result<Self> {
        LogFile::opened(path, OFlags::empty(), 0, role)
    }

    fn opened(path: &Path, flags: OFlags, mode: u32, role: Role) -> io::Result<Self> {
        before(path, DiskOp::Create)?;
        count::add(role, Op::Create, 0);
        let file = reach::open_to_write(path, OFlags::RDWR | flags, mode)?;
        done(|| DiskChange::Create(path.to_owned()));
        Ok(LogFile { file, path: path.to_owned(), role })
    }

    /// Locks it against all other processes and [`LogFile`]s until dropped. Returns false if it is
    /// already locked.
    pub fn lock_alone(&self) -> io::Result<bool> {
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reserves disk space for these bytes without extending the file. Returns false if the file system
    /// cannot: writing may then find the disk full.
    pub fn reserve(&self, at: u64, bytes: u64) -> io::Result<bool> {
        before(&self.path, DiskOp::Write(0))?;
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, at, bytes) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes all of `bytes` at this offset.
    pub fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        before(&self.path, DiskOp::Write(bytes.len()))?;
        count::add(self.role, Op::Write, bytes.len());
        self.file.write_all_at(bytes, at)?;
        done(|| DiskChange::Write { path: self.path.clone(), at: Some(at), bytes: bytes.to_vec() });
        Ok(())
    }

    /// Truncates it, which also releases reserved space behind the new end.
    pub fn truncate(&self, length: u64) -> io::Result<()> {
        before(&self.path, DiskOp::Truncate)?;
        count::add(self.role, Op::Write, 0);
        self.file.set_len(length)?;
        done(|| DiskChange::Truncate { path: self.path.clone(), length });
        Ok(())
    }

    /// Makes the written data durable.
    pub fn sync(&self) -> io::Result<()> {
        before(&self.path, DiskOp::Sync)?;
        count::add(self.role, Op::Sync, 0);
        self.file.sync_data()?;
        done(|| DiskChange::Sync(self.path.clone()));
        Ok(())
    }
}

impl Drop for LogFile {
    /// Closing is not enough: a child that another thread has just started holds the file, and with it the
    /// lock, until it executes its program.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_without_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = LogFile::create(&path, 0o600, Role::Config).unwrap();
        log.write_at(0, b"one\n").unwrap();
        log.reserve(4, 1 << 20).unwrap();
        log.write_at(4, b"two\n").unwrap();
        log.sync().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\n");
        log.truncate(4).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one\n");
        let again = LogFile::create(&path, 0o600, Role::Config).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn one_has_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let open = || LogFile::open_or_create(&path, 0o600, Role::Config).unwrap();
        let one = open();
        assert!(one.lock_alone().unwrap());
        assert!(!open().lock_alone().unwrap());
        let _held_by_a_child = one.file.try_clone().unwrap();
        drop(one);
        assert!(open().lock_alone().unwrap());
    }
}
