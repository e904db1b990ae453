use packrace_store::publish::pack_compression;
use packrace_store::{BIG_FILE_BYTES, Config};

use crate::error::{Error, Reason};
use crate::names::NameHashVersion;

/// How a pack is made: the `pack.*` and pack-objects settings that change its content or cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The number of objects that the delta search compares each object with (`pack.window`); 0: no search.
    pub window: usize,
    /// The longest new delta chain (`pack.depth`); 0: no new deltas.
    pub depth: u16,
    /// The longest chain of stored deltas that is reused: a response may send chains as stored, but a stored
    /// pack keeps to `depth`, as in git.
    pub reused_depth: u16,
    /// Bytes of the objects in one thread's window (`pack.windowMemory`); 0: no limit. The last two objects
    /// are compared in any case.
    pub window_bytes: usize,
    /// Bytes of new deltas kept until they are written (`pack.deltaCacheSize`; 0: no limit); other deltas are
    /// made twice.
    pub delta_cache_bytes: usize,
    /// The longest delta that is kept (`pack.deltaCacheLimit`). Unlike in git, unlimited by default: the
    /// total is limited already, and long deltas are the most expensive to make twice.
    pub delta_cache_limit_bytes: usize,
    /// Bytes of cached delta bases, for all threads together (`core.deltaBaseCacheLimit`).
    pub base_cache_bytes: usize,
    /// How paths are hashed for the delta search (`pack.usePathWalk`).
    pub name_hash: NameHashVersion,
    /// Whether only the paths of new objects are visited in what the receiver has (`pack.useSparse`): faster, and objects that
    /// have moved are sent again.
    pub sparse: bool,
    /// The zlib level (`pack.compression`); -1: zlib's default.
    pub compression: i32,
    /// Larger objects are left out of the delta search (`core.bigFileThreshold`).
    pub big_file_bytes: u64,
    /// Whether stored deltas are reused (otherwise `--no-reuse-delta`).
    pub reuse_deltas: bool,
    /// Whether stored bytes are reused at all (otherwise `--no-reuse-object`).
    pub reuse_objects: bool,
    /// Which packs are reused as packs if bitmaps find the objects (`pack.allowPackReuse`).
    pub pack_reuse: PackReuseScope,
    /// The deepest tree that a filter by paths visits (`core.maxTreeDepth`).
    pub max_tree_depth: usize,
    /// Threads for the delta search; at least 1 (`pack.threads`).
    pub threads: usize,
}

/// From which packs objects count as reused from a pack, not one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PackReuseScope {
    /// None. Every entry is looked at, and objects of several packs are compared to find better deltas.
    Off,
    /// The pack of the bitmaps; of a multi-pack-index, the preferred one.
    #[default]
    Single,
    /// All packs that the bitmaps cover.
    Multi,
}

impl PackReuseScope {
    fn of(config: &Config) -> Result<Self, Error> {
        let is_experimental = config.boolean("feature.experimental")?.unwrap_or(false);
        let default = if is_experimental { PackReuseScope::Multi } else { PackReuseScope::Single };
        let Some(value) = config.string("pack.allowPackReuse") else { return Ok(default) };
        match value.to_ascii_lowercase().as_slice() {
            b"single" => Ok(PackReuseScope::Single),
            b"multi" => Ok(PackReuseScope::Multi),
            // As in git, no numbers.
            b"" | b"true" | b"yes" | b"on" | b"false" | b"no" | b"off" => {
                match config.boolean("pack.allowPackReuse")? {
                    Some(false) => Ok(PackReuseScope::Off),
                    _ => Ok(PackReuseScope::Single),
                }
            }
            _ => Err(Reason::PackReuseScope(String::from_utf8_lossy(&value).into_owned()).into()),
        }
    }
}

/// The default of `core.maxTreeDepth` (git-config).
pub const MAX_TREE_DEPTH: usize = 2048;

/// The longest delta chain that can be set (git-pack-objects, "--depth").
pub const MAX_DEPTH: u16 = 4095;

impl Default for Settings {
    /// git's defaults (git-config, "pack" and "core"), except for the window's memory, which git does not
    /// limit: a small pack can hold objects of half a gigabyte each.
    fn default() -> Self {
        Settings {
            window: 10,
            depth: 50,
            reused_depth: MAX_DEPTH,
            window_bytes: 256 << 20,
            delta_cache_bytes: 256 << 20,
            delta_cache_limit_bytes: usize::MAX,
            base_cache_bytes: 96 << 20,
            name_hash: NameHashVersion::V1,
            sparse: true,
            compression: -1,
            big_file_bytes: BIG_FILE_BYTES,
            reuse_deltas: true,
            reuse_objects: true,
            pack_reuse: PackReuseScope::default(),
            max_tree_depth: MAX_TREE_DEPTH,
            threads: 1,
        }
    }
}

impl Settings {
    /// Reads the settings from the configuration, with git's defaults; `threads` applies if `pack.threads` is
    /// 0.
    ///
    /// As in git, negative numbers mean the default, but 0 for `core.maxTreeDepth`, and are refused for sizes and
    /// `pack.threads`.
    pub fn of(config: &Config, threads: usize) -> Result<Self, Error> {
        let default = Settings::default();
        let number = |name: &str| -> Result<Option<usize>, Error> {
            Ok(config.small_integer(name)?.and_then(|number| usize::try_from(number).ok()))
        };
        Ok(Settings {
            window: number("pack.window")?.unwrap_or(default.window),
            depth: number("pack.depth")?
                .map_or(default.depth, |depth| depth.min(usize::from(MAX_DEPTH)) as u16),
            window_bytes: config.bytes("pack.windowMemory")?.map_or(default.window_bytes, to_usize),
            delta_cache_bytes: number("pack.deltaCacheSize")?.unwrap_or(default.delta_cache_bytes),
            delta_cache_limit_bytes: number("pack.deltaCacheLimit")?
                .map_or(default.delta_cache_limit_bytes, |limit| limit.min(MAX_DELTA_CACHE_LIMIT)),
            base_cache_bytes: base_cache_bytes(config)?,
            name_hash: match config.boolean("pack.usePathWalk")? {
                Some(true) => NameHashVersion::ByPath,
                _ => default.name_hash,
            },
            sparse: config.boolean("pack.useSparse")?.unwrap_or(default.sparse),
            compression: pack_compression(config)?,
            big_file_bytes: config.big_file_bytes()?,
            pack_reuse: PackReuseScope::of(config)?,
            max_tree_depth: Settings::max_tree_depth(config)?,
            threads: Settings::threads(config, threads)?,
            ..default
        })
    }

    /// `core.maxTreeDepth`: the deepest tree that is visited if a client decides where a walk goes.
    pub fn max_tree_depth(config: &Config) -> Result<usize, Error> {
        let depth = config.integer("core.maxTreeDepth")?;
        Ok(depth.map_or(MAX_TREE_DEPTH, |depth| usize::try_from(depth).unwrap_or(0)))
    }

    /// Only `pack.threads`, for work that needs no other settings.
    pub fn threads(config: &Config, available: usize) -> Result<usize, Error> {
        let number = config.small_integer("pack.threads")?.unwrap_or(0);
        match usize::try_from(number) {
            Ok(0) => Ok(available.max(1)),
            Ok(threads) => Ok(threads.min(MAX_THREADS)),
            Err(_) => Err(Reason::Threads(number).into()),
        }
    }
}

/// `core.deltaBaseCacheLimit`.
pub(crate) fn base_cache_bytes(config: &Config) -> Result<usize, Error> {
    let default = Settings::default().base_cache_bytes;
    Ok(config.bytes("core.deltaBaseCacheLimit")?.map_or(default, to_usize))
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The largest `pack.deltaCacheLimit` that git 2.47 accepts; git-config documents a maximum of 65,535, which
/// git does not enforce.
const MAX_DELTA_CACHE_LIMIT: usize = 1_048_575;

/// More threads never help, so a larger configured number is reduced to this.
const MAX_THREADS: usize = 256;
