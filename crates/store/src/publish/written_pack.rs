use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;

use packrace_os::Mapped;
use packrace_os::durable::{NewFile, WrittenFile};

use crate::error::Error;

/// The bytes of a pack: mapped when they are first needed, or read range by range if a map would take too
/// much of the address space that the process may have.
#[derive(Debug)]
pub struct WrittenPack(PackBytes);

#[derive(Debug)]
enum PackBytes {
    Map(Mapped),
    File { file: WrittenFile, path: PathBuf, is_in_ranges: bool, map: OnceLock<Mapped> },
}

impl WrittenPack {
    pub(super) fn of(file: &mut NewFile) -> Result<Self, Error> {
        let path = file.path().to_owned();
        let file = file.written().map_err(|error| Error::io(&path, error))?;
        // Asked once: there may be millions of ranges.
        let is_in_ranges = !file.is_to_be_mapped();
        Ok(WrittenPack(PackBytes::File { file, path, is_in_ranges, map: OnceLock::new() }))
    }

    /// Whether it is read range by range.
    pub fn is_in_ranges(&self) -> bool {
        matches!(self.0, PackBytes::File { is_in_ranges: true, .. })
    }

    /// The map of all bytes, if there is one by now.
    pub fn mapped(&self) -> Option<&Mapped> {
        match &self.0 {
            PackBytes::Map(map) => Some(map),
            PackBytes::File { map, .. } => map.get(),
        }
    }

    /// All bytes, mapped now at the latest.
    pub fn map(&self) -> Result<&Mapped, Error> {
        match &self.0 {
            PackBytes::Map(map) => Ok(map),
            PackBytes::File { file, path, map, .. } => match map.get() {
                Some(map) => Ok(map),
                None => {
                    let mapped = file.map().map_err(|error| Error::io(path, error))?;
                    Ok(map.get_or_init(|| mapped))
                }
            },
        }
    }

    /// The bytes of a range; without a map they are in `buffer`. Fails if the file ends before.
    pub fn range<'a>(&'a self, range: Range<u64>, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], Error> {
        let (file, path) = match &self.0 {
            PackBytes::File { file, path, is_in_ranges: true, .. } => (file, path),
            _ => {
                let map = self.map()?;
                let path = map.path().map(PathBuf::from).unwrap_or_default();
                let bytes = map.get(range.start as usize..range.end as usize);
                return bytes.ok_or_else(|| Error::io(&path, io::ErrorKind::UnexpectedEof.into()));
            }
        };
        let length = range.end.saturating_sub(range.start) as usize;
        buffer.clear();
        buffer.try_reserve_exact(length).map_err(|error| Error::io(path, error.into()))?;
        buffer.resize(length, 0);
        file.read(range.start, buffer).map_err(|error| Error::io(path, error))?;
        Ok(buffer)
    }
}

impl From<Mapped> for WrittenPack {
    fn from(map: Mapped) -> Self {
        WrittenPack(PackBytes::Map(map))
    }
}
