//! Files that never have a name, so that a crash leaves nothing of them: written data is returned as maps.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::Mapped;
use crate::count::{self, Op, Role};
use crate::durable::NewFile;
use crate::simulated::{DiskOp, before};
use crate::sink::{LACKS_GATHERED_WRITES, MAX_CALL_PIECES, first_piece, gathered_or_plain};

/// An unnamed append-only file. It is freed with its last map.
#[derive(Debug)]
pub struct Spool {
    file: File,
    /// Its directory, for errors and a simulated disk.
    dir: PathBuf,
    role: Role,
    /// The earliest offset of the next bytes: a multiple of the page size.
    end: u64,
}

impl Spool {
    /// Creates one on the file system of `dir`, which must exist. If unnamed files are not supported, the file has
    /// a name until the next call.
    pub fn create(dir: &Path, role: Role) -> io::Result<Self> {
        before(dir, DiskOp::Create)?;
        count::add(role, Op::Create, 0);
        let flags = rustix::fs::OFlags::TMPFILE.bits() as i32;
        let opened = OpenOptions::new().read(true).write(true).custom_flags(flags).mode(0o600).open(dir);
        let file = match opened {
            Err(error) if is_not_known(&error) => create_and_remove(dir, role)?,
            opened => opened?,
        };
        Ok(Spool { file, dir: dir.to_owned(), role, end: 0 })
    }

    /// Writes all `pieces` with as few calls as possible, and maps them. After an error, earlier maps stay valid
    /// and nothing more can be added.
    pub fn append(&mut self, pieces: &[&[u8]]) -> io::Result<Mapped> {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        if length == 0 {
            return Ok(Mapped::from(Vec::new()));
        }
        let start = self.end;
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut rest = slices.as_mut_slice();
        let mut at = start;
        while !rest.is_empty() {
            before(&self.dir, DiskOp::Write((start + length as u64 - at) as usize))?;
            let batch = &rest[..rest.len().min(MAX_CALL_PIECES)];
            let written = gathered_or_plain(
                &LACKS_GATHERED_WRITES,
                || rustix::io::pwritev(&self.file, batch, at),
                || rustix::io::pwrite(&self.file, first_piece(batch), at),
            );
            let written = match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            count::add(self.role, Op::Write, written);
            at += written as u64;
            IoSlice::advance_slices(&mut rest, written);
        }
        let map = Mapped::of_range(&self.file, start, length, self.role)?;
        self.end = (start + length as u64).next_multiple_of(rustix::param::page_size() as u64);
        Ok(map)
    }

    /// The most bytes that it uses on disk.
    pub fn len(&self) -> u64 {
        self.end
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }
}

/// Creates a file and removes its name at once.
fn create_and_remove(dir: &Path, role: Role) -> io::Result<File> {
    NewFile::create_temporary(dir, "packrace-", 0o600, role)?.into_unnamed()
}

/// Whether the file system, or an old kernel, does not support unnamed files.
fn is_not_known(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let unknown = [Errno::OPNOTSUPP, Errno::ISDIR, Errno::INVAL];
    error.raw_os_error().is_some_and(|code| unknown.iter().any(|errno| errno.raw_os_error() == code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{DiskFault, on_disk};

    #[test]
    fn what_is_written_comes_back_as_maps_and_leaves_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(dir.path(), Role::Cache).unwrap();
        let large = vec![7; (1 << 20) + 5];
        let first = spool.append(&[b"ab", b"", &large, b"c"]).unwrap();
        let second = spool.append(&[b"hello"]).unwrap();
        assert!(spool.append(&[]).unwrap().is_empty() && spool.append(&[b""]).unwrap().is_empty());
        let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert!(names.is_empty(), "{names:?}");
        assert!(spool.len() >= (large.len() + 8) as u64);
        drop(spool);
        assert_eq!(*first, [b"ab".as_slice(), &large, b"c"].concat());
        assert_eq!(&*second, b"hello");
        assert_eq!(second.identity(), None);
    }

    #[test]
    fn a_name_that_must_be_goes_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = create_and_remove(dir.path(), Role::Cache).unwrap();
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
        let mut spool = Spool { file, dir: dir.path().to_owned(), role: Role::Cache, end: 0 };
        assert_eq!(&*spool.append(&[b"x"]).unwrap(), b"x");
    }

    #[test]
    fn more_pieces_than_one_call_takes() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(dir.path(), Role::Cache).unwrap();
        let bytes: Vec<u8> = (0..5000u32).map(|at| at as u8).collect();
        let pieces: Vec<&[u8]> = bytes.chunks(2).collect();
        assert_eq!(*spool.append(&pieces).unwrap(), bytes);
    }

    #[test]
    fn a_full_disk_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let full = DiskFault::At(2, io::ErrorKind::StorageFull);
        let (first, _) = on_disk(full, || {
            let mut spool = Spool::create(dir.path(), Role::Cache).unwrap();
            let first = spool.append(&[b"first"]).unwrap();
            assert_eq!(spool.append(&[b"second"]).unwrap_err().kind(), io::ErrorKind::StorageFull);
            first
        });
        assert_eq!(&*first, b"first");
        assert!(Spool::create(&dir.path().join("missing"), Role::Cache).is_err());
    }
}
