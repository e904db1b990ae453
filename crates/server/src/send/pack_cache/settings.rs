use std::path::PathBuf;
use std::time::Duration;

/// What may be kept of packs, to send it again. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// Whether identical requests share one pack. Without it every request makes its own, and nothing is kept.
    /// Default: true.
    pub enabled: bool,
    /// Bytes in memory of packs that are kept, all together. Where that is not enough, the packs go that were asked for
    /// the longest time ago; where those do not do, what is made goes on disk or is not kept. Default: 64 MiB.
    ///
    /// Each pack that is being made may have 8 MiB more for as long, however many read it.
    pub max_memory_bytes: u64,
    /// Bytes on disk of packs that are kept, all together; 0: nothing goes on disk. As for memory, but what does not go
    /// on disk is not kept. Ranges of the repositories' own packs do not count. Default: 2 GiB.
    pub max_disk_bytes: u64,
    /// How long a pack is kept that nobody asks for. For as long, packs that a repack has deleted may still take up disk,
    /// unless somebody asks for something else of the repository before. Default: 300 seconds.
    pub max_age: Duration,
    /// The directory on whose file system packs are kept. It gets no entries: the files have no names, and are gone when
    /// the process ends, however it does. A file system in memory is a bad choice. Without a directory nothing goes on
    /// disk. Default: none; `packrace serve` says the system's directory for temporary files.
    pub directory: Option<PathBuf>,
}

impl Default for CacheSettings {
    fn default() -> Self {
        CacheSettings {
            enabled: true,
            max_memory_bytes: 64 << 20,
            max_disk_bytes: 2 << 30,
            max_age: Duration::from_secs(300),
            directory: None,
        }
    }
}
