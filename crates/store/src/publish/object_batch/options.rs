use crate::config::Config;
use crate::error::Error;
use crate::publish::{LooseLimit, PublishOptions, WritePolicy, loose_compression, pack_compression};

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
    /// What a pack gets beside it.
    pub beside: PublishOptions<'static>,
}

impl BatchOptions {
    /// What the configuration says.
    pub fn of(config: &Config) -> Result<Self, Error> {
        Ok(BatchOptions {
            policy: WritePolicy::of(config)?.of_new_objects(),
            loose_limit: LooseLimit::of(config)?,
            loose_compression: loose_compression(config)?,
            pack_compression: pack_compression(config)?,
            beside: PublishOptions::of(config)?,
        })
    }
}
