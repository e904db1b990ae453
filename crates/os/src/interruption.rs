//! Removes files that have no name yet when a signal ends the process, as git does: a lock that stayed would keep others out
//! until somebody removes it.
//!
//! ```text
//! Ctrl-C ──▶ SIGINT ──▶ handler: unlink all registered paths ──▶ SIGINT again, which ends the process
//! ```
//!
//! The handler takes no lock, allocates nothing and calls only unlink(2), raise(3) and getpid(2). It is installed with
//! the first file, and only for signals of which nobody else has said what they do.

use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering::SeqCst};
use std::sync::{Mutex, Once, PoisonError};

/// What ends a process that does not expect it.
const SIGNALS: [c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Whether files are registered.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Whether the handler runs.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// The process that installed the handler, not those that it forks.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// The newest slot. Slots are never freed, so that the handler can always read them.
static NEWEST: AtomicPtr<UnnamedSlot> = AtomicPtr::new(ptr::null_mut());

/// Slots without a path. Not read by the handler.
static FREE: Mutex<Vec<&'static UnnamedSlot>> = Mutex::new(Vec::new());

/// A registered path.
#[derive(Debug)]
struct UnnamedSlot {
    /// Null, or of a [`CString`].
    path: AtomicPtr<c_char>,
    older: Option<&'static UnnamedSlot>,
}

/// From now on, SIGHUP, SIGINT, SIGQUIT and SIGTERM remove what has no name yet ([`crate::durable::NewFile`]) before they end the
/// process. For processes that run one command; a server ends in its own way.
pub fn remove_unnamed_files() {
    IS_ON.store(true, SeqCst);
}

/// Ends the process as a signal does that nobody handles.
#[allow(unsafe_code)]
pub fn end_by(signal: i32) -> ! {
    // SAFETY: no memory is involved.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    std::process::exit(128 + signal)
}

/// The path of a file that has no name yet. Forgotten when dropped.
#[derive(Debug)]
pub(crate) struct UnnamedPath {
    path: Box<Path>,
    slot: Option<&'static UnnamedSlot>,
}

impl UnnamedPath {
    /// Makes the file with `create`, and remembers it.
    pub(crate) fn create<T>(
        path: &Path,
        create: impl FnOnce(&Path) -> std::io::Result<T>,
    ) -> std::io::Result<(Self, T)> {
        while IS_ENDING.load(SeqCst) {
            std::thread::park();
        }
        let created = create(path)?;
        Ok((UnnamedPath { path: path.into(), slot: register(path) }, created))
    }

    /// Forgets it, before the path is no longer that of this file: another process may use it next.
    pub(crate) fn forget(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        let path = slot.path.swap(ptr::null_mut(), SeqCst);
        // A handler that runs may have read the pointer before.
        if !IS_ENDING.load(SeqCst) {
            free(path);
        }
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }
}

impl Drop for UnnamedPath {
    fn drop(&mut self) {
        self.forget();
    }
}

impl std::ops::Deref for UnnamedPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

#[allow(unsafe_code)]
fn free(path: *mut c_char) {
    // SAFETY: each pointer in a slot comes from `into_raw`, and the caller has taken it out.
    drop(unsafe { CString::from_raw(path) });
}

fn register(path: &Path) -> Option<&'static UnnamedSlot> {
    static INSTALLED: Once = Once::new();
    if !IS_ON.load(SeqCst) {
        return None;
    }
    INSTALLED.call_once(install);
    // A path that could be opened has no NUL.
    let path = CString::new(path.as_os_str().as_bytes()).ok()?.into_raw();
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(slot) = free.pop() {
        slot.path.store(path, SeqCst);
        return Some(slot);
    }
    let slot = Box::leak(Box::new(UnnamedSlot { path: AtomicPtr::new(path), older: newest() }));
    // Under the lock of `FREE`, so that no other is lost.
    NEWEST.store(slot, SeqCst);
    Some(slot)
}

#[allow(unsafe_code)]
fn newest() -> Option<&'static UnnamedSlot> {
    // SAFETY: null, or of a slot that is never freed.
    unsafe { NEWEST.load(SeqCst).as_ref() }
}

#[allow(unsafe_code)]
fn install() {
    OWNER.store(std::process::id().cast_signed(), SeqCst);
    for signal in SIGNALS {
        // SAFETY: all zeros are a valid `sigaction`, and each pointer is to one or null. `on_signal` has the signature
        // of a handler, and does only what is allowed in one.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, ptr::null(), &raw mut before) != 0
                || before.sa_sigaction != libc::SIG_DFL
            {
                continue;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(c_int) = on_signal;
            action.sa_sigaction = handler as usize;
            // A second one ends it at once.
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
}

#[allow(unsafe_code)]
extern "C" fn on_signal(signal: c_int) {
    // SAFETY: these calls are allowed in a handler, and a path in a slot is freed only if no handler runs.
    unsafe {
        // A process that is just being forked shares the memory, but owns nothing.
        if libc::getpid() == OWNER.load(SeqCst) {
            IS_ENDING.store(true, SeqCst);
            let mut slot = newest();
            while let Some(registered) = slot {
                let path = registered.path.load(SeqCst);
                if !path.is_null() {
                    libc::unlink(path);
                }
                slot = registered.older;
            }
        }
        // By now, it has its default action.
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::count::Role;
    use crate::durable::NewFile;

    /// Runs again as a process that a signal ends.
    #[test]
    fn a_signal_removes_what_has_no_name() {
        const PLACE: &str = "PACKRACE_INTERRUPTED_IN";
        let create = |path: &Path| NewFile::create(path, 0o666, Role::Config).unwrap();
        if let Some(dir) = std::env::var_os(PLACE).map(std::path::PathBuf::from) {
            remove_unnamed_files();
            for _ in 0..3 {
                create(&dir.join("named.lock")).replace(&dir.join("named")).unwrap();
            }
            create(&dir.join("kept")).keep().unwrap();
            let (_one, _two) =
                (create(&dir.join("one.lock")), create(&dir.join("two.lock")).close().unwrap());
            // Of another process since.
            create(&dir.join("named.lock")).replace(&dir.join("other")).unwrap();
            std::fs::write(dir.join("named.lock"), "").unwrap();
            let id = rustix::process::Pid::from_raw(std::process::id().cast_signed()).unwrap();
            rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
        let dir = tempfile::tempdir().unwrap();
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["a_signal_removes_what_has_no_name", "--test-threads=1"]).env(PLACE, dir.path());
        let ended = again.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert_eq!(ended.signal(), Some(libc::SIGTERM));
        let mut left: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["kept", "named", "named.lock", "other"]);
    }
}
