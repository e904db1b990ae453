//! Facts about this process.

/// The effective user id.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// How many threads can run at once; at least 1.
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
