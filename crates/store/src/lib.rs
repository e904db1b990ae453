//! The repository on disk: configuration, snapshots of packs and refs, loose objects, alternates.
//!
//! For programs that read and change repositories as git does, beside git. It decides nothing about packs
//! (`packrace-pack`), knows no index and no work tree (`packrace-worktree`), and prints nothing: warnings are
//! `tracing` events.
//!
//! - [`Repository`]: found, opened, configured. [`init`] makes one. Nothing is read from the environment
//!   ([`OpenOptions`], [`ConfigSources`]).
//! - [`Snapshot`]: the packs of one moment; they stay readable during a repack. [`ObjectReader`]: reads
//!   objects, one per thread.
//! - [`refs`]: files and reftable, read at one moment, changed in transactions.
//! - [`publish`] and [`Quarantine`]: the only ways for files into a repository.
//!
//! ```
//! use std::path::Path;
//! use packrace_store::{OpenOptions, Repository, cache_bytes};
//!
//! /// The first line of the message of the commit that a branch points at.
//! fn subject(repository: &Path, branch: &[u8]) -> Result<Option<String>, Box<dyn std::error::Error>> {
//!     let repository = Repository::open(repository, &OpenOptions::default())?;
//!     let Some(tip) = repository.refs().resolve(branch)? else { return Ok(None) };
//!     let mut reader = repository.snapshot()?.reader(cache_bytes::FEW_OBJECTS);
//!     let commit = reader.read(&tip.id)?;
//!     let text = String::from_utf8_lossy(&commit.data);
//!     Ok(text.split_once("\n\n").and_then(|(_, message)| message.lines().next()).map(str::to_owned))
//! }
//! # use packrace_testkit::{RepoBuilder, Size};
//! # let repo = RepoBuilder::new(Size::Tiny).build();
//! # assert_eq!(subject(repo.path(), b"HEAD").unwrap().unwrap(), repo.git(&["log", "-1", "--format=%s"]).trim());
//! # assert_eq!(subject(repo.path(), b"refs/heads/none").unwrap(), None);
//! ```
//!
//! **What survives a crash.** Files are complete and synced before they have their names; a pack's index gets
//! its name last, and loses it first. Refs change only with a proof that their objects are durable
//! ([`publish::ObjectsStored`]). After a kill or a power cut, everything that was reported is there. Of
//! what was not, each file and each ref is there as a whole or not at all, and temporary files may be left.
//! `core.fsync` can weaken this; by default everything is synced.
//!
//! **Errors.** [`Error`] is in git's words where git has words; [`Error::kind`] says what a caller can do. A
//! damaged helper (bitmap, commit-graph, reverse index) is no error: it is reported and skipped.
//!
//! **Shared.** [`Repository`] and [`Snapshot`] are `Sync`. Sizes are in bytes.

#![forbid(unsafe_code)]

mod config;
mod error;
pub mod expiry;
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
mod shell_words;

pub use config::fsck_settings::{FsckSettings, FsckUse, strict_fsck_rules};
pub use config::parameters::parse_config_parameters;
pub use config::{BIG_FILE_BYTES, Config, ConfigSources, LastConfig, Served, parse_boolean};
pub use error::{Error, ErrorKind};
pub use hooks::{Ended, Hooks, HooksFrom, MessageSink};
pub use objects::attributes::DeltaAttribute;
pub use objects::base_cache::BaseCache;
pub use objects::bitmap::{DamagedBitmap, SnapshotBitmap};
pub use objects::cache_bytes;
pub use objects::helper_fault;
pub use objects::multi_pack_index::OwnMultiPackIndex;
pub use objects::numbers::{Location, ObjectIx, PackIx};
pub use objects::objects_dir::{join_alternates, split_alternates};
pub use objects::pack::Pack;
pub use objects::pack_fault::{header as header_of_pack, of_index as fault_of_index};
pub use objects::pack_set::Unit;
pub use objects::promisors::{FetchMissing, Promisor};
pub use objects::reader::{MAX_CHAIN, Object, ObjectReader};
pub use objects::snapshot::{Snapshot, check_unchanged};
pub use objects::stored::Stored;
pub use objects::stream::ObjectStream;
pub use packrace_os::Mapped;
pub use packrace_os::clock::time_of_day;
pub use packrace_os::trace::region as traced_region;
pub use quarantine::{Migrated, QUARANTINE_PREFIX, Quarantine, StagedPack};
pub use quoted::{needs_quotes, quote, unquote, unquote_line};
pub use repository::cached::CachedRepository;
pub use repository::graph_files::{GraphExpiry, GraphFiles};
pub use repository::roots::{
    RootKinds, Roots, broken_ref_or_tag, check_ref_objects, check_roots, ref_tips, roots,
};
pub use repository::skipped_refs::SkippedRefs;
pub use repository::work_trees::{WorkTreePlace, WorkTreeReflogs, all_reflogs};
pub use repository::{AttributeFiles, AttributeSource, OpenOptions, Repository, RepositorySearch};
pub use shell_words::{shell_quoted, shell_word};

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
