//! The repository on disk: configuration, snapshots of packs and refs, loose objects, alternates.

#![forbid(unsafe_code)]

mod config;
mod error;
mod file_dependencies;
mod hooks;
pub mod init;
mod line_file;
mod objects;
mod paths;
pub mod publish;
mod quarantine;
mod quoted;
pub mod refs;
mod repository;

pub use config::fsck_settings::{FsckSettings, FsckUse, strict_fsck_rules};
pub use config::parameters::parse_config_parameters;
pub use config::{BIG_FILE_BYTES, Config, ConfigSources, LastConfig, Served, parse_boolean};
pub use error::{Error, ErrorKind};
pub use hooks::{Ended, Hooks, HooksFrom, MessageSink};
pub use objects::attributes::DeltaAttribute;
pub use objects::base_cache::BaseCache;
pub use objects::bitmap::{DamagedBitmap, SnapshotBitmap};
pub use objects::cache_bytes;
pub use objects::numbers::{Location, ObjectIx, PackIx};
pub use objects::objects_dir::{join_alternates, split_alternates};
pub use objects::pack::Pack;
pub use objects::pack_set::Unit;
pub use objects::reader::{MAX_CHAIN, Object, ObjectReader};
pub use objects::snapshot::{Snapshot, check_unchanged};
pub use objects::stored::Stored;
pub use objects::stream::ObjectStream;
pub use packrace_os::Mapped;
pub use quarantine::{Migrated, QUARANTINE_PREFIX, Quarantine, StagedPack};
pub use quoted::{needs_quotes, quote, unquote, unquote_line};
pub use repository::cached::CachedRepository;
pub use repository::graph_files::{GraphExpiry, GraphFiles};
pub use repository::roots::{Roots, ref_tips, roots};
pub use repository::work_trees::{WorkTreeReflogs, all_reflogs};
pub use repository::{AttributeFiles, OpenOptions, Repository};

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
