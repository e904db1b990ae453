//! What a server caches of repositories between calls: docs/decisions/0025-repository-cache.md.
//!
//! [`RepositoryCache`] keeps them open; [`RefAdvertisementCache`] keeps answers about their refs.

mod answers;
mod repositories;

use std::time::Duration;

pub use answers::RefAdvertisementCache;
pub(crate) use answers::{Chunk, StoredAnswer};
pub use repositories::RepositoryCache;

/// What is kept of repositories between calls. Plain data; changes apply from the next start on.
#[derive(Debug, Clone)]
pub struct RepositoryCacheSettings {
    /// Whether anything is kept. Default: true. Otherwise every call opens its repository and reads its refs.
    pub enabled: bool,
    /// Repositories that are kept open. Default: 1024. Beyond it, the least recently used are closed.
    pub max_repositories: usize,
    /// Packs of all of them together, as far as they were listed; one that is read takes up to three of the
    /// maps that a process may have (65,530 on most systems). Default: 8192. Beyond it, as above, except the
    /// last that was opened.
    pub max_packs: usize,
    /// How long an unrequested repository stays open. Default: 60 s. Deleted packs take up disk until then at
    /// most: four times in it, and at least every 10 s, everything is checked, and what has changed is
    /// dropped.
    pub idle_time: Duration,
    /// Memory for answers about refs. Default: 64 MiB. Beyond it, the least recently used are dropped; one
    /// that takes more than a quarter is not kept. 0 keeps none.
    pub max_answer_bytes: usize,
}

impl Default for RepositoryCacheSettings {
    fn default() -> Self {
        RepositoryCacheSettings {
            enabled: true,
            max_repositories: 1024,
            max_packs: 8192,
            idle_time: Duration::from_secs(60),
            max_answer_bytes: 64 << 20,
        }
    }
}

impl RepositoryCacheSettings {
    /// How often [`RepositoryCache::sweep`] and [`RefAdvertisementCache::sweep`] are due.
    pub fn sweep_interval(&self) -> Duration {
        (self.idle_time / 4).clamp(Duration::from_millis(50), Duration::from_secs(10))
    }
}
