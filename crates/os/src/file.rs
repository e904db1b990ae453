use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::count::{self, Op, Role};

/// What tells one version of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    modified_nanoseconds: i128,
    /// When the content, or what is known of the file, last changed; no program can put it back.
    changed_nanoseconds: i128,
    /// Length in bytes.
    pub length: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Whether it is a regular file: opening anything else may block.
    pub is_file: bool,
    /// Last modification.
    pub modified: Option<SystemTime>,
}

/// The coarsest that file systems of today count time, and some more: Linux takes the time of a timer that ticks each
/// 1 to 10 ms.
const TICK: Duration = Duration::from_millis(50);

/// The same for file systems that count seconds, or two of them.
const TICK_OF_SECONDS: Duration = Duration::from_secs(3);

/// The kind of a directory entry, symbolic links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryType {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// Anything else.
    Other,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without the directory.
    pub name: OsString,
    /// Its kind.
    pub kind: EntryType,
}

/// What a whole small file is read into at first.
const READ_FILE_BYTES: usize = 4096;

/// So much is read of a regular file that says it is empty: those of /proc do, and may have no end.
const MAX_MADE_UP_BYTES: u64 = 64 << 10;

/// Reads a whole small file. Fails with [`io::ErrorKind::FileTooLarge`] when it is longer than `max_bytes`.
pub fn read_file(path: &Path, role: Role, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_whole(open_without_waiting(path)?, role, max_bytes)
}

/// As [`read_file`], but wherever it lies: [`reach::confine`](crate::reach::confine) does not count.
pub fn read_file_anywhere(path: &Path, role: Role, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_whole(crate::reach::open_anywhere(path)?, role, max_bytes)
}

/// As [`read_file`], or as [`read_file_anywhere`] where it may lie anywhere. What is neither a regular file nor a
/// directory is [`io::ErrorKind::InvalidData`] at once, but for `/dev/null`: a pipe or a device may have no end.
pub fn read_regular_file(path: &Path, anywhere: bool, role: Role, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = if anywhere { crate::reach::open_anywhere(path)? } else { crate::reach::open(path)? };
    let metadata = file.metadata()?;
    match () {
        () if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // What git's users name where there shall be no file.
        () if is_null_device(&metadata) => Ok(Vec::new()),
        () if !metadata.is_file() => Err(io::ErrorKind::InvalidData.into()),
        () if metadata.len() > max_bytes => Err(io::ErrorKind::FileTooLarge.into()),
        () if metadata.len() > 0 => read_whole(file, role, max_bytes),
        () => read_whole(file, role, MAX_MADE_UP_BYTES).map_err(|error| match error.kind() {
            // Of a file that the kernel makes up: it has no end, or wants to be read in another way.
            io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => io::ErrorKind::InvalidData.into(),
            _ => error,
        }),
    }
}

/// Whether it is `/dev/null`, by whatever name.
fn is_null_device(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let null = || std::fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == metadata.rdev());
    metadata.file_type().is_char_device() && null()
}

/// As [`read_file`], but fails where `path` is a symbolic link.
pub fn read_file_without_following(path: &Path, role: Role, max_bytes: u64) -> io::Result<Vec<u8>> {
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits() as i32;
    read_whole(OpenOptions::new().read(true).custom_flags(flags).open(path)?, role, max_bytes)
}

/// Opens what `path` names to read it, unless that is a symbolic link, and says what it is. A pipe does not wait for its
/// writer, so that whoever wants a regular file finds out.
pub fn open_without_following(path: &Path, role: Role) -> io::Result<(File, std::fs::Metadata)> {
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    count::add(role, Op::Look, 0);
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

fn read_whole(file: File, role: Role, max_bytes: u64) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    // Room for most files, so that one read finds all and another one the end.
    let mut bytes = Vec::with_capacity(READ_FILE_BYTES);
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    count::add(role, Op::Read, bytes.len());
    if bytes.len() as u64 > max_bytes {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Opens a file to read it. A pipe, which no repository has a use for, does not wait for its writer.
pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    crate::reach::open(path)
}

/// Whether there was nothing to open: no such file, a name longer than any, or links that go round.
pub fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// What the system says of a failure, without its number, as git shows it.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// What a symbolic link says; `None` if `path` is not one.
pub fn read_link(path: &Path, role: Role) -> io::Result<Option<PathBuf>> {
    count::add(role, Op::Look, 0);
    match std::fs::read_link(path) {
        Ok(target) => Ok(Some(target)),
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Writes a file that is not part of a repository (a report); nothing is synced.
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::write(path, bytes)
}

/// The entries of a directory, sorted by name bytes. Entries that vanish while listing are left out.
pub fn list_dir(path: &Path, role: Role) -> io::Result<Vec<DirEntry>> {
    count::add(role, Op::Look, 0);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let Ok(file_type) = entry.file_type() else { continue };
        let kind = if file_type.is_file() {
            EntryType::File
        } else if file_type.is_dir() {
            EntryType::Dir
        } else if file_type.is_symlink() {
            EntryType::Symlink
        } else {
            EntryType::Other
        };
        entries.push(DirEntry { name: entry.file_name(), kind });
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// The identity of what `path` names, links followed; `None` if there is nothing.
pub fn identity(path: &Path, role: Role) -> io::Result<Option<FileIdentity>> {
    count::add(role, Op::Look, 0);
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(e) => return Err(e),
    };
    Ok(Some(FileIdentity::of(&metadata)))
}

impl FileIdentity {
    /// Whether a change after this look gives another identity for certain: the last one was so long before `look`, the
    /// time just before it was done, that the clock of the file system has ticked since. Otherwise a file may change
    /// twice in one tick, and look the same (what git calls racy of its index).
    pub fn is_settled(&self, look: SystemTime) -> bool {
        let since = look.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let tick = if self.changed_nanoseconds % 1_000_000_000 == 0 { TICK_OF_SECONDS } else { TICK };
        self.changed_nanoseconds + tick.as_nanos() as i128 <= since.as_nanos() as i128
    }

    /// Whether both are of the same directory, or of the same other thing, whatever became of its contents.
    pub fn is_same_place(&self, other: &FileIdentity) -> bool {
        self.device == other.device && self.inode == other.inode && self.is_dir == other.is_dir
    }

    /// All that tells versions apart, for a hash.
    pub fn to_bytes(&self) -> [u8; 56] {
        let mut bytes = [0; 56];
        bytes[..8].copy_from_slice(&self.device.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.inode.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.modified_nanoseconds.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.changed_nanoseconds.to_le_bytes());
        bytes[48..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    pub(crate) fn of(metadata: &std::fs::Metadata) -> Self {
        let nanoseconds = |seconds, rest| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified_nanoseconds: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed_nanoseconds: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            length: metadata.len(),
            is_dir: metadata.is_dir(),
            is_file: metadata.is_file(),
            modified: metadata.modified().ok(),
        }
    }
}

/// Whether a file may be run by this process; `None` if there is none.
pub fn is_executable(path: &Path, role: Role) -> io::Result<Option<bool>> {
    use rustix::fs::{Access, access};
    use rustix::io::Errno;
    count::add(role, Op::Look, 0);
    match access(path, Access::EXEC_OK) {
        Ok(()) => Ok(Some(true)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        // Also where a directory on the way is closed: a look at the file itself tells.
        Err(Errno::ACCESS) => std::fs::metadata(path).map(|_| Some(false)),
        Err(error) => Err(error.into()),
    }
}

/// The user id that owns what `path` names, a link itself not followed.
pub fn owner(path: &Path) -> io::Result<u32> {
    count::add(Role::Config, Op::Look, 0);
    Ok(std::fs::symlink_metadata(path)?.uid())
}

/// The last twelve bits of the mode of what `path` names, links followed.
pub fn mode(path: &Path, role: Role) -> io::Result<u32> {
    count::add(role, Op::Look, 0);
    Ok(std::fs::metadata(path)?.mode() & 0o7777)
}

/// The path without links, `.` and `..`.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    count::add(Role::Config, Op::Look, 0);
    std::fs::canonicalize(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a look so long after the last change is believed.
    #[track_caller]
    fn check(changed_nanoseconds: i128, after: Duration, expect: bool) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let identity = FileIdentity::of(&file.as_file().metadata().unwrap());
        let identity = FileIdentity { changed_nanoseconds, ..identity };
        let changed = SystemTime::UNIX_EPOCH + Duration::from_nanos(changed_nanoseconds as u64);
        assert_eq!(identity.is_settled(changed + after), expect);
    }

    #[test]
    fn what_changed_within_a_tick_is_not_settled() {
        let changed = 1_700_000_000_123_456_789;
        check(changed, Duration::ZERO, false);
        check(changed, Duration::from_millis(49), false);
        check(changed, Duration::from_millis(50), true);
        // A file system that counts seconds.
        let changed = 1_700_000_000_000_000_000;
        check(changed, Duration::from_millis(2999), false);
        check(changed, Duration::from_secs(3), true);
        // A clock that was set back, or that of a server which is ahead.
        let file = tempfile::NamedTempFile::new().unwrap();
        let identity = FileIdentity::of(&file.as_file().metadata().unwrap());
        assert!(!identity.is_settled(SystemTime::now() - Duration::from_secs(60)));
        assert!(!identity.is_settled(SystemTime::UNIX_EPOCH - Duration::from_secs(60)));
    }
}
