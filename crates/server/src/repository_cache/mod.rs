//! What a server caches of repositories between calls: docs/decisions/0025-repository-cache.md.
//!
//! [`RepositoryCache`] keeps them open; [`RefAdvertisementCache`] keeps what was answered about their refs.

mod answers;
mod repositories;

use std::time::Duration;

pub use answers::RefAdvertisementCache;
pub(crate) use answers::{Chunk, StoredAnswer};
pub use repositories::RepositoryCache;

/// What is kept of repositories between calls. Plain data; changes count from the next start on.
#[derive(Debug, Clone)]
pub struct RepositoryCacheSettings {
    /// Whether anything is kept. Default: true. Without, every call opens its repository and reads its refs.
    pub enabled: bool,
    /// Repositories that are kept open. Default: 1024. Beyond it, those go that were not used for the longest time.
    pub max_repositories: usize,
    /// Packs of all of them together, as far as they were listed; one that is read takes up to three of the maps that a
    /// process may have (65,530 on most systems). Default: 8192. Beyond it, as above, but for the last that was opened.
    pub max_packs: usize,
    /// How long a repository is kept that nobody asks for. Default: 60 s. Packs that were deleted take their place on
    /// disk until then at the most: four times in it, and each 10 s at least, everything is looked at, and what has changed is
    /// dropped.
    pub idle_time: Duration,
    /// Memory for answers about refs. Default: 64 MiB. Beyond it, those go that were not used for the longest time; one
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
