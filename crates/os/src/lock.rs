use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::count::{self, Op, Role};

/// The right to replace a file, as every git takes it: `<name>.lock` beside it, made by exactly one. Gone when dropped.
#[derive(Debug)]
pub struct LockFile {
    target: PathBuf,
    lock: PathBuf,
    file: Option<File>,
    role: Role,
}

impl LockFile {
    /// Takes the lock; fails with [`io::ErrorKind::AlreadyExists`] while somebody else has it. The file will have the
    /// permissions `mode`, less what the process masks.
    pub fn take(target: &Path, mode: u32, role: Role) -> io::Result<Self> {
        let mut name: OsString = target.into();
        name.push(".lock");
        let lock = PathBuf::from(name);
        count::add(role, Op::Look, 0);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&lock)?;
        Ok(LockFile { target: target.to_owned(), lock, file: Some(file), role })
    }

    /// The path of the lock itself.
    pub fn path(&self) -> &Path {
        &self.lock
    }

    /// Replaces the file by `bytes`, which are on disk before they get its name.
    pub fn commit(mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.file.take().expect("committed once");
        file.write_all(bytes)?;
        count::add(self.role, Op::Write, bytes.len());
        file.sync_all()?;
        std::fs::rename(&self.lock, &self.target)?;
        self.lock = PathBuf::new();
        sync_parent(&self.target)
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if !self.lock.as_os_str().is_empty() {
            // Nothing can be done about it; whoever comes next says so.
            let _ = std::fs::remove_file(&self.lock);
        }
    }
}

/// Puts what happened to the names in a file's directory on disk.
fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Removes a file; true if it was there.
pub fn remove_file(path: &Path, role: Role) -> io::Result<bool> {
    count::add(role, Op::Look, 0);
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a directory and those above it, where they are missing.
pub fn create_dirs(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Sets when a file was last changed. The owner may do this to files that are not writable.
pub fn set_modified(path: &Path, when: SystemTime) -> io::Result<()> {
    File::open(path)?.set_modified(when)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let lock = LockFile::take(&path, 0o444, Role::Index).unwrap();
        let second = LockFile::take(&path, 0o444, Role::Index).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
        lock.commit(b"one").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        drop(LockFile::take(&path, 0o444, Role::Index).unwrap());
        LockFile::take(&path, 0o444, Role::Index).unwrap().commit(b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        set_modified(&path, SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), SystemTime::UNIX_EPOCH);
        assert!(remove_file(&path, Role::Index).unwrap());
        assert!(!remove_file(&path, Role::Index).unwrap());
    }
}
