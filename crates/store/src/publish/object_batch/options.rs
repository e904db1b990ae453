use packrace_format::pack_index;

use crate::config::Config;
use crate::error::{Error, Reason};
use crate::publish::{LooseLimit, PublishOptions, WritePolicy, loose_compression};

/// How new objects are stored.
#[derive(Debug, Clone, Copy)]
pub struct BatchOptions {
    /// What is synced, and who may read it.
    pub policy: WritePolicy,
    /// From how many objects on there is a pack.
    pub loose_limit: LooseLimit,
    /// zlib's level for loose objects.
    pub loose_compression: i32,
    /// zlib's level in a pack.
    pub pack_compression: i32,
    /// Which index a pack gets.
    pub index_version: pack_index::Version,
    /// Whether a pack gets a `.rev`.
    pub reverse_index: bool,
}

impl BatchOptions {
    /// What the configuration says.
    pub fn of(config: &Config) -> Result<Self, Error> {
        let PublishOptions { index_version, reverse_index, .. } = PublishOptions::of(config)?;
        Ok(BatchOptions {
            policy: WritePolicy::of(config)?.of_new_objects(),
            loose_limit: LooseLimit::of(config)?,
            loose_compression: loose_compression(config)?,
            pack_compression: pack_compression(config)?,
            index_version,
            reverse_index,
        })
    }
}

/// zlib's level for packs (git-config, "pack.compression").
fn pack_compression(config: &Config) -> Result<i32, Error> {
    let level = match config.integer("pack.compression")? {
        Some(level) => Some(level),
        None => config.integer("core.compression")?,
    };
    match level.unwrap_or(-1) {
        level @ -1..=9 => Ok(level as i32),
        level => Err(Reason::Config(format!("bad pack compression level {level}")).into()),
    }
}
