//! The kernel's requests, each passed on and counted.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use packrace_os::simulated::DiskChange;

use super::nodes::Nodes;

/// How long the kernel may cache answers: nothing changes behind the mount.
const BELIEVED: Duration = Duration::from_secs(1);

/// A file's block (stat(2)).
const BLOCK_BYTES: u32 = 4096;

/// Answers the kernel's requests.
pub struct Passthrough {
    nodes: Arc<Nodes>,
    open: Mutex<HashMap<u64, Open>>,
    next_handle: AtomicU64,
}

/// An open file or directory.
#[derive(Clone)]
enum Open {
    File(Arc<File>),
    /// Its entries when it was opened.
    Directory(Arc<Vec<Listed>>),
}

struct Listed {
    inode: u64,
    kind: FileType,
    name: OsString,
}

impl Passthrough {
    /// Starts with nothing open.
    pub fn new(nodes: Arc<Nodes>) -> Self {
        Passthrough { nodes, open: Mutex::default(), next_handle: AtomicU64::new(1) }
    }

    fn entry(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let (name, path) = self.nodes.child(parent.0, Path::new(name))?;
        let metadata = std::fs::symlink_metadata(path)?;
        attributes(self.nodes.named(name, &metadata), &metadata)
    }

    /// The attributes of a new file or directory.
    fn made(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let attributes = self.entry(parent, name)?;
        self.nodes.count(attributes.ino.0, |traffic| traffic.creates += 1);
        Ok(attributes)
    }

    fn opened(&self, what: Open) -> FileHandle {
        let handle = self.next_handle.fetch_add(1, Relaxed);
        self.lock().insert(handle, what);
        FileHandle(handle)
    }

    fn file(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        match self.lock().get(&handle.0) {
            Some(Open::File(file)) => Ok(Arc::clone(file)),
            _ => Err(io::Error::from_raw_os_error(Errno::EBADF.code())),
        }
    }

    /// The metadata of the open file, or else of the node's path.
    fn metadata(&self, node: INodeNo, handle: Option<FileHandle>) -> io::Result<Metadata> {
        match handle.map(|handle| self.file(handle)) {
            Some(Ok(file)) => file.metadata(),
            _ => std::fs::symlink_metadata(self.nodes.path(node.0)?),
        }
    }

    fn open_file(&self, node: INodeNo, flags: OpenFlags) -> io::Result<FileHandle> {
        let mut options = OpenOptions::new();
        let access = flags.acc_mode();
        options.read(access != OpenAccMode::O_WRONLY).write(access != OpenAccMode::O_RDONLY);
        let file = options.open(self.nodes.path(node.0)?)?;
        Ok(self.opened(Open::File(Arc::new(file))))
    }

    fn create_file(&self, parent: INodeNo, name: &OsStr, mode: u32) -> io::Result<(FileAttr, FileHandle)> {
        let (_, path) = self.nodes.child(parent.0, Path::new(name))?;
        // The kernel has checked that the name is free, unless another process was faster.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(mode);
        let file = self.nodes.changing(|| options.open(&path), |_| Some(DiskChange::Create(path.clone())))?;
        Ok((self.made(parent, name)?, self.opened(Open::File(Arc::new(file)))))
    }

    fn list(&self, node: INodeNo) -> io::Result<FileHandle> {
        let mut listed = Vec::new();
        for entry in std::fs::read_dir(self.nodes.path(node.0)?)? {
            let entry = entry?;
            let kind = FileType::from_std(entry.file_type()?).unwrap_or(FileType::RegularFile);
            listed.push(Listed { inode: entry.metadata()?.ino(), kind, name: entry.file_name() });
        }
        Ok(self.opened(Open::Directory(Arc::new(listed))))
    }

    fn change(&self, node: INodeNo, handle: Option<FileHandle>, change: &Attributes) -> io::Result<FileAttr> {
        if let Some(mode) = change.mode {
            std::fs::set_permissions(self.nodes.path(node.0)?, Permissions::from_mode(mode))?;
        }
        if change.owner.is_some() || change.group.is_some() {
            std::os::unix::fs::lchown(self.nodes.path(node.0)?, change.owner, change.group)?;
        }
        if change.size.is_some() || change.accessed.is_some() || change.modified.is_some() {
            let file = match handle.map(|handle| self.file(handle)) {
                Some(Ok(file)) => file,
                _ => {
                    let is_write = change.size.is_some();
                    let mut options = OpenOptions::new();
                    Arc::new(options.read(!is_write).write(is_write).open(self.nodes.path(node.0)?)?)
                }
            };
            if let Some(length) = change.size {
                let path = self.nodes.path(node.0).ok();
                let note = |(): &()| path.map(|path| DiskChange::Truncate { path, length });
                self.nodes.changing(|| file.set_len(length), note)?;
            }
            let mut times = FileTimes::new();
            times = change.accessed.map_or(times, |time| times.set_accessed(moment(time)));
            times = change.modified.map_or(times, |time| times.set_modified(moment(time)));
            if change.accessed.is_some() || change.modified.is_some() {
                file.set_times(times)?;
            }
        }
        attributes(node.0, &self.metadata(node, handle)?)
    }

    fn remove(
        &self,
        parent: INodeNo,
        name: &OsStr,
        remove: impl Fn(PathBuf) -> io::Result<()>,
    ) -> io::Result<()> {
        let (name, path) = self.nodes.child(parent.0, Path::new(name))?;
        let change = DiskChange::Remove(path.clone());
        self.nodes.changing(|| remove(path), |()| Some(change))?;
        self.nodes.removed(&name);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The attributes to change.
struct Attributes {
    mode: Option<u32>,
    owner: Option<u32>,
    group: Option<u32>,
    size: Option<u64>,
    accessed: Option<TimeOrNow>,
    modified: Option<TimeOrNow>,
}

fn moment(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

fn attributes(node: u64, metadata: &Metadata) -> io::Result<FileAttr> {
    let changed = Duration::new(metadata.ctime().try_into().unwrap_or(0), metadata.ctime_nsec() as u32);
    Ok(FileAttr {
        ino: INodeNo(node),
        size: metadata.len(),
        blocks: metadata.blocks(),
        atime: metadata.accessed()?,
        mtime: metadata.modified()?,
        ctime: SystemTime::UNIX_EPOCH + changed,
        crtime: SystemTime::UNIX_EPOCH,
        kind: FileType::from_std(metadata.file_type()).unwrap_or(FileType::RegularFile),
        perm: (metadata.mode() & 0o7777) as u16,
        nlink: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    })
}

fn answer_entry(reply: ReplyEntry, result: io::Result<FileAttr>) {
    match result {
        Ok(attributes) => reply.entry(&BELIEVED, &attributes, Generation(0)),
        Err(e) => reply.error(e.into()),
    }
}

fn answer_attributes(reply: ReplyAttr, result: io::Result<FileAttr>) {
    match result {
        Ok(attributes) => reply.attr(&BELIEVED, &attributes),
        Err(e) => reply.error(e.into()),
    }
}

fn answer_open(reply: ReplyOpen, result: io::Result<FileHandle>) {
    match result {
        Ok(handle) => reply.opened(handle, FopenFlags::empty()),
        Err(e) => reply.error(e.into()),
    }
}

fn answer(reply: ReplyEmpty, result: io::Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e.into()),
    }
}

impl Filesystem for Passthrough {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(reply, self.entry(parent, name));
    }

    fn getattr(&self, _: &Request, node: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        answer_attributes(reply, self.metadata(node, handle).and_then(|found| attributes(node.0, &found)));
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        owner: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Attributes { mode, owner, group, size, accessed, modified };
        answer_attributes(reply, self.change(node, handle, &change));
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        match self.nodes.path(node.0).and_then(std::fs::read_link) {
            Ok(target) => reply.data(target.as_os_str().as_encoded_bytes()),
            Err(e) => reply.error(e.into()),
        }
    }

    fn symlink(&self, _: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = self.nodes.refuse_if_recorded();
        let made = made.and_then(|()| self.nodes.child(parent.0, Path::new(name)));
        let made = made.and_then(|(_, path)| std::os::unix::fs::symlink(target, path));
        answer_entry(reply, made.and_then(|()| self.made(parent, name)));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let made = self.nodes.child(parent.0, Path::new(name)).and_then(|(_, path)| {
            let make = || std::fs::DirBuilder::new().mode(mode & !umask).create(&path);
            self.nodes.changing(make, |()| Some(DiskChange::MakeDir(path.clone())))
        });
        answer_entry(reply, made.and_then(|()| self.made(parent, name)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove(parent, name, std::fs::remove_file));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove(parent, name, std::fs::remove_dir));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let renamed = self.nodes.child(parent.0, Path::new(name)).and_then(|(from, old_path)| {
            let (to, new_path) = self.nodes.child(new_parent.0, Path::new(new_name))?;
            if old_path.is_dir() {
                self.nodes.refuse_if_recorded()?;
            }
            let rename = || {
                if flags.contains(RenameFlags::RENAME_NOREPLACE) && new_path.symlink_metadata().is_ok() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                std::fs::rename(&old_path, &new_path)
            };
            let note = |(): &()| Some(DiskChange::Rename { from: old_path.clone(), to: new_path.clone() });
            self.nodes.changing(rename, note)?;
            self.nodes.renamed(&from, &to);
            Ok(())
        });
        answer(reply, renamed);
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked =
            self.nodes.refuse_if_recorded().and_then(|()| self.nodes.path(node.0)).and_then(|from| {
                let (_, to) = self.nodes.child(parent.0, Path::new(name))?;
                std::fs::hard_link(from, to)?;
                self.entry(parent, name)
            });
        answer_entry(reply, linked);
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        answer_open(reply, self.open_file(node, flags));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.create_file(parent, name, mode & !umask) {
            Ok((attributes, handle)) => {
                reply.created(&BELIEVED, &attributes, Generation(0), handle, FopenFlags::empty());
            }
            Err(e) => reply.error(e.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut buffer = vec![0; size as usize];
        let readable = self.nodes.check_readable(node.0, offset..offset + u64::from(size));
        let read = readable.and_then(|()| self.file(handle)).and_then(|file| {
            let mut filled = 0;
            while filled < buffer.len() {
                match file.read_at(&mut buffer[filled..], offset + filled as u64)? {
                    0 => break,
                    length => filled += length,
                }
            }
            Ok(filled)
        });
        match read {
            Ok(length) => {
                self.nodes.count(node.0, |traffic| {
                    traffic.reads += 1;
                    traffic.read_bytes += length as u64;
                });
                reply.data(&buffer[..length]);
            }
            Err(e) => reply.error(e.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.file(handle).and_then(|file| {
            let path = self.nodes.path(node.0).ok();
            let note =
                |(): &()| path.map(|path| DiskChange::Write { path, at: Some(offset), bytes: data.to_vec() });
            self.nodes.changing(|| file.write_all_at(data, offset), note)
        });
        match written {
            Ok(()) => {
                self.nodes.count(node.0, |traffic| {
                    traffic.writes += 1;
                    traffic.written_bytes += data.len() as u64;
                });
                reply.written(data.len() as u32);
            }
            Err(e) => reply.error(e.into()),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.lock().remove(&handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, node: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.nodes.count(node.0, |traffic| traffic.syncs += 1);
        let synced = self.file(handle).and_then(|file| {
            let sync = || if data_only { file.sync_data() } else { file.sync_all() };
            self.nodes.changing(sync, |()| self.nodes.path(node.0).ok().map(DiskChange::Sync))
        });
        answer(reply, synced);
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        answer_open(reply, self.list(node));
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Some(Open::Directory(listed)) = self.lock().get(&handle.0).cloned() else {
            return reply.error(Errno::EBADF);
        };
        for (at, entry) in listed.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(entry.inode), at as u64 + 1, entry.kind, &entry.name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.lock().remove(&handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.nodes.count(node.0, |traffic| traffic.syncs += 1);
        let synced = self.nodes.path(node.0).and_then(|path| {
            let sync = || File::open(&path).and_then(|dir| dir.sync_all());
            self.nodes.changing(sync, |()| Some(DiskChange::SyncDir(path.clone())))
        });
        answer(reply, synced);
    }
}
