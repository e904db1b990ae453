use std::path::PathBuf;
use std::time::Duration;

/// What the pack cache may keep of packs that were sent. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// Whether equal requests share one pack. Without it every request makes its own, and nothing is kept.
    /// Default: true.
    pub enabled: bool,
    /// Bytes in memory of all kept packs together. When they run out, the least recently requested packs are
    /// evicted; if that is not enough, the new pack goes to disk or is not kept. Default: 64 MiB.
    ///
    /// Each pack may have 8 MiB more while it is made, however many clients read it.
    pub max_memory_bytes: u64,
    /// Bytes on disk of all kept packs together; 0 for none. Evicts as for memory, but a pack that does not
    /// fit on disk is not kept. Ranges of the repositories' own packs do not count. Default: 2 GiB.
    pub max_disk_bytes: u64,
    /// Bytes in memory of deltas that were made for packs, to be used in later packs of the same repository. When they run
    /// out, the least recently used are evicted. 0: none are kept. Default: 32 MiB.
    pub max_delta_bytes: u64,
    /// How long an unrequested pack is kept. For as long, packs that a repack has deleted may still take up
    /// disk, unless another request to the repository comes first. Default: 300 seconds.
    pub max_age: Duration,
    /// The directory on whose file system packs are kept. It gets no entries: the files have no names, and
    /// are gone when the process ends, however it ends. A file system in memory is a bad choice. Without a
    /// directory nothing goes to disk. Default: none; `packrace serve` uses the system's directory for
    /// temporary files.
    pub directory: Option<PathBuf>,
}

impl Default for CacheSettings {
    fn default() -> Self {
        CacheSettings {
            enabled: true,
            max_memory_bytes: 64 << 20,
            max_disk_bytes: 2 << 30,
            max_delta_bytes: 32 << 20,
            max_age: Duration::from_secs(300),
            directory: None,
        }
    }
}
