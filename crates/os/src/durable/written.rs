use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::NewFile;
use crate::Mapped;
use crate::count::{self, Op, Role};
use crate::process::address_space_limit;

/// A map of a file may take one part in this many of the address space that the process may have: the rest is
/// for the program, its threads and what it works on.
const PARTS_OF_ADDRESS_SPACE: u64 = 4;

/// What was written to a [`NewFile`], for reading, also while the file is synced or named.
#[derive(Debug)]
pub struct WrittenFile {
    file: File,
    role: Role,
    length: u64,
}

impl NewFile {
    /// All bytes so far.
    pub fn written(&mut self) -> io::Result<WrittenFile> {
        self.flush()?;
        Ok(WrittenFile { file: self.file.try_clone()?, role: self.role, length: self.written_bytes })
    }

    /// Reads bytes that were written before.
    pub fn read(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.flush()?;
        read(&self.file, offset, bytes, self.role)
    }
}

impl WrittenFile {
    /// Whether a map of it leaves enough of the address space that the process may have (`ulimit -v`).
    pub fn is_to_be_mapped(&self) -> bool {
        address_space_limit().is_none_or(|limit| self.length <= limit / PARTS_OF_ADDRESS_SPACE)
    }

    /// All bytes. The map must be dropped before the file is truncated.
    pub fn map(&self) -> io::Result<Mapped> {
        Mapped::of_file(&self.file, None, self.role)
    }

    /// Reads bytes of it, without a map.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        read(&self.file, offset, bytes, self.role)
    }
}

fn read(file: &File, offset: u64, bytes: &mut [u8], role: Role) -> io::Result<()> {
    count::add(role, Op::Read, bytes.len());
    file.read_exact_at(bytes, offset)
}
