//! Minimizes waits for the disk: related syncs run concurrently, and threads that sync the same directory
//! share one sync.
//!
//! Concurrent syncs wait for the same flush of the disk and the same commit of its journal; a thread that
//! syncs one file after the other waits for one of each per file. If the file system can do it all in one
//! call at no greater cost, that is used ([`file_system`]).

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

#[cfg(target_os = "linux")]
mod file_system;

use super::NewFile;
use crate::count::{self, Op, Role};
use crate::simulated::{DiskChange, DiskOp, before, done};

/// Maximum concurrent syncs of one caller, each in a thread that does nothing else. On ext4, 32 files took 10
/// ms together and 102 ms one after the other.
const MAX_IN_FLIGHT: usize = 64;

/// How the content of files is synced (git-config, "core.fsyncMethod").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMethod {
    /// Through the cache of the disk: `fsync(2)`, on macOS `F_FULLFSYNC`, on Windows `FlushFileBuffers`, all
    /// by Rust's `sync_all`.
    #[default]
    Full,
    /// To the disk, but not necessarily through its cache: on Linux `sync_file_range(2)`, which does not even
    /// write the file's metadata; on macOS `fsync(2)`, which does not flush the cache of the disk. Elsewhere,
    /// and if the file system cannot, [`SyncMethod::Full`].
    Writeout,
}

impl SyncMethod {
    /// Whether synced data survives a power loss.
    pub fn is_durable(self) -> bool {
        self == SyncMethod::Full
    }
}

/// An item for [`sync_together`].
#[derive(Debug)]
pub enum ToSync<'a> {
    /// The content of a new file, but not its name.
    New(&'a mut NewFile),
    /// The content of an existing file, but not its name.
    File(&'a Path),
    /// The names in a directory.
    Dir(&'a Path),
}

/// A failed sync. Written data may be lost, even if a later sync seems to succeed.
#[derive(Debug)]
pub struct SyncFailed {
    /// The file or directory to be synced.
    pub path: PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

/// Makes all of these durable, in any order; new files as far as their method does. After an error, none of
/// them can be relied on.
pub fn sync_together(mut all: Vec<ToSync<'_>>, role: Role) -> Result<(), SyncFailed> {
    for item in &mut all {
        let prepared = match item {
            ToSync::New(file) => file.flush().and_then(|()| before(file.path(), DiskOp::Sync)),
            ToSync::File(path) => before(path, DiskOp::Sync),
            ToSync::Dir(path) => before(path, DiskOp::SyncDir),
        };
        prepared.map_err(|source| SyncFailed { path: item.path().to_owned(), source })?;
    }
    one_call_for(&all, role).unwrap_or_else(|| sync_in_flight(&all, role))?;
    for item in &all {
        match item {
            ToSync::Dir(path) => done(|| DiskChange::SyncDir((*path).to_owned())),
            ToSync::New(file) if !file.method.is_durable() => {}
            item => done(|| DiskChange::Sync(item.path().to_owned())),
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn one_call_for(all: &[ToSync<'_>], role: Role) -> Option<Result<(), SyncFailed>> {
    file_system::sync(all, role)
}

#[cfg(not(target_os = "linux"))]
fn one_call_for(_: &[ToSync<'_>], _: Role) -> Option<Result<(), SyncFailed>> {
    None
}

fn sync_in_flight(all: &[ToSync<'_>], role: Role) -> Result<(), SyncFailed> {
    let next = AtomicUsize::new(0);
    let first_failure = Mutex::new(None);
    let work = || {
        while let Some(item) = all.get(next.fetch_add(1, Relaxed)) {
            if let Err(source) = item.sync(role) {
                let mut first = lock(&first_failure);
                // A missing file is reported only if nothing worse happened: the caller may handle it.
                if first.as_ref().is_none_or(|first: &SyncFailed| crate::is_absent(&first.source)) {
                    *first = Some(SyncFailed { path: item.path().to_owned(), source });
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..all.len().min(MAX_IN_FLIGHT) {
            // If no other thread can be created, this one does the work.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    first_failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

impl ToSync<'_> {
    fn path(&self) -> &Path {
        match self {
            ToSync::New(file) => file.path(),
            ToSync::File(path) | ToSync::Dir(path) => path,
        }
    }

    fn sync(&self, role: Role) -> io::Result<()> {
        match self {
            ToSync::New(file) => sync_file(&file.file, file.method, role),
            ToSync::File(path) => {
                sync_file(&crate::file::open_without_waiting(path)?, SyncMethod::Full, role)
            }
            ToSync::Dir(path) => SHARED.sync(path, &|dir| sync_names(dir, role)),
        }
    }
}

pub(super) fn sync_file(file: &File, method: SyncMethod, role: Role) -> io::Result<()> {
    count::add(role, Op::Sync, 0);
    match method {
        SyncMethod::Full => file.sync_all(),
        SyncMethod::Writeout => match write_out(file) {
            Err(error) if is_unsupported(&error) => file.sync_all(),
            result => result,
        },
    }
}

/// Starts writing the file's dirty pages, and waits until the disk has taken them.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn write_out(file: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    /// `SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER`.
    const FLAGS: u32 = 1 | 2 | 4;
    unsafe extern "C" {
        fn sync_file_range(file: i32, offset: i64, bytes: i64, flags: u32) -> i32;
    }
    // SAFETY: the call takes no pointers, and the descriptor is open as long as `file` is borrowed. A length of 0
    // means all.
    match unsafe { sync_file_range(file.as_raw_fd(), 0, 0, FLAGS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn write_out(file: &File) -> io::Result<()> {
    // Not `sync_all`, which does more on macOS.
    Ok(rustix::fs::fsync(file)?)
}

#[cfg(not(unix))]
fn write_out(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether the system, or a file system, does not support the call.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
}

/// Makes added and removed names in a directory durable. Does nothing on a file system without such a call.
pub fn sync_dir(dir: &Path, role: Role) -> io::Result<()> {
    before(dir, DiskOp::SyncDir)?;
    SHARED.sync(dir, &|dir| sync_names(dir, role))?;
    done(|| DiskChange::SyncDir(dir.to_owned()));
    Ok(())
}

fn sync_names(dir: &Path, role: Role) -> io::Result<()> {
    count::add(role, Op::Sync, 0);
    match File::open(dir)?.sync_all() {
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
        _ => Ok(()),
    }
}

static SHARED: LazyLock<SharedSyncs> = LazyLock::new(SharedSyncs::default);

/// Group commit: among threads that request a sync of a directory while one is running, one thread syncs for
/// all of them once that sync has ended. A sync that began before a request may miss the requester's change.
///
/// Directories are compared by their paths as given; different paths of one directory share nothing.
#[derive(Debug, Default)]
struct SharedSyncs {
    dirs: Mutex<HashMap<PathBuf, DirSyncs>>,
    /// Signals the end of a sync.
    ended: Condvar,
}

/// The syncs of a directory.
#[derive(Debug, Default)]
struct DirSyncs {
    is_running: bool,
    /// The sync that covers all current requests.
    next: Option<Arc<SharedSync>>,
}

/// One sync and its result.
#[derive(Debug, Default)]
struct SharedSync {
    result: Mutex<Option<Result<(), Failure>>>,
}

/// Why a sync failed, for each participant.
#[derive(Debug, Clone, Copy)]
struct Failure {
    number: Option<i32>,
    kind: io::ErrorKind,
}

impl SharedSyncs {
    fn sync(&self, dir: &Path, sync: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        let mut dirs = lock(&self.dirs);
        let turn = match dirs.get_mut(dir) {
            Some(turns) => turns.next.get_or_insert_default().clone(),
            None => {
                let turn = Arc::<SharedSync>::default();
                let turns = DirSyncs { is_running: false, next: Some(turn.clone()) };
                dirs.insert(dir.to_owned(), turns);
                turn
            }
        };
        loop {
            if let Some(result) = *lock(&turn.result) {
                return result.map_err(Failure::into);
            }
            // The directory stays in the table until there is a result.
            match dirs.get_mut(dir) {
                Some(turns) if turns.is_running => {
                    dirs = self.ended.wait(dirs).unwrap_or_else(PoisonError::into_inner);
                }
                turns => {
                    // No thread runs it, so this one does, for all requests so far.
                    turns.into_iter().for_each(|turns| (turns.is_running, turns.next) = (true, None));
                    drop(dirs);
                    self.lead(dir, &turn, sync);
                    dirs = lock(&self.dirs);
                }
            }
        }
    }

    fn lead(&self, dir: &Path, turn: &SharedSync, sync: &dyn Fn(&Path) -> io::Result<()>) {
        let result = sync(dir);
        let failure = |error: io::Error| Failure { number: error.raw_os_error(), kind: error.kind() };
        let mut dirs = lock(&self.dirs);
        *lock(&turn.result) = Some(result.map_err(failure));
        if let Some(turns) = dirs.get_mut(dir) {
            turns.is_running = false;
            if turns.next.is_none() {
                dirs.remove(dir);
            }
        }
        self.ended.notify_all();
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        failure.number.map_or_else(|| failure.kind.into(), io::Error::from_raw_os_error)
    }
}

/// No code that holds a lock here can panic half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Waits until this many threads wait for a sync that has not begun.
    fn await_waiting(shared: &SharedSyncs, dir: &Path, count: usize) {
        // The table holds one more reference.
        let is_there = |turns: &DirSyncs| turns.next.as_ref().map_or(0, Arc::strong_count) == count + 1;
        while !lock(&shared.dirs).get(dir).is_some_and(is_there) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn who_comes_during_a_sync_shares_the_next_one() {
        for fails in [false, true] {
            let (shared, dir) = (SharedSyncs::default(), Path::new("d"));
            let (begun, go_on) = (Barrier::new(2), Barrier::new(2));
            let (syncs, is_first) = (AtomicUsize::new(0), AtomicBool::new(true));
            let sync = |_: &Path| {
                syncs.fetch_add(1, Relaxed);
                if is_first.swap(false, Relaxed) {
                    begun.wait();
                    go_on.wait();
                    return Ok(());
                }
                if fails { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
            };
            std::thread::scope(|scope| {
                let first = scope.spawn(|| shared.sync(dir, &sync));
                begun.wait();
                let others: Vec<_> = (0..9).map(|_| scope.spawn(|| shared.sync(dir, &sync))).collect();
                await_waiting(&shared, dir, 9);
                // Syncs of another directory do not wait.
                shared.sync(Path::new("e"), &|_| Ok(())).unwrap();
                go_on.wait();
                first.join().unwrap().unwrap();
                for other in others {
                    let result = other.join().unwrap();
                    assert_eq!(result.err().and_then(|error| error.raw_os_error()), fails.then_some(5));
                }
            });
            assert_eq!(syncs.into_inner(), 2);
            assert!(lock(&shared.dirs).is_empty());
            // A failure is not remembered: the next change of the directory gets a sync of its own.
            shared.sync(dir, &|_| Ok(())).unwrap();
        }
    }

    #[test]
    fn many_threads_and_directories() {
        let shared = SharedSyncs::default();
        // Changes made before a sync was requested are durable when it has ended.
        let (changed, durable) = ([const { AtomicUsize::new(0) }; 3], [const { AtomicUsize::new(0) }; 3]);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (shared, changed, durable) = (&shared, &changed, &durable);
                scope.spawn(move || {
                    for round in 0..2000 {
                        let number = (thread + round) % 3;
                        let mine = changed[number].fetch_add(1, Relaxed) + 1;
                        let sync = |_: &Path| {
                            durable[number].fetch_max(changed[number].load(Relaxed), Relaxed);
                            Ok(())
                        };
                        shared.sync(Path::new(["a", "b", "c"][number]), &sync).unwrap();
                        assert!(durable[number].load(Relaxed) >= mine);
                    }
                });
            }
        });
        assert!(lock(&shared.dirs).is_empty());
    }

    #[test]
    fn what_is_only_written_out_is_not_durable() {
        for (method, expect) in [(SyncMethod::Full, 2), (SyncMethod::Writeout, 0)] {
            let dir = tempfile::tempdir().unwrap();
            let create = |name| {
                let mut file = NewFile::create(&dir.path().join(name), 0o600, Role::Hook)?;
                file.set_sync_method(method);
                file.write(b"x").map(|()| file)
            };
            let work = || {
                let (mut one, mut other) = (create("a")?, create("b")?);
                one.sync()?;
                sync_together(vec![ToSync::New(&mut other)], Role::Hook).map_err(|failed| failed.source)
            };
            let before = count::so_far(Role::Hook, Op::Sync).0;
            let (result, recording) = crate::simulated::recorded(dir.path(), work).unwrap();
            result.unwrap();
            let is_sync = |change: &&DiskChange| matches!(change, DiskChange::Sync(_));
            assert_eq!(recording.changes().iter().filter(is_sync).count(), expect, "{method:?}");
            assert!(count::so_far(Role::Hook, Op::Sync).0 >= before + 2);
        }
    }

    /// A pipe can be neither written out nor synced: the result is that of the sync.
    #[test]
    #[cfg(target_os = "linux")]
    fn where_a_file_cannot_be_written_out_it_is_synced() {
        let dir = tempfile::tempdir().unwrap();
        assert!(write_out(&tempfile::tempfile().unwrap()).is_ok());
        let directory = File::open(dir.path()).unwrap();
        sync_file(&directory, SyncMethod::Writeout, Role::Hook).unwrap();
        let (reader, _writer) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(reader));
        let failed = write_out(&pipe).unwrap_err();
        assert!(!is_unsupported(&failed), "{failed}");
        assert!(sync_file(&pipe, SyncMethod::Writeout, Role::Hook).is_err());
    }

    #[test]
    fn all_are_synced_or_the_first_failure_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let before = count::so_far(Role::Hook, Op::Sync).0;
        let create = |number| NewFile::create(&dir.path().join(format!("{number}")), 0o600, Role::Hook);
        let mut files: Vec<NewFile> = (0..40).map(|number| create(number).unwrap()).collect();
        for file in &mut files {
            file.write(b"x").unwrap();
        }
        let first = files[0].path().to_owned();
        let mut all: Vec<_> = files.iter_mut().map(ToSync::New).collect();
        all.extend([ToSync::Dir(dir.path()), ToSync::File(&first)]);
        all.iter_mut().for_each(|item| {
            if let ToSync::New(file) = item {
                file.flush().unwrap()
            }
        });
        sync_in_flight(&all, Role::Hook).unwrap();
        assert!(count::so_far(Role::Hook, Op::Sync).0 - before >= 42);
        sync_together(all, Role::Hook).unwrap();
        assert_eq!(std::fs::read(&first).unwrap(), b"x", "what waited was written");
        let nowhere = dir.path().join("nowhere");
        let failed = sync_together(vec![ToSync::Dir(dir.path()), ToSync::File(&nowhere)], Role::Hook);
        assert_eq!(failed.unwrap_err().path, nowhere);
        sync_together(Vec::new(), Role::Hook).unwrap();
    }
}
