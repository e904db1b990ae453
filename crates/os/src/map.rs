use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::count::{self, Op, Role};
use crate::faults::{Damaged, Slot};
use crate::file::FileIdentity;

/// Files up to this size are read instead of mapped if used for one request only.
const SMALL_BYTES: u64 = 32 << 10;

/// The bytes of a file, mapped read-only; clones share one map, which lives until the last is dropped.
///
/// A map outlives the unlinking of its file, so a concurrent repack does not disturb a response. If a file is
/// *truncated* while mapped, or its disk fails, the map reads as zeros from then on and is marked, provided
/// that [`faults::contain`](crate::faults::contain) was called; otherwise SIGBUS kills the process. Writes in
/// place show in the map. Callers use [`Mapped::check`], and where it matters [`Mapped::look`], before an
/// answer made from a map counts.
#[derive(Clone)]
pub struct Mapped(Arc<MappedBytes>);

enum MappedBytes {
    Map { start: *const u8, length: usize, slot: &'static Slot, file: Option<Box<MappedFile>> },
    Owned(Vec<u8>),
}

/// The file behind a map.
struct MappedFile {
    path: Option<Arc<Path>>,
    identity: FileIdentity,
}

/// The current state of a mapped file's path ([`Mapped::look`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The mapped file, unchanged; or the map has no named file.
    Same,
    /// Another file, or none: this path no longer leads to the mapped file.
    Elsewhere,
    /// The same file with the same length but other times: it was touched, linked or written to.
    Touched(FileIdentity),
    /// The same file with another length, or the map is damaged; marked from now on.
    Damaged(Damaged),
}

// SAFETY: the map is read-only and private to this value; nothing writes through `start`.
#[allow(unsafe_code)]
unsafe impl Send for MappedBytes {}
// SAFETY: as above; shared reads of read-only memory do not race.
#[allow(unsafe_code)]
unsafe impl Sync for MappedBytes {}

impl Mapped {
    /// Maps the whole file. An empty file returns empty bytes without a map.
    pub fn open(path: &Path, role: Role) -> io::Result<Mapped> {
        Mapped::of_file(&crate::file::open_without_waiting(path)?, Some(path), role)
    }

    /// As [`Mapped::open`], but a file of 32 KiB or less is read: cheaper than a short-lived map, and without
    /// contention between threads that map. The bytes read do not change with the file. Fails if the file is
    /// truncated meanwhile.
    pub fn open_or_read(path: &Path, role: Role) -> io::Result<Mapped> {
        use std::io::Read as _;
        let mut file = crate::file::open_without_waiting(path)?;
        let length = file.metadata()?.len();
        if length > SMALL_BYTES {
            return Mapped::of_file(&file, Some(path), role);
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact(&mut bytes)?;
        count::add(role, Op::Read, bytes.len());
        Ok(Mapped::from(bytes))
    }

    /// As [`Mapped::open`]; `path` is the name of the file, unless it is about to be renamed.
    pub(crate) fn of_file(file: &std::fs::File, path: Option<&Path>, role: Role) -> io::Result<Mapped> {
        let identity = FileIdentity::of(&file.metadata()?);
        let length = identity.length;
        let length = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        if length == 0 {
            return Ok(Mapped::from(Vec::new()));
        }
        let file_of = MappedFile { path: path.map(Arc::from), identity };
        Mapped::map(file, 0, length, Some(Box::new(file_of)), role)
    }

    /// A non-empty part of an unnamed file; its start is a multiple of the page size.
    pub(crate) fn of_range(
        file: &std::fs::File,
        offset: u64,
        length: usize,
        role: Role,
    ) -> io::Result<Mapped> {
        Mapped::map(file, offset, length, None, role)
    }

    fn map(
        file: &std::fs::File,
        offset: u64,
        length: usize,
        file_of: Option<Box<MappedFile>>,
        role: Role,
    ) -> io::Result<Mapped> {
        count::add(role, Op::Map, length);
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        // SAFETY: a fresh private read-only mapping of `length` bytes at an address the kernel chooses.
        #[allow(unsafe_code)]
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, file, offset)? };
        let name = file_of.as_ref().and_then(|file| file.path.as_ref());
        let slot = Slot::claim(start.addr(), length, name);
        Ok(Mapped(Arc::new(MappedBytes::Map { start: start.cast(), length, slot, file: file_of })))
    }

    /// Whether the map had a fault, or its file was found changed. Costs one load.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        match &*self.0 {
            MappedBytes::Map { slot, .. } => slot.is_damaged(),
            MappedBytes::Owned(_) => false,
        }
    }

    /// Fails with the name of the file if [`Mapped::is_damaged`]: all results from it are invalid.
    #[inline]
    pub fn check(&self) -> Result<(), Damaged> {
        if self.is_damaged() { Err(self.damaged()) } else { Ok(()) }
    }

    /// Marks the map after its bytes were found to have changed.
    #[cold]
    pub fn mark_damaged(&self) -> Damaged {
        if let MappedBytes::Map { slot, .. } = &*self.0 {
            slot.mark();
        }
        self.damaged()
    }

    /// Checks whether the file is unchanged since it was mapped: after a truncation within a page, the rest
    /// of the page reads as zeros without a fault, and writes in place show at once.
    pub fn look(&self, role: Role) -> Standing {
        if self.is_damaged() {
            return Standing::Damaged(self.damaged());
        }
        let MappedBytes::Map { file: Some(file), .. } = &*self.0 else { return Standing::Same };
        let Some(path) = &file.path else { return Standing::Same };
        match crate::file::identity(path, role) {
            Ok(Some(now)) if now == file.identity => Standing::Same,
            Ok(Some(now)) if !now.is_same_place(&file.identity) => Standing::Elsewhere,
            Ok(Some(now)) if now.length == file.identity.length => Standing::Touched(now),
            Ok(Some(_)) => Standing::Damaged(self.mark_damaged()),
            Ok(None) | Err(_) => Standing::Elsewhere,
        }
    }

    /// The path it was opened by, if it is mapped and had one.
    pub fn path(&self) -> Option<&Path> {
        match &*self.0 {
            MappedBytes::Map { file: Some(file), .. } => file.path.as_deref(),
            _ => None,
        }
    }

    /// Whether it is a mapped file, not memory.
    #[inline]
    pub fn is_file(&self) -> bool {
        matches!(&*self.0, MappedBytes::Map { .. })
    }

    /// Whether both are clones of one map.
    #[inline]
    pub fn is_same_map(&self, other: &Mapped) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    #[cold]
    fn damaged(&self) -> Damaged {
        Damaged { path: self.path().map(Path::to_owned) }
    }

    /// The identity of the file when mapped; `None` for bytes that are not a whole file, or not a file.
    pub fn identity(&self) -> Option<FileIdentity> {
        match &*self.0 {
            MappedBytes::Map { file, .. } => file.as_ref().map(|file| file.identity),
            MappedBytes::Owned(_) => None,
        }
    }

    /// Releases this process's memory of the bytes. The kernel may keep them cached, and they are
    /// reloaded when read.
    pub fn let_go(&self) {
        if let MappedBytes::Map { start, length, .. } = &*self.0 {
            // SAFETY: the range is exactly our live mapping, which is of a file and never written through: its
            // pages come back from the file with the same contents.
            #[allow(unsafe_code)]
            let _ = unsafe {
                rustix::mm::madvise(start.cast_mut().cast(), *length, rustix::mm::Advice::LinuxDontNeed)
            };
        }
    }

    /// Tells the kernel that the bytes will be read once, from front to back.
    pub fn advise_sequential(&self) {
        if let MappedBytes::Map { start, length, .. } = &*self.0 {
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
        Mapped(Arc::new(MappedBytes::Owned(bytes)))
    }
}

impl std::ops::Deref for Mapped {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &*self.0 {
            // SAFETY: `start` and `length` describe a mapping that lives until the last clone is dropped.
            #[allow(unsafe_code)]
            MappedBytes::Map { start, length, .. } => unsafe { std::slice::from_raw_parts(*start, *length) },
            MappedBytes::Owned(bytes) => bytes,
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

impl Drop for MappedBytes {
    fn drop(&mut self) {
        if let MappedBytes::Map { start, length, slot, .. } = self {
            // Before the address can be reused.
            slot.forget();
            // SAFETY: this is the last reference to a mapping that we created with this address and length.
            #[allow(unsafe_code)]
            let _ = unsafe { rustix::mm::munmap(start.cast_mut().cast(), *length) };
            slot.give_back();
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
