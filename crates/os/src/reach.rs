//! Restricts this process to files in certain folders, after following links.
//!
//! Anyone who may write to a repository can put a symbolic link anywhere in it, and change it at any time. So
//! a server does not check names: it checks opened files. [`confine`] is called once at the start; from then
//! on, every file opened for reading through this crate, and every file appended to or created, is in one of
//! the folders, or the call fails. Files that may be elsewhere (the configuration of system and user) are
//! opened by functions that say so.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, PoisonError, RwLock};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A folder: its path without links, and its open descriptor.
struct Folder {
    path: PathBuf,
    opened: OwnedFd,
}

/// Unset until [`confine`] is called. Folders are only ever added.
static FOLDERS: OnceLock<RwLock<Vec<Folder>>> = OnceLock::new();

/// The reason for not opening a file.
#[derive(Debug)]
struct LeadsOut;

impl std::fmt::Display for LeadsOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("leads out of the served folder")
    }
}

impl std::error::Error for LeadsOut {}

/// From now on, files are opened only below these folders and those of earlier calls. Fails if a folder
/// does not exist, or if the system cannot tell the path of an open file (no `/proc`), because checks would
/// be impossible.
pub fn confine<'a>(folders: impl IntoIterator<Item = &'a Path>) -> io::Result<()> {
    let mut opened = Vec::new();
    for folder in folders {
        let path = std::fs::canonicalize(folder)?;
        let fd = rustix::fs::open(&path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        if location(&fd).is_ok_and(|shown| shown == path) {
            opened.push(Folder { path, opened: fd });
        } else {
            return Err(io::Error::other("/proc/self/fd does not show where files are"));
        }
    }
    let all = FOLDERS.get_or_init(RwLock::default);
    all.write().unwrap_or_else(PoisonError::into_inner).extend(opened);
    Ok(())
}

/// Whether files below `real`, a path without links, may be opened.
pub fn is_allowed(real: &Path) -> bool {
    let Some(folders) = FOLDERS.get() else { return true };
    let folders = folders.read().unwrap_or_else(PoisonError::into_inner);
    folders.iter().any(|folder| real.starts_with(&folder.path))
}

/// Opens `path` for reading. Does not wait for the writer of a pipe.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::empty())
}

/// As above, but fails if `path` is a symbolic link.
pub(crate) fn open_unless_link(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::NOFOLLOW)
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK;
    if let Some(opened) = open_beneath(path, flags, Mode::empty()) {
        return opened;
    }
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    check(&file)?;
    Ok(file)
}

/// Opens `path` for writing, with these `flags`. A path whose name is below no folder, such as a temporary
/// file, was not chosen by anyone who may write to a repository.
pub(crate) fn open_to_write(path: &Path, flags: OFlags, mode: u32) -> io::Result<File> {
    let mode = Mode::from_raw_mode(mode);
    if let Some(opened) = open_beneath(path, flags, mode) {
        return opened;
    }
    if is_below_by_name(path) {
        // Before anything is created: then a link in place of the file itself is not followed either.
        let parent = path.parent().map(std::fs::canonicalize).transpose()?;
        if !parent.is_some_and(|parent| is_allowed(&parent)) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, LeadsOut));
        }
        let file = File::from(rustix::fs::open(path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)?);
        check(&file)?;
        return Ok(file);
    }
    Ok(rustix::fs::open(path, flags | OFlags::CLOEXEC, mode)?.into())
}

/// Opens a file below a folder, if its name shows that and none of its links is absolute; `None` if the open
/// file must be checked instead.
fn open_beneath(path: &Path, flags: OFlags, mode: Mode) -> Option<io::Result<File>> {
    let folders = FOLDERS.get()?.read().unwrap_or_else(PoisonError::into_inner);
    let (folder, rest) =
        folders.iter().find_map(|folder| Some((folder, path.strip_prefix(&folder.path).ok()?)))?;
    if rest.as_os_str().is_empty() {
        return None;
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(folder.opened.as_fd(), rest, flags | OFlags::CLOEXEC, mode, resolve) {
        Ok(opened) => Some(Ok(opened.into())),
        Err(error @ (Errno::NOENT | Errno::NOTDIR | Errno::EXIST | Errno::ACCESS | Errno::ISDIR)) => {
            Some(Err(error.into()))
        }
        // An absolute link may lead back into a folder; an old kernel, or a filter of system calls, may not
        // support this call.
        Err(_) => None,
    }
}

fn is_below_by_name(path: &Path) -> bool {
    FOLDERS.get().is_some() && is_allowed(path)
}

/// Opens `path` wherever it leads, without waiting for the other end of a pipe.
pub fn open_anywhere(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Fails if an open file is in none of the folders.
pub(crate) fn check(file: &File) -> io::Result<()> {
    if FOLDERS.get().is_none() || location(file).is_ok_and(|path| is_allowed(&path)) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, LeadsOut))
}

/// Whether a call failed because the file is in none of the folders.
pub fn is_refusal(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<LeadsOut>())
}

/// The path of an open file, without links; for a removed file, its last path.
fn location(file: impl std::os::fd::AsFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::count::Role;
    use crate::durable::NewFile;
    use crate::{Mapped, durable, read_file, read_file_anywhere};

    /// One test, because folders apply to the whole process: in other tests of this crate, everything is below the
    /// system's temporary folder, which is allowed here except for what this test creates.
    #[test]
    fn links_are_followed_as_far_as_the_folders_go() {
        // Runs in a process of its own, so that other tests of this crate may open what they like.
        if std::env::var_os("PACKRACE_TEST_CONFINED").is_none() {
            let status = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "reach::tests::links_are_followed_as_far_as_the_folders_go"])
                .env("PACKRACE_TEST_CONFINED", "1")
                .output()
                .unwrap();
            assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let dir = std::fs::canonicalize(dir.path()).unwrap();
        for folder in ["root/sub", "pool", "private"] {
            std::fs::create_dir_all(dir.join(folder)).unwrap();
        }
        for file in ["root/a", "root/sub/b", "pool/c", "private/d"] {
            std::fs::write(dir.join(file), "x").unwrap();
        }
        let links = [
            ("a", "to-a"),
            ("../a", "sub/up"),
            ("../../private/d", "sub/out"),
            ("../private", "folder-out"),
            ("sub", "folder-in"),
            ("/proc/self/environ", "magic"),
            ("/dev/zero", "zero"),
        ];
        for (to, name) in links {
            symlink(to, dir.join("root").join(name)).unwrap();
        }
        for (to, name) in [("root/sub/b", "absolute-in"), ("private/d", "absolute-out"), ("pool/c", "pool")] {
            symlink(dir.join(to), dir.join("root").join(name)).unwrap();
        }
        let read = |name: &str| {
            let path = dir.join(name);
            let read = read_file(&path, Role::Config, 1 << 20).map(|bytes| bytes == b"x");
            let mapped = Mapped::open(&path, Role::Config).map(|bytes| bytes[..] == *b"x");
            assert_eq!(read.is_ok(), mapped.is_ok(), "{name}");
            read.ok()
        };
        assert_eq!(read("root/sub/out"), Some(true), "nothing was said");
        confine([dir.join("root").as_path(), &dir.join("pool")]).unwrap();
        let may = ["a", "to-a", "sub/b", "sub/up", "folder-in/b", "absolute-in", "pool", "folder-in/../a"];
        for name in may {
            assert_eq!(read(&format!("root/{name}")), Some(true), "{name}");
        }
        assert_eq!(read("pool/c"), Some(true));
        assert_eq!(read("root/../pool/c"), Some(true));
        for name in ["sub/out", "folder-out/d", "absolute-out", "magic", "zero", "../private/d", "none"] {
            assert_eq!(read(&format!("root/{name}")), None, "{name}");
        }
        assert_eq!(read("private/d"), None);
        let refused = read_file(&dir.join("root/sub/out"), Role::Config, 9).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(read_file_anywhere(&dir.join("private/d"), Role::Config, 9).is_ok());
        // Files outside are neither created nor appended to, and existing ones stay unchanged.
        let append =
            |name: &str| durable::append(&dir.join(name), b"y", Some(0o644), |mode| mode, false, Role::Refs);
        assert!(append("root/sub/out").is_err() && append("root/folder-out/new").is_err());
        assert_eq!(std::fs::read(dir.join("private/d")).unwrap(), b"x");
        let create = |name: &str| NewFile::create(&dir.join(name), 0o644, Role::Refs).is_ok();
        assert!(!create("root/folder-out/new"));
        assert!(!dir.join("private/new").exists());
        assert!(create("root/folder-in/new") && create("private/by-name"));
        assert!(append("root/sub/up").is_ok());
        assert!(is_allowed(&dir.join("pool/x")) && !is_allowed(&dir.join("poolx")));
    }
}
