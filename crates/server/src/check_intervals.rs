//! How often waiting threads check on their clients, and on hooks.

use std::time::Duration;

/// The longest time that a thread waits without checking whether its client is still connected. A check is one system call: four
/// a second cost nothing even with thousands of clients, and nobody notices that work for a client that left ends a quarter
/// of a second late.
pub(crate) const CLIENT_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// How often it is checked whether a hook that has closed its outputs has ended.
pub(crate) const HOOK_END_INTERVAL: Duration = Duration::from_millis(2);
