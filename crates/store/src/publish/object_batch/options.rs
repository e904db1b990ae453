use crate::config::Config;
use crate::error::Error;
use crate::publish::{
    Component, LooseLimit, PublishOptions, WritePolicy, loose_compression, pack_compression,
};

/// How new objects are stored.
#[derive(Debug, Clone, Copy)]
pub struct BatchOptions {
    /// What is synced, and file modes.
    pub policy: WritePolicy,
    /// The number of objects from which on they go into a pack.
    pub loose_limit: LooseLimit,
    /// The zlib level for loose objects.
    pub loose_compression: i32,
    /// The zlib level in packs.
    pub pack_compression: i32,
    /// The most bytes of a pack, but for one of a single object; 0 means no limit (`pack.packSizeLimit`).
    pub max_pack_bytes: u64,
    /// The files beside a pack.
    pub beside: PublishOptions<'static>,
}

impl BatchOptions {
    /// The options of the configuration.
    pub fn of(config: &Config) -> Result<Self, Error> {
        // A reverse index costs a sync and is quick to compute for few objects: written only on request. Git reads
        // no setting of an index here, so a wrong one does not keep objects from being stored.
        let reverse_index = matches!(config.boolean("pack.writeReverseIndex"), Ok(Some(true)));
        Ok(BatchOptions {
            policy: WritePolicy::of(config)?.of_new_objects(),
            loose_limit: LooseLimit::of(config)?,
            loose_compression: loose_compression(config)?,
            pack_compression: pack_compression(config)?,
            max_pack_bytes: config.bytes("pack.packSizeLimit")?.unwrap_or(0),
            beside: PublishOptions { reverse_index, ..PublishOptions::of(config).unwrap_or_default() },
        })
    }

    /// As above, for objects that an index or a stash will name: if loose objects are synced, two make a
    /// pack, unless `packrace.looseLimit` is set. A pack is three syncs, and five loose objects are eleven.
    pub fn of_work_tree(config: &Config) -> Result<Self, Error> {
        let mut options = Self::of(config)?;
        let is_set = config.integer("packrace.looseLimit")?.is_some_and(|limit| limit >= 0);
        if options.policy.syncs(Component::LooseObject) && !is_set {
            options.loose_limit = LooseLimit::below(2);
        }
        Ok(options)
    }
}
