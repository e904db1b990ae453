use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::count::{self, Op, Role};
use crate::file::FileIdentity;

/// The bytes of a file, mapped read-only; clones share one map, which lives as long as the last of them.
///
/// A map outlives the unlinking of its file, so a repack beside a response does not disturb it. A file that is
/// *truncated* while mapped raises SIGBUS on access, as in git; Git's own files are never changed in place.
#[derive(Clone)]
pub struct Mapped(Arc<Bytes>);

enum Bytes {
    Map { start: *const u8, length: usize, identity: Option<FileIdentity> },
    Owned(Vec<u8>),
}

// SAFETY: the map is read-only and private to this value; nothing writes through `start`.
#[allow(unsafe_code)]
unsafe impl Send for Bytes {}
// SAFETY: as above; shared reads of read-only memory do not race.
#[allow(unsafe_code)]
unsafe impl Sync for Bytes {}

impl Mapped {
    /// Maps the whole file. An empty file gives empty bytes without a map.
    pub fn open(path: &Path, role: Role) -> io::Result<Mapped> {
        Mapped::of_file(&crate::file::open_without_waiting(path)?, role)
    }

    /// As [`Mapped::open`].
    pub(crate) fn of_file(file: &std::fs::File, role: Role) -> io::Result<Mapped> {
        let identity = FileIdentity::of(&file.metadata()?);
        let length = identity.length;
        let length = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        if length == 0 {
            return Ok(Mapped::from(Vec::new()));
        }
        Mapped::of_range(file, 0, length, Some(identity), role)
    }

    /// A part of a file that is not empty, whose beginning is a multiple of the size of a page.
    pub(crate) fn of_range(
        file: &std::fs::File,
        offset: u64,
        length: usize,
        identity: Option<FileIdentity>,
        role: Role,
    ) -> io::Result<Mapped> {
        count::add(role, Op::Map, length);
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        // SAFETY: a fresh private read-only mapping of `length` bytes at an address the kernel chooses.
        #[allow(unsafe_code)]
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, file, offset)? };
        Ok(Mapped(Arc::new(Bytes::Map { start: start.cast(), length, identity })))
    }

    /// Which version of which file is mapped, as it was then; `None` for bytes that are no file or
    /// only a part of one, and for none.
    pub fn identity(&self) -> Option<FileIdentity> {
        match &*self.0 {
            Bytes::Map { identity, .. } => *identity,
            Bytes::Owned(_) => None,
        }
    }

    /// Lets go of the memory that the bytes take in this process. The kernel keeps them as long as it likes, and they come
    /// back when they are looked at.
    pub fn let_go(&self) {
        if let Bytes::Map { start, length, .. } = &*self.0 {
            // SAFETY: the range is exactly our live mapping, which is of a file and never written through: its pages come
            // back from the file with the same contents.
            #[allow(unsafe_code)]
            let _ = unsafe {
                rustix::mm::madvise(start.cast_mut().cast(), *length, rustix::mm::Advice::LinuxDontNeed)
            };
        }
    }

    /// Tells the kernel that the bytes will be read once, from front to back.
    pub fn advise_sequential(&self) {
        if let Bytes::Map { start, length, .. } = &*self.0 {
            // SAFETY: the range is exactly our live mapping; the advice does not change its contents.
            #[allow(unsafe_code)]
            let _ = unsafe {
                rustix::mm::madvise(start.cast_mut().cast(), *length, rustix::mm::Advice::Sequential)
            };
        }
    }
}

impl From<Vec<u8>> for Mapped {
    fn from(bytes: Vec<u8>) -> Self {
        Mapped(Arc::new(Bytes::Owned(bytes)))
    }
}

impl std::ops::Deref for Mapped {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &*self.0 {
            // SAFETY: `start` and `length` describe a mapping that lives until the last clone is dropped.
            #[allow(unsafe_code)]
            Bytes::Map { start, length, .. } => unsafe { std::slice::from_raw_parts(*start, *length) },
            Bytes::Owned(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Mapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mapped({} bytes)", self.len())
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Bytes::Map { start, length, .. } = *self {
            // SAFETY: this is the last reference to a mapping that we made with this address and length.
            #[allow(unsafe_code)]
            let _ = unsafe { rustix::mm::munmap(start.cast_mut().cast(), length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_outlives_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"hello").unwrap();
        let map = Mapped::open(&path, Role::Pack).unwrap();
        let clone = map.clone();
        std::fs::remove_file(&path).unwrap();
        drop(map);
        assert_eq!(&*clone, b"hello");
    }

    #[test]
    fn an_empty_file_has_no_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Mapped::open(file.path(), Role::Pack).unwrap().is_empty());
        assert!(Mapped::open(Path::new("/nonexistent/x"), Role::Pack).is_err());
    }
}
