//! How often waiting threads check on their clients, and on hooks.

use std::time::Duration;

/// The longest time that a thread waits without checking whether its client is still connected. A check is
/// one system call: four a second cost nothing even with thousands of clients, and it does not matter that
/// work for a disconnected client ends a quarter of a second late.
pub(crate) const CLIENT_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// How often a hook that has closed its outputs is checked for its end.
pub(crate) const HOOK_END_INTERVAL: Duration = Duration::from_millis(2);
