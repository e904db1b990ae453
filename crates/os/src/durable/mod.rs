//! Writes files next to their readers: under a temporary or a lock's name, synced, then renamed.
//!
//! This module does not decide when to sync or in which order files appear; `packrace-store` does. A file
//! that was not named is removed when its [`NewFile`] is dropped. [`crate::simulated::on_disk`] makes each of
//! these calls fail.
//! fail.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, IoSlice, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::fs::OFlags;

use crate::Mapped;
use crate::count::{self, Op, Role};
use crate::interruption::UnnamedPath;
use crate::reach;
use crate::simulated::{DiskChange, DiskOp, before, done};
use crate::sink::{LACKS_GATHERED_WRITES, first_piece, gathered_or_plain};

mod closed;
mod log_file;
mod sync;
mod written;

pub use closed::{ClosedFile, rename_to_free_or_empty};
pub use log_file::LogFile;
pub use sync::{SyncFailed, SyncMethod, ToSync, sync_dir, sync_together};
pub use written::WrittenFile;

/// Every write except the last ends at a multiple of this.
pub const PIECE_BYTES: usize = 1 << 20;

/// How many temporary names are tried.
const MAX_TRIES: usize = 100;

const NAME_LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A file that is written under a temporary name. After an error it can only be dropped.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// Its current path; `None` once it has its name or was removed.
    path: Option<UnnamedPath>,
    role: Role,
    method: SyncMethod,
    /// Bytes not written yet; shorter than [`PIECE_BYTES`].
    buffer: Vec<u8>,
    written_bytes: u64,
    /// The sequence number of its creation in this process.
    number: u64,
}

/// The number of files created so far.
static MADE: AtomicU64 = AtomicU64::new(0);

impl NewFile {
    /// Creates the file `path`; fails with [`io::ErrorKind::AlreadyExists`] if it exists. `mode` is subject
    /// to the umask; if it forbids writing, that applies only to later opens.
    pub fn create(path: &Path, mode: u32, role: Role) -> io::Result<Self> {
        before(path, DiskOp::Create)?;
        count::add(role, Op::Create, 0);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let (unnamed, file) = UnnamedPath::create(path, |path| reach::open_to_write(path, flags, mode))?;
        done(|| DiskChange::Create(path.to_owned()));
        let (path, method) = (Some(unnamed), SyncMethod::default());
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Ok(NewFile { file, path, role, method, buffer: Vec::new(), written_bytes: 0, number })
    }

    /// Creates a file named `prefix` + six letters and digits in `dir`.
    pub fn create_temporary(dir: &Path, prefix: &str, mode: u32, role: Role) -> io::Result<Self> {
        let mut tries = 1;
        loop {
            match NewFile::create(&dir.join(format!("{prefix}{}", random_letters())), mode, role) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < MAX_TRIES => tries += 1,
                result => return result,
            }
        }
    }

    /// Sets how it is synced.
    pub fn set_sync_method(&mut self, method: SyncMethod) {
        self.method = method;
    }

    /// Its current path.
    pub fn path(&self) -> &Path {
        self.path.as_deref().expect("only what consumes the file takes its path")
    }

    /// Its length, including bytes not written yet.
    pub fn len(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes. Up to one piece stays in memory; the rest goes to the kernel without a copy, so that
    /// the next piece begins at a multiple of [`PIECE_BYTES`].
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.len() + bytes.len() as u64;
        let piece = PIECE_BYTES as u64;
        let whole_end = end / piece * piece;
        if whole_end <= self.written_bytes {
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        // Not negative, because the buffer never reaches a multiple.
        let (now, later) = bytes.split_at((whole_end - self.len()) as usize);
        self.write_out(now)?;
        self.buffer.extend_from_slice(later);
        Ok(())
    }

    /// Writes everything to the kernel.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_out(&[])
    }

    /// Overwrites bytes that were written before.
    pub fn overwrite(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        assert!(at + bytes.len() as u64 <= self.written_bytes, "beyond the end");
        before(self.path(), DiskOp::Write(bytes.len()))?;
        count::add(self.role, Op::Write, bytes.len());
        self.file.write_all_at(bytes, at)?;
        let path = self.path();
        done(|| DiskChange::Write { path: path.to_owned(), at: Some(at), bytes: bytes.to_vec() });
        Ok(())
    }

    /// Truncates the file; the next write goes to its end.
    pub fn truncate(&mut self, length: u64) -> io::Result<()> {
        use std::io::Seek as _;
        self.flush()?;
        assert!(length <= self.written_bytes, "beyond the end");
        before(self.path(), DiskOp::Truncate)?;
        count::add(self.role, Op::Write, 0);
        self.file.set_len(length)?;
        done(|| DiskChange::Truncate { path: self.path().to_owned(), length });
        self.file.seek(io::SeekFrom::Start(length))?;
        self.written_bytes = length;
        Ok(())
    }

    /// All bytes so far. The map must be dropped before the file is truncated.
    pub fn map(&mut self) -> io::Result<Mapped> {
        self.flush()?;
        Mapped::of_file(&self.file, None, self.role)
    }

    /// Changes its mode if necessary; `change` gets the permission bits.
    pub fn change_mode(&mut self, change: impl FnOnce(u32) -> u32) -> io::Result<()> {
        let mode = self.file.metadata()?.permissions().mode() & 0o7777;
        let changed = change(mode);
        if changed == mode {
            return Ok(());
        }
        before(self.path(), DiskOp::SetMode)?;
        count::add(self.role, Op::Attribute, 0);
        self.file.set_permissions(PermissionsExt::from_mode(changed))
    }

    /// Whether the file system keeps the executable bit; the mode is unchanged afterwards.
    pub fn keeps_executable_bit(&self) -> io::Result<bool> {
        let mode = self.file.metadata()?.permissions().mode() & 0o7777;
        before(self.path(), DiskOp::SetMode)?;
        count::add(self.role, Op::Attribute, 0);
        // A file system that refuses to change a mode does not keep it.
        let is_set = self.file.set_permissions(PermissionsExt::from_mode(mode ^ 0o100)).is_ok();
        let is_kept = is_set && self.file.metadata()?.permissions().mode() & 0o7777 == mode ^ 0o100;
        if is_set {
            self.file.set_permissions(PermissionsExt::from_mode(mode))?;
        }
        Ok(is_kept)
    }

    /// Sets its modification time; call it after all writes.
    pub fn set_modified(&mut self, when: SystemTime) -> io::Result<()> {
        self.flush()?;
        before(self.path(), DiskOp::Touch)?;
        count::add(self.role, Op::Attribute, 0);
        self.file.set_modified(when)
    }

    /// Makes all written data durable, as far as the sync method does, but not the name.
    pub fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        before(self.path(), DiskOp::Sync)?;
        sync::sync_file(&self.file, self.method, self.role)?;
        self.method.is_durable().then(|| done(|| DiskChange::Sync(self.path().to_owned())));
        Ok(())
    }

    /// Renames it to this name, replacing an existing file.
    pub fn replace(mut self, to: &Path) -> io::Result<()> {
        self.flush()?;
        before_naming(self.path(), to)?;
        count::add(self.role, Op::Rename, 0);
        self.forget();
        std::fs::rename(self.path(), to)?;
        done(|| DiskChange::Rename { from: self.path().to_owned(), to: to.to_owned() });
        self.path = None;
        Ok(())
    }

    /// Renames it to this name if unused; otherwise returns itself.
    pub fn publish(mut self, to: &Path) -> io::Result<Option<Self>> {
        self.flush()?;
        before_naming(self.path(), to)?;
        count::add(self.role, Op::Rename, 0);
        self.forget();
        match rename_to_new(self.path(), to) {
            Ok(()) => {
                done(|| DiskChange::Rename { from: self.path().to_owned(), to: to.to_owned() });
                self.path = None;
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Some(self)),
            Err(error) => Err(error),
        }
    }

    /// Ends writing and closes the file.
    pub fn close(mut self) -> io::Result<ClosedFile> {
        self.flush()?;
        Ok(ClosedFile { path: self.path.take(), role: self.role })
    }

    /// Keeps it under its current name.
    pub fn keep(mut self) -> io::Result<()> {
        self.flush()?;
        self.path = None;
        Ok(())
    }

    /// Removes its name; the file exists while it is open.
    pub(crate) fn into_unnamed(mut self) -> io::Result<File> {
        self.flush()?;
        let file = self.file.try_clone()?;
        self.discard()?;
        Ok(file)
    }

    /// Removes it; dropping it does the same, but cannot report a failure.
    pub fn discard(mut self) -> io::Result<()> {
        let path = self.path.take().expect("taken only by what consumes the file");
        remove_unnamed(path, self.role).map(drop)
    }

    /// What follows is its end under this path, in which a signal does not remove it.
    fn forget(&mut self) {
        self.path.as_mut().expect("taken only by what consumes the file").forget();
    }

    /// Writes the buffer and then `bytes`.
    fn write_out(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let mut buffered = self.buffer.as_slice();
        while !buffered.is_empty() || !bytes.is_empty() {
            let path = self.path.as_deref().expect("taken only by what consumes the file");
            before(path, DiskOp::Write(buffered.len() + bytes.len()))?;
            let pieces = [IoSlice::new(buffered), IoSlice::new(bytes)];
            let written = gathered_or_plain(
                &LACKS_GATHERED_WRITES,
                || rustix::io::writev(&self.file, &pieces),
                || rustix::io::write(&self.file, first_piece(&pieces)),
            );
            let written = match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            count::add(self.role, Op::Write, written);
            done(|| DiskChange::Write {
                path: path.to_owned(),
                at: Some(self.written_bytes),
                bytes: buffered.iter().chain(bytes).take(written).copied().collect(),
            });
            self.written_bytes += written as u64;
            let of_buffer = written.min(buffered.len());
            buffered = &buffered[of_buffer..];
            bytes = &bytes[written - of_buffer..];
        }
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            // No caller is left to receive an error; the name marks it as temporary.
            let _ = remove_unnamed(path, self.role);
        }
    }
}

/// Appends to a file with one write; returns false if it does not exist. With `mode`, which is subject to the
/// umask, a missing file is created instead. Changes its mode, if necessary and if it may: `change` gets the permission
/// bits.
pub fn append(
    path: &Path,
    bytes: &[u8],
    mode: Option<u32>,
    change: impl FnOnce(u32) -> u32,
    is_synced: bool,
    role: Role,
) -> io::Result<bool> {
    crate::faults::check_process()?;
    before(path, DiskOp::Create)?;
    count::add(role, Op::Create, 0);
    let flags = OFlags::WRONLY | OFlags::APPEND;
    let flags = if mode.is_some() { flags | OFlags::CREATE } else { flags };
    let mut file = match reach::open_to_write(path, flags, mode.unwrap_or(0)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && mode.is_none() => return Ok(false),
        result => result?,
    };
    done(|| DiskChange::Create(path.to_owned()));
    let mode = file.metadata()?.permissions().mode() & 0o7777;
    let changed = change(mode);
    if changed != mode {
        before(path, DiskOp::SetMode)?;
        count::add(role, Op::Attribute, 0);
        // The file may be another user's, who has to do it.
        let _ = file.set_permissions(PermissionsExt::from_mode(changed));
    }
    before(path, DiskOp::Write(bytes.len()))?;
    count::add(role, Op::Write, bytes.len());
    file.write_all(bytes)?;
    done(|| DiskChange::Write { path: path.to_owned(), at: None, bytes: bytes.to_vec() });
    if is_synced {
        before(path, DiskOp::Sync)?;
        count::add(role, Op::Sync, 0);
        file.sync_all()?;
        done(|| DiskChange::Sync(path.to_owned()));
    }
    Ok(true)
}

/// Called before a file or directory is named: after a disk fault, no file made by the process gets a name.
fn before_naming(from: &Path, to: &Path) -> io::Result<()> {
    crate::faults::check_process()?;
    before(from, DiskOp::Rename(to.to_owned()))
}

/// Removes a file that has no name yet.
fn remove_unnamed(mut path: UnnamedPath, role: Role) -> io::Result<bool> {
    path.forget();
    remove_file(&path, role)
}

/// Removes a file, and returns whether it existed.
pub fn remove_file(path: &Path, role: Role) -> io::Result<bool> {
    before(path, DiskOp::Remove)?;
    count::add(role, Op::Remove, 0);
    match std::fs::remove_file(path) {
        Ok(()) => {
            done(|| DiskChange::Remove(path.to_owned()));
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Renames a file, replacing an existing one.
pub fn rename_file(from: &Path, to: &Path, role: Role) -> io::Result<()> {
    before_naming(from, to)?;
    count::add(role, Op::Rename, 0);
    std::fs::rename(from, to)?;
    done(|| DiskChange::Rename { from: from.to_owned(), to: to.to_owned() });
    Ok(())
}

/// Creates a directory in an existing parent; returns whether it is new. `change` adjusts the mode
/// after the umask.
pub fn make_dir(path: &Path, change: impl FnOnce(u32) -> u32, role: Role) -> io::Result<bool> {
    before(path, DiskOp::MakeDir)?;
    count::add(role, Op::Create, 0);
    match std::fs::create_dir(path) {
        Ok(()) => done(|| DiskChange::MakeDir(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(error),
    }
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o7777;
    let changed = change(mode);
    if changed != mode {
        before(path, DiskOp::SetMode)?;
        std::fs::set_permissions(path, PermissionsExt::from_mode(changed))?;
    }
    Ok(true)
}

/// Changes the mode of a file or directory if necessary; `change` gets the last twelve bits.
pub fn change_mode(path: &Path, change: impl FnOnce(u32) -> u32, role: Role) -> io::Result<()> {
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o7777;
    let changed = change(mode);
    if changed == mode {
        return Ok(());
    }
    before(path, DiskOp::SetMode)?;
    count::add(role, Op::Attribute, 0);
    std::fs::set_permissions(path, PermissionsExt::from_mode(changed))
}

/// Creates a symbolic link at an unused path.
pub fn make_link(target: &Path, path: &Path, role: Role) -> io::Result<()> {
    before(path, DiskOp::Create)?;
    count::add(role, Op::Create, 0);
    std::os::unix::fs::symlink(target, path)?;
    done(|| DiskChange::Create(path.to_owned()));
    Ok(())
}

/// Gives a file a second, unused name.
pub fn link_file(from: &Path, to: &Path, role: Role) -> io::Result<()> {
    before(to, DiskOp::Create)?;
    count::add(role, Op::Create, 0);
    std::fs::hard_link(from, to)
}

/// Renames a directory, replacing an empty one.
pub fn move_dir(from: &Path, to: &Path, role: Role) -> io::Result<()> {
    before_naming(from, to)?;
    count::add(role, Op::Rename, 0);
    std::fs::rename(from, to)?;
    done(|| DiskChange::Rename { from: from.to_owned(), to: to.to_owned() });
    Ok(())
}

/// Removes a directory if it is empty.
pub fn remove_empty_dir(path: &Path, role: Role) -> io::Result<()> {
    before(path, DiskOp::Remove)?;
    count::add(role, Op::Remove, 0);
    match std::fs::remove_dir(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound) => {
            Ok(())
        }
        result => {
            result?;
            done(|| DiskChange::Remove(path.to_owned()));
            Ok(())
        }
    }
}

/// Renames a file unless the new name exists, and returns whether it did.
pub fn rename_to_free(from: &Path, to: &Path, role: Role) -> io::Result<bool> {
    before_naming(from, to)?;
    count::add(role, Op::Rename, 0);
    match rename_to_new(from, to) {
        Ok(()) => {
            done(|| DiskChange::Rename { from: from.to_owned(), to: to.to_owned() });
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Renames a directory unless the new name exists; returns whether it did. If the file system cannot do that
/// in one step, an empty directory created in between is replaced, but nothing else.
pub fn move_dir_to_free(from: &Path, to: &Path, role: Role) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    before_naming(from, to)?;
    count::add(role, Op::Rename, 0);
    let renamed = match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) if std::fs::symlink_metadata(to).is_ok() => Err(Errno::EXIST),
        // rename(2) replaces at most an empty directory.
        Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::rename(from, to),
        result => result,
    };
    match renamed {
        Ok(()) => {
            done(|| DiskChange::Rename { from: from.to_owned(), to: to.to_owned() });
            Ok(true)
        }
        Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes a directory with its contents; links in it are not followed.
pub fn remove_tree(path: &Path, role: Role) -> io::Result<()> {
    before(path, DiskOp::Remove)?;
    count::add(role, Op::Remove, 0);
    std::fs::remove_dir_all(path)
}

/// Creates a directory named `prefix` + six letters and digits in `dir`, accessible only to this
/// process's user.
pub fn make_temporary_dir(dir: &Path, prefix: &str, role: Role) -> io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    for _ in 0..MAX_TRIES {
        let path = dir.join(format!("{prefix}{}", random_letters()));
        before(&path, DiskOp::MakeDir)?;
        count::add(role, Op::Create, 0);
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {
                done(|| DiskChange::MakeDir(path.clone()));
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Sets the times of a file to now. Allowed to its owner and to all who may write it.
pub fn touch(path: &Path, role: Role) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
    before(path, DiskOp::Touch)?;
    count::add(role, Op::Attribute, 0);
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    Ok(utimensat(CWD, path, &times, AtFlags::empty())?)
}

/// Renames unless the new name exists: in one step if the file system can, otherwise with a link.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => link_to_new(from, to),
        result => Ok(result?),
    }
}

/// Renames in two steps. A process killed in between leaves both names, one of them temporary.
fn link_to_new(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

/// A number that other processes are unlikely to choose. Not secret.
pub fn random_number() -> u32 {
    RandomState::new().hash_one(1) as u32
}

/// Six characters: three random, three derived from those and [`temporary_key`]. Not secret: a file is
/// created only if the name is unused.
fn random_letters() -> String {
    let chance = letters(RandomState::new().hash_one(0));
    format!("{chance}{}", letters(mixed(temporary_key(), chance.as_bytes())))
}

/// The key in the names of all temporary files of this process. It identifies leftovers of a dead process.
pub fn temporary_key() -> u64 {
    static KEY: OnceLock<u64> = OnceLock::new();
    *KEY.get_or_init(|| RandomState::new().hash_one(2))
}

/// Whether the name of a temporary file ends in letters made with this key. One in 238,328 names of other
/// processes matches too.
pub fn is_temporary_of(key: u64, name: &str) -> bool {
    let Some(last) = name.len().checked_sub(6).and_then(|at| name.get(at..)) else { return false };
    let is_letters = last.bytes().all(|byte| NAME_LETTERS.contains(&byte));
    is_letters && letters(mixed(key, &last.as_bytes()[..3])) == last[3..]
}

/// Three letters or digits.
fn letters(mut number: u64) -> String {
    let letter = |_| {
        let letter = NAME_LETTERS[(number % NAME_LETTERS.len() as u64) as usize];
        number /= NAME_LETTERS.len() as u64;
        char::from(letter)
    };
    (0..3).map(letter).collect()
}

/// Equal in every version of packrace: leftovers may be from an older one. Uses `SplitMix64`.
fn mixed(key: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(key, |sum, byte| {
        let mut sum = sum.wrapping_add(u64::from(*byte)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        sum = (sum ^ (sum >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        sum = (sum ^ (sum >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        sum ^ (sum >> 31)
    })
}

#[cfg(test)]
mod tests;
