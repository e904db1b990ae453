use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::count::{self, Op, Role};

/// Identifies a version of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    modified_nanoseconds: i128,
    /// When content or inode last changed; programs cannot reset it.
    changed_nanoseconds: i128,
    /// Length in bytes.
    pub length: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Whether it is a regular file; opening anything else may block.
    pub is_file: bool,
    /// Last modification.
    pub modified: Option<SystemTime>,
}

/// Slightly more than the coarsest clock tick of current file systems: Linux uses a timer that ticks
/// every 1 to 10 ms.
const TICK: Duration = Duration::from_millis(50);

/// As above, for file systems that count whole seconds, or pairs of them.
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

/// The initial buffer for reading a small file.
const READ_FILE_BYTES: usize = 4096;

/// The most bytes read from a regular file of size 0: files in /proc have that size, and may be endless.
const MAX_MADE_UP_BYTES: u64 = 64 << 10;

/// Reads a whole small file. Fails with [`io::ErrorKind::FileTooLarge`] if it is longer than `max_bytes`.
pub fn read_file(path: &Path, role: Role, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_whole(open_without_waiting(path)?, role, max_bytes)
}

/// What [`read_file_or_link`] has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileOrLink {
    /// The content of a file.
    File(Vec<u8>),
    /// The target of a symbolic link.
    Link(PathBuf),
}

/// As [`read_file`], but does not follow a symbolic link: its target is the answer.
pub fn read_file_or_link(path: &Path, role: Role, max_bytes: u64) -> io::Result<FileOrLink> {
    match crate::reach::open_unless_link(path) {
        Err(error) if is_loop(&error) => match read_link(path, role)? {
            Some(target) => Ok(FileOrLink::Link(target)),
            // It has just been replaced.
            None => read_file(path, role, max_bytes).map(FileOrLink::File),
        },
        opened => read_whole(opened?, role, max_bytes).map(FileOrLink::File),
    }
}

/// As [`read_file`], but not limited by [`reach::confine`](crate::reach::confine).
pub fn read_file_anywhere(path: &Path, role: Role, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_whole(crate::reach::open_anywhere(path)?, role, max_bytes)
}

/// As [`read_file`], or as [`read_file_anywhere`] if `anywhere`. Anything but a regular file or a directory
/// is [`io::ErrorKind::InvalidData`] at once, except `/dev/null`: a pipe or a device may be endless.
pub fn read_regular_file(path: &Path, anywhere: bool, role: Role, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = if anywhere { crate::reach::open_anywhere(path)? } else { crate::reach::open(path)? };
    let metadata = file.metadata()?;
    match () {
        () if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // Users of git name it to mean no file.
        () if is_null_device(&metadata) => Ok(Vec::new()),
        () if !metadata.is_file() => Err(io::ErrorKind::InvalidData.into()),
        () if metadata.len() > max_bytes => Err(io::ErrorKind::FileTooLarge.into()),
        () if metadata.len() > 0 => read_whole(file, role, max_bytes),
        () => read_whole(file, role, MAX_MADE_UP_BYTES).map_err(|error| match error.kind() {
            // A kernel-generated file that is endless or must be read in another way.
            io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => io::ErrorKind::InvalidData.into(),
            _ => error,
        }),
    }
}

/// Whether it is `/dev/null`, by any name.
fn is_null_device(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let null = || std::fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == metadata.rdev());
    metadata.file_type().is_char_device() && null()
}

/// As [`read_file`], but fails if `path` is a symbolic link.
pub fn read_file_without_following(path: &Path, role: Role, max_bytes: u64) -> io::Result<Vec<u8>> {
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits() as i32;
    read_whole(OpenOptions::new().read(true).custom_flags(flags).open(path)?, role, max_bytes)
}

/// Opens `path` for reading unless it is a symbolic link, and returns its metadata. Does not wait for the
/// writer of a pipe, so that the caller can check the kind of file.
pub fn open_without_following(path: &Path, role: Role) -> io::Result<(File, std::fs::Metadata)> {
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    count::add(role, Op::Look, 0);
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

fn read_whole(file: File, role: Role, max_bytes: u64) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    // Room for most files: one read gets everything, another the end.
    let mut bytes = Vec::with_capacity(READ_FILE_BYTES);
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    count::add(role, Op::Read, bytes.len());
    if bytes.len() as u64 > max_bytes {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Opens a file for reading. Does not wait for the writer of a pipe, which no repository needs.
pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    crate::reach::open(path)
}

/// Whether there was nothing to open: no such file, a name too long, or a loop of links.
pub fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename) || is_loop(error)
}

/// Whether a symbolic link leads to itself, or may not be followed.
pub fn is_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// The system's message for a failure, without its number, as git shows it.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// The target of a symbolic link; `None` if `path` is not one.
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

/// Where a chain of symbolic links leads.
#[derive(Debug)]
pub struct FollowedLinks {
    /// The last path; there need not be anything.
    pub path: PathBuf,
    /// Whether it is yet another link: the chain was too long.
    pub is_link: bool,
}

/// Follows at most `most` symbolic links from `path`.
pub fn follow_links(path: &Path, most: usize, role: Role) -> io::Result<FollowedLinks> {
    let mut path = path.to_owned();
    for _ in 0..most {
        match read_link(&path, role)? {
            Some(target) => path = path.parent().unwrap_or(&path).join(target),
            None => return Ok(FollowedLinks { path, is_link: false }),
        }
    }
    Ok(FollowedLinks { path, is_link: true })
}

/// Writes a file that is not part of a repository (a report); nothing is synced.
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::write(path, bytes)
}

/// How many bytes a file system has left for the files of this process.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The entries of a directory, sorted by name bytes. Entries that vanish during the listing are omitted.
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

/// The identity of the file at `path`, following links; `None` if there is none.
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

/// Whether there is a file at `path` that has no content.
pub fn is_empty_file(path: &Path, role: Role) -> io::Result<bool> {
    Ok(identity(path, role)?.is_some_and(|file| file.is_file && file.length == 0))
}

impl FileIdentity {
    /// Whether both are on one file system.
    pub fn is_on_file_system_of(&self, other: &FileIdentity) -> bool {
        self.device == other.device
    }

    /// Whether every later change is certain to change the identity: the last change was so long before
    /// `look`, the time just before this identity was read, that the clock of the file system has ticked
    /// since. Otherwise a file may change twice in one tick and look the same (git calls such index
    /// entries racy).
    pub fn is_settled(&self, look: SystemTime) -> bool {
        let since = look.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let tick = if self.changed_nanoseconds % 1_000_000_000 == 0 { TICK_OF_SECONDS } else { TICK };
        self.changed_nanoseconds + tick.as_nanos() as i128 <= since.as_nanos() as i128
    }

    /// When content, name or mode last changed, as far as the file system records it; programs cannot set it.
    pub fn changed(&self) -> SystemTime {
        let nanoseconds = u64::try_from(self.changed_nanoseconds).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds)
    }

    /// Whether both are the same directory or other inode, regardless of content.
    pub fn is_same_place(&self, other: &FileIdentity) -> bool {
        self.device == other.device && self.inode == other.inode && self.is_dir == other.is_dir
    }

    /// All fields that distinguish versions, for hashing.
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

/// Whether this process may execute a file; `None` if there is none.
pub fn is_executable(path: &Path, role: Role) -> io::Result<Option<bool>> {
    use rustix::fs::{Access, access};
    use rustix::io::Errno;
    count::add(role, Op::Look, 0);
    match access(path, Access::EXEC_OK) {
        Ok(()) => Ok(Some(true)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        // It may also be a directory without access on the path: the file's metadata decides.
        Err(Errno::ACCESS) => std::fs::metadata(path).map(|_| Some(false)),
        Err(error) => Err(error.into()),
    }
}

/// The id of the user who owns the file at `path`, without following a link.
pub fn owner(path: &Path) -> io::Result<u32> {
    count::add(Role::Config, Op::Look, 0);
    Ok(std::fs::symlink_metadata(path)?.uid())
}

/// The last twelve bits of the mode of the file at `path`, following links.
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

    /// Checks whether an identity counts as settled if it is read this long after the last change.
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
        // A file system that counts whole seconds.
        let changed = 1_700_000_000_000_000_000;
        check(changed, Duration::from_millis(2999), false);
        check(changed, Duration::from_secs(3), true);
        // A clock that was set back, or a file server's clock that is ahead.
        let file = tempfile::NamedTempFile::new().unwrap();
        let identity = FileIdentity::of(&file.as_file().metadata().unwrap());
        assert!(!identity.is_settled(SystemTime::now() - Duration::from_secs(60)));
        assert!(!identity.is_settled(SystemTime::UNIX_EPOCH - Duration::from_secs(60)));
    }
}
