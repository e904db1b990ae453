//! The repository on disk: configuration, snapshots of packs and refs, loose objects, alternates.

#![forbid(unsafe_code)]

mod abbreviations;
mod accelerators;
mod attributes;
mod base_cache;
mod bitmap;
mod config;
mod error;
mod freshen;
mod fsck_settings;
mod graph_files;
mod hooks;
pub mod init;
mod kept;
mod locality;
mod objects_dir;
mod pack;
mod pack_dir;
mod pack_fault;
mod pack_finder;
mod pack_set;
mod parameters;
pub mod publish;
mod quoted;
mod reader;
pub mod refs;
mod repository;
mod roots;
mod snapshot;
mod stored;
mod stream;
mod verified;
mod witnesses;

pub use attributes::DeltaAttribute;
pub use base_cache::BaseCache;
pub use bitmap::{DamagedBitmap, SnapshotBitmap};
pub use config::{BIG_FILE_BYTES, Config, ConfigSources, LastConfig, Served};
pub use error::{Error, ErrorKind};
pub use fsck_settings::{FsckSettings, FsckUse, strict_fsck_rules};
pub use graph_files::{Expiry, GraphFiles};
pub use hooks::{Ended, Hooks, HooksFrom, Outlet};
pub use kept::Kept;
pub use objects_dir::{join_alternates, split_alternates};
pub use pack::Pack;
pub use pack_set::Unit;
pub use packrace_os::Mapped;
pub use parameters::parse_config_parameters;
pub use quoted::{needs_quotes, quote, unquote, unquote_line};
pub use reader::{MAX_CHAIN, Object, ObjectReader};
pub use repository::{AttributeFiles, OpenOptions, Repository};
pub use roots::{Roots, roots};
pub use snapshot::{Location, ObjectIx, PackIx, Snapshot, check_unchanged};
pub use stored::Stored;
pub use stream::ObjectStream;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_and_snapshots_are_shared_by_threads() {
        fn is_shared<T: Send + Sync>() {}
        fn is_moved<T: Send>() {}
        is_shared::<Repository>();
        is_shared::<Snapshot>();
        is_moved::<ObjectReader>();
    }
}
