//! The programs that this process has started, for a report on it (`commands::trace2`).

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Later programs are not logged: a server may start any number.
const MAX_CHILDREN: usize = 4096;

/// Empty until [`begin`].
static LOG: OnceLock<Mutex<Vec<LoggedChild>>> = OnceLock::new();

/// A program that was started.
#[derive(Debug, Clone)]
pub struct LoggedChild {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The name of the hook, if it is one.
    pub hook: Option<String>,
    /// The number of its process.
    pub pid: u32,
    /// When it was started.
    pub started: Instant,
    /// When its end was noticed, and its exit code: 128 plus the number of a signal.
    pub ended: Option<(Instant, i32)>,
}

/// Identifies an entry of the log.
#[derive(Debug)]
pub(crate) struct LogEntry(usize);

/// Logs all programs that are started from now on.
pub fn begin() {
    LOG.get_or_init(Mutex::default);
}

/// All logged programs, in the order in which they were started.
pub fn all() -> Vec<LoggedChild> {
    LOG.get().map(|log| log.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
}

pub(crate) fn has_started(
    argv: &[OsString],
    hook: Option<&str>,
    pid: u32,
    started: Instant,
) -> Option<LogEntry> {
    let mut log = LOG.get()?.lock().unwrap_or_else(PoisonError::into_inner);
    if log.len() == MAX_CHILDREN {
        return None;
    }
    log.push(LoggedChild { argv: argv.to_vec(), hook: hook.map(str::to_owned), pid, started, ended: None });
    Some(LogEntry(log.len() - 1))
}

pub(crate) fn has_ended(LogEntry(at): LogEntry, status: ExitStatus) {
    let Some(log) = LOG.get() else { return };
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1);
    log.lock().unwrap_or_else(PoisonError::into_inner)[at].ended = Some((Instant::now(), code));
}
