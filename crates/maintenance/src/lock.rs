//! Maintenance locks: one process per repository at a time, and not at the same time as git.
//!
//! | file | taken by | content |
//! |---|---|---|
//! | `objects/maintenance.lock` | `git maintenance run`, every job of packrace | packrace's identity, or nothing |
//! | `gc.pid` | `git gc`, every job of packrace | process and host |
//!
//! A lock of packrace names the process and host that took it, and the key of its temporary files. If that
//! process is dead, the lock is taken over and its leftovers are removed. A lock without content is git's: it
//! counts until it is a day old, longer than any `git maintenance run` takes.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use packrace_os::count::Role;
use packrace_os::{HeldDir, durable, process};
use packrace_store::Repository;
use packrace_store::publish::{FileKind, LockFile, WritePolicy, publish_file, with_extension};

use crate::error::Error;

/// A file beside `HEAD`, not a setting.
const PID_FILE: &str = concat!("gc", ".pid");

/// An older lock without an owner is a leftover.
const MAX_LOCK_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// No job takes longer: by then, the process id belongs to another process.
const MAX_JOB_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// git treats an older `gc.pid` as a leftover.
const MAX_PID_AGE: Duration = Duration::from_secs(12 * 60 * 60);

/// The first word that packrace writes into its lock.
const WORD: &str = "packrace";

/// Longest lock that is read.
const MAX_BYTES: u64 = 4096;

/// The right to maintain a repository, released on drop.
#[derive(Debug)]
pub struct MaintenanceLock {
    _lock: LockFile,
    pid_file: PathBuf,
    /// Prevents moves of the repository.
    _held: Option<HeldDir>,
    predecessor: Option<Predecessor>,
}

/// A dead process that held the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predecessor {
    /// Identifies its temporary files.
    pub(crate) temporary_key: u64,
    /// The time when it took the lock.
    pub(crate) since: SystemTime,
}

/// The result of trying to take the lock.
#[derive(Debug)]
pub enum Locking {
    /// It was taken.
    Held(Box<MaintenanceLock>),
    /// Another process holds it, according to this message.
    Busy(String),
    /// A `gc` that is not ours runs, according to this message.
    BusyWithGc(String),
}

impl MaintenanceLock {
    /// Takes the lock of a repository, unless a live process holds it.
    pub fn take(repository: &Repository, now: SystemTime) -> Result<Locking, Error> {
        let policy = WritePolicy::of(repository.config())?;
        let common = repository.common_dir();
        let held = HeldDir::open(common).ok();
        if let Some(held) = &held
            && !held.hold().map_err(|error| Error::file(common, error))?
        {
            return Ok(Locking::Busy("repository was moved".to_owned()));
        }
        let pid_file = common.join(PID_FILE);
        if let Some(who) = running_gc(&pid_file, now)? {
            return Ok(Locking::BusyWithGc(who));
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
        // Without `gc.pid.lock`, which a killed process would leave: `maintenance.lock` is already held.
        publish_file(&pid_file, pid.as_bytes(), FileKind::ServerInfo, policy)?;
        Ok(Locking::Held(Box::new(MaintenanceLock { _lock: lock, pid_file, _held: held, predecessor })))
    }

    /// The process that left the lock behind, if any.
    pub fn predecessor(&self) -> Option<Predecessor> {
        self.predecessor
    }
}

impl Drop for MaintenanceLock {
    /// Before the lock is released: the next holder writes its own file.
    fn drop(&mut self) {
        if let Err(error) = durable::remove_file(&self.pid_file, Role::Config) {
            tracing::warn!("cannot remove {}: {error}", self.pid_file.display());
        }
    }
}

/// The process that runs `git gc`, if any.
fn running_gc(path: &Path, now: SystemTime) -> Result<Option<String>, Error> {
    let Some((text, modified)) = read(path)? else { return Ok(None) };
    let mut words = text.split_ascii_whitespace();
    let (Some(id), host) = (words.next().and_then(|word| word.parse::<u32>().ok()), words.next()) else {
        return Ok(None);
    };
    let is_old = now.duration_since(modified).is_ok_and(|age| age > MAX_PID_AGE);
    let is_here = host == Some(process::host_name().as_str());
    // If it names this process, `maintenance.lock` decides whether it is at work here.
    let is_gone = is_old || (is_here && (id == process::id() || !process::is_running(id)));
    Ok((!is_gone).then(|| format!("gc is already running on machine '{}' pid {id}", host.unwrap_or("?"))))
}

type TakenOver = Result<(LockFile, Option<Predecessor>), String>;

/// Takes over a leftover lock, or returns its holder. Only one of several contenders succeeds: it holds the
/// object directory alone meanwhile.
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
            // In a container, the next process often has the same process id.
            let is_other_process = id == process::id() && key != Some(durable::temporary_key());
            let is_ancient = now.duration_since(modified).is_ok_and(|age| age > MAX_JOB_AGE);
            let is_gone = is_here && (is_other_process || !process::is_running(id));
            if is_here && !is_gone && !is_ancient {
                return Ok(Err(format!("{}: process {id}", exists())));
            }
            // A process that may be alive still writes to its temporary files: they are removed
            // only when old.
            let key = key.filter(|_| is_gone);
            key.map(|temporary_key| Predecessor { temporary_key, since: modified })
        }
        _ if is_old => None,
        _ => return Ok(Err(exists())),
    };
    tracing::info!("{}: removed a leftover lock file", file.display());
    durable::remove_file(&file, Role::Config).map_err(|error| Error::file(&file, error))?;
    match LockFile::take(path, FileKind::ServerInfo, policy) {
        Ok(lock) => Ok(Ok((lock, predecessor))),
        Err(error) if error.is_locked() => Ok(Err(exists())),
        Err(error) => Err(error.into()),
    }
}

/// A small file and its modification time; `None` if missing.
fn read(path: &Path) -> Result<Option<(String, SystemTime)>, Error> {
    let looked = packrace_os::identity(path, Role::Config).map_err(|error| Error::file(path, error))?;
    let Some(modified) = looked.and_then(|file| file.modified) else { return Ok(None) };
    match packrace_os::read_file(path, Role::Config, MAX_BYTES) {
        Ok(bytes) => Ok(Some((String::from_utf8_lossy(&bytes).into_owned(), modified))),
        Err(error) if packrace_os::is_absent(&error) => Ok(None),
        Err(error) => Err(Error::file(path, error)),
    }
}
