//! Files whose checksums were verified, for the whole process.
//!
//! A server opens a repository anew for each request. Hashing its bitmap, reverse index, multi-pack-index and
//! commit-graph each time costs more than most fetches. A file with the same identity (device, inode, length,
//! times of modification and of change) is therefore hashed once. Later corruption that does not change these
//! times is found only by the next process.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use packrace_os::{FileIdentity, Mapped};

/// Maximum number of remembered files; 100 bytes each.
const REMEMBERED: usize = 1024;

/// Newest last.
static VERIFIED: Mutex<VecDeque<FileIdentity>> = Mutex::new(VecDeque::new());

/// Runs `verify` on files, unless it has succeeded for each of them before.
pub(crate) fn once<E>(files: &[Mapped], verify: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    match files.iter().map(Mapped::identity).collect::<Option<Vec<_>>>() {
        Some(files) => once_of(files, verify),
        None => verify(),
    }
}

/// As above, for files identified by their current state.
pub(crate) fn once_of<E>(files: Vec<FileIdentity>, verify: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    let lock = || VERIFIED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_known = {
        let verified = lock();
        files.iter().all(|file| verified.contains(file))
    };
    if is_known {
        return Ok(());
    }
    verify()?;
    let mut verified = lock();
    for file in files {
        if !verified.contains(&file) {
            verified.push_back(file);
        }
    }
    let excess = verified.len().saturating_sub(REMEMBERED);
    verified.drain(..excess);
    Ok(())
}

#[cfg(test)]
mod tests {
    use packrace_os::count::Role;

    use super::*;

    #[test]
    fn once_for_each_version_of_a_file() {
        let dir = packrace_testkit::scratch_dir();
        let path = dir.path().join("file");
        std::fs::write(&path, b"one").unwrap();
        let calls = std::cell::Cell::new(0);
        let check = |is_right: bool| {
            let verify = || {
                calls.set(calls.get() + 1);
                is_right.then_some(()).ok_or("wrong")
            };
            once(&[Mapped::open(&path, Role::Index).unwrap()], verify)
        };
        assert_eq!((check(false), check(false), calls.take()), (Err("wrong"), Err("wrong"), 2));
        assert_eq!((check(true), check(false), check(false), calls.take()), (Ok(()), Ok(()), Ok(()), 1));
        // Another file of the same name and length.
        let other = dir.path().join("other");
        std::fs::write(&other, b"two").unwrap();
        std::fs::rename(other, &path).unwrap();
        assert_eq!((check(false), calls.take()), (Err("wrong"), 1));
        assert_eq!((check(true), check(true), calls.take()), (Ok(()), Ok(()), 1));
        // Overwritten in place, with its modification time restored.
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(&path, b"two").unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        assert_eq!((check(false), calls.take()), (Err("wrong"), 1));
        // Bytes without a file have no identity.
        let bytes = [Mapped::from(b"bytes".to_vec())];
        assert_eq!(once(&bytes, || Ok::<(), ()>(())), Ok(()));
        assert_eq!(once(&bytes, || Err(1)), Err(1));
    }
}
