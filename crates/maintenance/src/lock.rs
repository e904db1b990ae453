//! Who maintains a repository: one process at a time, and not beside git's.
//!
//! | file | who takes it | what is in it |
//! |---|---|---|
//! | `objects/maintenance.lock` | `git maintenance run`, and every job of packrace | nothing; of packrace, who it is |
//! | `gc.pid` | `git gc`, and every job of packrace | process and host |
//!
//! A lock of packrace says which process on which host took it, and by which letters its temporaries are known. When that process
//! is no more, the lock is taken over, and what it left is removed. A lock that says nothing is git's: it counts
//! until it is a day old, which no `git maintenance run` works.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use packrace_os::count::Role;
use packrace_os::{HeldDir, durable, process};
use packrace_store::Repository;
use packrace_store::publish::{FileKind, LockFile, WritePolicy, publish_file, with_extension};

use crate::error::Error;

/// A file beside `HEAD`, and no setting.
const PID_FILE: &str = concat!("gc", ".pid");

/// A lock that names nobody is left behind when it is older.
const MAX_LOCK_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// No job takes longer: the number of its process belongs to another one by now.
const MAX_JOB_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// git takes a `gc.pid` that is older for one that was left behind.
const MAX_PID_AGE: Duration = Duration::from_secs(12 * 60 * 60);

/// The first word of what packrace writes into its lock.
const WORD: &str = "packrace";

/// Longest lock that is read.
const MAX_BYTES: u64 = 4096;

/// The right to maintain a repository, given back when it is dropped.
#[derive(Debug)]
pub struct MaintenanceLock {
    _lock: LockFile,
    pid_file: PathBuf,
    /// Nobody moves the repository meanwhile.
    _held: Option<HeldDir>,
    predecessor: Option<Predecessor>,
}

/// A process that held the lock and is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predecessor {
    /// By which its temporaries are known.
    pub(crate) temporary_key: u64,
    /// When it took the lock.
    pub(crate) since: SystemTime,
}

/// What becomes of somebody who wants the lock.
#[derive(Debug)]
pub enum Locking {
    /// They have it.
    Held(Box<MaintenanceLock>),
    /// Somebody else has it, says this.
    Busy(String),
}

impl MaintenanceLock {
    /// Takes the lock of a repository, if nobody has it who is alive.
    pub fn take(repository: &Repository, now: SystemTime) -> Result<Locking, Error> {
        let policy = WritePolicy::of(repository.config())?;
        let common = repository.common_dir();
        let held = HeldDir::open(common).ok();
        if let Some(held) = &held
            && !held.hold().map_err(|error| Error::file(common, error))?
        {
            return Ok(Locking::Busy("the repository was moved".to_owned()));
        }
        let pid_file = common.join(PID_FILE);
        if let Some(who) = running_gc(&pid_file, now)? {
            return Ok(Locking::Busy(who));
        }
        let path = repository.object_dir().join("maintenance");
        let mut predecessor = None;
        let taken = match LockFile::take(&path, FileKind::ServerInfo, policy) {
            Err(error) if error.is_locked() => match take_over(&path, policy, now)? {
                Ok((lock, found)) => {
                    predecessor = found;
                    Ok(lock)
                }
                Err(who) => return Ok(Locking::Busy(who)),
            },
            taken => taken,
        };
        let mut lock = taken?;
        let host = process::host_name();
        lock.write(
            format!("{WORD} {} {host} {:016x}\n", process::id(), durable::temporary_key()).as_bytes(),
        )?;
        lock.flush()?;
        let pid = format!("{} {host}", process::id());
        // Under no `gc.pid.lock`, which a killed process would leave: `maintenance.lock` is held already.
        publish_file(&pid_file, pid.as_bytes(), FileKind::ServerInfo, policy)?;
        Ok(Locking::Held(Box::new(MaintenanceLock { _lock: lock, pid_file, _held: held, predecessor })))
    }

    /// The process that left the lock behind, if one did.
    pub fn predecessor(&self) -> Option<Predecessor> {
        self.predecessor
    }
}

impl Drop for MaintenanceLock {
    /// Before the lock goes: whoever takes that writes its own.
    fn drop(&mut self) {
        if let Err(error) = durable::remove_file(&self.pid_file, Role::Config) {
            tracing::warn!("{}: {error}", self.pid_file.display());
        }
    }
}

/// Who runs `git gc`, if somebody does.
fn running_gc(path: &Path, now: SystemTime) -> Result<Option<String>, Error> {
    let Some((text, modified)) = read(path)? else { return Ok(None) };
    let mut words = text.split_ascii_whitespace();
    let (Some(id), host) = (words.next().and_then(|word| word.parse::<u32>().ok()), words.next()) else {
        return Ok(None);
    };
    let is_old = now.duration_since(modified).is_ok_and(|age| age > MAX_PID_AGE);
    let is_here = host == Some(process::host_name().as_str());
    // Where it names this process, `maintenance.lock` says whether it is at work here.
    let is_gone = is_old || (is_here && (id == process::id() || !process::is_running(id)));
    Ok((!is_gone).then(|| format!("gc is already running on machine '{}' pid {id}", host.unwrap_or("?"))))
}

type TakenOver = Result<(LockFile, Option<Predecessor>), String>;

/// Takes a lock over that was left behind; who has it, if that is not so. Of several who want to, one does: it holds the directory
/// of objects alone meanwhile.
fn take_over(path: &Path, policy: WritePolicy, now: SystemTime) -> Result<TakenOver, Error> {
    let file = with_extension(path, "lock");
    let exists = || format!("lock file '{}' exists", file.display());
    let dir = path.parent().unwrap_or(path);
    let alone = HeldDir::open(dir).map_err(|error| Error::file(dir, error))?;
    if !alone.hold_alone().map_err(|error| Error::file(dir, error))? {
        return Ok(Err(exists()));
    }
    let Some((text, modified)) = read(&file)? else { return Ok(Err(exists())) };
    let is_old = now.duration_since(modified).is_ok_and(|age| age > MAX_LOCK_AGE);
    let mut words = text.split_ascii_whitespace();
    let holder = (words.next() == Some(WORD)).then(|| (words.next(), words.next(), words.next()));
    let predecessor = match holder {
        Some((Some(id), Some(host), key)) => {
            let id = id.parse::<u32>().unwrap_or(0);
            let is_here = host == process::host_name();
            if !is_here && !is_old {
                return Ok(Err(format!("{}: process {id} on {host}", exists())));
            }
            let key = key.and_then(|key| u64::from_str_radix(key, 16).ok());
            // In a container, the next process often has the number of the last one.
            let is_other_process = id == process::id() && key != Some(durable::temporary_key());
            let is_ancient = now.duration_since(modified).is_ok_and(|age| age > MAX_JOB_AGE);
            let is_gone = is_here && (is_other_process || !process::is_running(id));
            if is_here && !is_gone && !is_ancient {
                return Ok(Err(format!("{}: process {id}", exists())));
            }
            // Whoever may be alive still writes to its temporaries: those go when they are old.
            let key = key.filter(|_| is_gone);
            key.map(|temporary_key| Predecessor { temporary_key, since: modified })
        }
        _ if is_old => None,
        _ => return Ok(Err(exists())),
    };
    tracing::info!("{}: left behind; removed", file.display());
    durable::remove_file(&file, Role::Config).map_err(|error| Error::file(&file, error))?;
    match LockFile::take(path, FileKind::ServerInfo, policy) {
        Ok(lock) => Ok(Ok((lock, predecessor))),
        Err(error) if error.is_locked() => Ok(Err(exists())),
        Err(error) => Err(error.into()),
    }
}

/// A small file, and when it was written; `None` if it is not there.
fn read(path: &Path) -> Result<Option<(String, SystemTime)>, Error> {
    let looked = packrace_os::identity(path, Role::Config).map_err(|error| Error::file(path, error))?;
    let Some(modified) = looked.and_then(|file| file.modified) else { return Ok(None) };
    match packrace_os::read_file(path, Role::Config, MAX_BYTES) {
        Ok(bytes) => Ok(Some((String::from_utf8_lossy(&bytes).into_owned(), modified))),
        Err(error) if packrace_os::is_absent(&error) => Ok(None),
        Err(error) => Err(Error::file(path, error)),
    }
}
