//! Facts about this process.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

/// The effective user id.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The real user id.
pub fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The name of this machine in its network.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Sets a variable for the processes that this one starts. Does nothing if this process has several threads, because
/// others may be reading the environment.
#[allow(unsafe_code)]
pub fn set_variable_for_children(name: &str, value: &str) {
    let is_alone = std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    if is_alone {
        // SAFETY: no other thread exists that could read or change the environment meanwhile.
        unsafe { std::env::set_var(name, value) };
    }
}

/// A duplicate of a descriptor that this process was started with; those that it opened itself do not count, which no other
/// program is to get.
#[allow(unsafe_code)]
pub fn inherited_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: if there is no such descriptor, this is an error.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags == -1 {
        return Err(io::Error::last_os_error());
    }
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: as above.
    let duplicate = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if duplicate == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is new, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(duplicate) })
}

/// What a process uses.
#[derive(Debug, Clone, Copy)]
pub struct ProcessUsage {
    /// User and system time of all its threads, also of those that have ended, but not of other processes.
    pub processor_time: std::time::Duration,
    /// The part of its memory that is not swapped out, mapped files included; in bytes.
    pub resident_bytes: u64,
    /// All its memory, mapped or reserved; in bytes.
    pub virtual_bytes: u64,
    /// Its descriptors.
    pub open_files: u64,
    /// How many descriptors it may have (`RLIMIT_NOFILE`); `None`: any number.
    pub max_open_files: Option<u64>,
}

/// What this process uses now. Fails if `/proc` cannot be read.
pub fn usage() -> std::io::Result<ProcessUsage> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    // "statm" of proc_pid_statm(5): pages of all memory, pages of resident memory, and others.
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let mut pages = pages.split(' ').filter_map(|count| count.parse::<u64>().ok());
    let mut bytes = || Some(pages.next()? * rustix::param::page_size() as u64);
    let (Some(virtual_bytes), Some(resident_bytes)) = (bytes(), bytes()) else {
        return Err(std::io::ErrorKind::InvalidData.into());
    };
    // The folder itself is open while it is counted.
    let open_files = std::fs::read_dir("/proc/self/fd")?.count().saturating_sub(1) as u64;
    Ok(ProcessUsage {
        processor_time: std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32),
        resident_bytes,
        virtual_bytes,
        open_files,
        max_open_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
    })
}

/// How many bytes of address space it may have (`RLIMIT_AS`, `ulimit -v`); `None`: any number.
pub fn address_space_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

/// The number of threads that can run at once, as of the first call; at least 1. The query takes some ten
/// system calls.
pub fn available_threads() -> usize {
    static COUNT: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// How much nicer a background thread is than its process (`nice` (1)).
const BACKGROUND_NICE: i32 = 10;

/// Lowers this thread below the other threads of the process, permanently. A hint: if refused,
/// nothing changes.
pub fn lower_thread_priority() {
    // On Linux, 0 is the calling thread alone (setpriority(2), "C library/kernel differences"); elsewhere it is the
    // process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, (nice_of_process() + BACKGROUND_NICE).min(LAST_NICE));
}

/// The niceness of the first thread, which has the number of the process.
#[cfg(target_os = "linux")]
fn nice_of_process() -> i32 {
    rustix::process::getpriority_process(Some(rustix::process::getpid())).unwrap_or(0)
}

/// The niceness of a thread that no other work waits for: the maximum.
const LAST_NICE: i32 = 19;

/// Lowers this thread, and threads that it starts, below all others of the machine for processor and disk,
/// permanently: the highest `nice`, and the lowest best-effort disk priority. Not the idle classes, in which
/// a thread may hold a lock of the file system for ever. A hint.
#[allow(unsafe_code)]
pub fn lower_thread_priority_fully() {
    #[cfg(target_os = "linux")]
    {
        /// `IOPRIO_WHO_PROCESS`; id 0 is then the calling thread (ioprio_set(2)).
        const THREAD: libc::c_int = 1;
        /// `IOPRIO_CLASS_BE` with the lowest of its eight levels.
        const LOWEST: libc::c_int = (2 << 13) | 7;
        let _ = rustix::process::setpriority_process(None, LAST_NICE);
        // SAFETY: the call takes three numbers and touches no memory.
        let _ = unsafe { libc::syscall(libc::SYS_ioprio_set, THREAD, 0 as libc::c_int, LOWEST) };
    }
}

/// The id of this process.
pub fn id() -> u32 {
    std::process::id()
}

/// Whether a process with this id runs on this machine, as far as visible: containers may hide processes.
pub fn is_running(id: u32) -> bool {
    let Some(pid) = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw) else { return false };
    // If permission is denied, the process exists.
    !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
}

/// Whether this thread has a lower priority than the process's first one: by `lower_thread_priority`, or inherited from the
/// thread that started it. The whole process may have been started at any priority.
pub fn is_thread_priority_lowered() -> bool {
    #[cfg(target_os = "linux")]
    {
        rustix::process::getpriority_process(None).is_ok_and(|nice| nice > nice_of_process())
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// Lets this thread run only while no other thread of the machine wants its processor, permanently
/// (`SCHED_IDLE` of sched(7)): benchmarks use it to simulate another machine. A hint.
#[allow(unsafe_code)]
pub fn run_when_idle() {
    #[cfg(target_os = "linux")]
    // SAFETY: 0 is the calling thread; the parameter is a plain value that is only read during the call.
    let _ = unsafe {
        let parameter: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter)
    };
}

/// Raises the descriptor limit of this process and its children to the maximum, and returns it.
pub fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // If refused, the limit stays.
    let is_raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let limit = if is_raised { maximum } else { current };
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Makes the heap grow in steps of some megabytes instead of 128 KiB, for short work that makes many small
/// values: each step is a system call. Large values come from the same heap. A hint; only effective with
/// GNU's C library.
pub fn grow_heap_in_large_steps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    malloc::set(&[
        (malloc::TOP_PAD, 16 << 20),
        (malloc::MMAP_THRESHOLD, 32 << 20),
        (malloc::TRIM_THRESHOLD, std::ffi::c_int::MAX),
    ]);
}

/// Returns the memory of values of a MiB or more to the system as soon as they are dropped, for long-running
/// processes with many threads: each of their heaps would keep up to 32 MiB. A hint; only effective with
/// GNU's C library.
pub fn return_large_values() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    malloc::set(&[(malloc::MMAP_THRESHOLD, 1 << 20), (malloc::TRIM_THRESHOLD, 1 << 20)]);
}

/// Returns unused memory of the allocator to the system: whole free pages between values in use, of the heaps
/// of all threads. Takes some 0.1 ms per MiB and blocks allocation meanwhile, so it is for idle moments. Does
/// nothing unless the C library is GNU's.
pub fn return_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    malloc::trim();
}

/// From <malloc.h>.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod malloc {
    use std::ffi::c_int;

    pub(super) const TRIM_THRESHOLD: c_int = -1;
    pub(super) const TOP_PAD: c_int = -2;
    pub(super) const MMAP_THRESHOLD: c_int = -3;

    // SAFETY: declared as in <malloc.h>; they take and return plain numbers, and lock what they work on.
    #[allow(unsafe_code)]
    unsafe extern "C" {
        safe fn mallopt(parameter: c_int, value: c_int) -> c_int;
        safe fn malloc_trim(pad: usize) -> c_int;
    }

    pub(super) fn set(parameters: &[(c_int, c_int)]) {
        for (parameter, value) in parameters {
            // It returns whether it succeeded; failure of a hint is ignored.
            let _ = mallopt(*parameter, *value);
        }
    }

    pub(super) fn trim() {
        // It returns whether anything was released.
        let _ = malloc_trim(0);
    }
}
