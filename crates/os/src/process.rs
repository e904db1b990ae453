//! Facts about this process.

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

/// How many threads can run at once; at least 1.
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
