//! The options of commands, as plain values. Fields have the names of git's options.

mod index;
mod maintenance;
mod objects;
mod packs;
mod refs;
mod repositories;
mod stash;

use std::ffi::OsString;
use std::path::PathBuf;

pub use index::{AddOptions, Step, Switch, UntrackedCache, UpdateIndexOptions};
pub use maintenance::{
    CommitGraphOptions, CommitGraphVerifyOptions, CommitGraphWriteOptions, MaintenanceOptions,
    MaintenanceRunOptions, MultiPackIndexAction, MultiPackIndexCompactOptions, MultiPackIndexLayerOptions,
    MultiPackIndexOptions, MultiPackIndexWriteOptions, RepackOptions,
};
pub use objects::{CommitPart, CommitTreeOptions, HashObjectOptions, WriteTreeOptions};
pub use packs::{
    FsckOptions, IndexPackOptions, PackObjectsOptions, PackingOptions, UnpackObjectsOptions,
    VerifyPackOptions,
};
pub use refs::{
    ForEachRefOptions, LogOptions, PackRefsOptions, RefChangeKind, ReflogChangeOptions, ReflogDeleteOptions,
    ReflogDropOptions, ReflogExpireOptions, ReflogOptions, ReflogShowOptions, RefsChangeOptions,
    RefsMigrateOptions, RefsOptions, RefsVerifyOptions, ShowRefOptions, SymbolicRefOptions, UpdateRefOptions,
};
pub use repositories::{CloneOptions, InitOptions, ReceivePackOptions, UploadPackOptions};
pub use stash::{StashApplyOptions, StashKeepOptions, StashOptions, StashPushOptions, StashShowOptions};

/// Options of all commands; they come before the command, as in git.
#[derive(Debug, Clone, Default)]
pub struct GlobalOptions {
    /// `-C`: the directory that all paths start from, each relative to the previous one.
    pub directories: Vec<PathBuf>,
    /// `-c`: configuration for this call, names and values; no value means true.
    pub config: Vec<(String, Option<String>)>,
    /// The repository, for commands without a repository argument.
    pub git_dir: Option<PathBuf>,
    /// The repository is to be bare (`--bare`).
    pub bare: bool,
    /// The file of shallow commits, instead of the repository's; an empty path: none.
    pub shallow_file: Option<OsString>,
    /// Read attributes also from this tree.
    pub attr_source: Option<String>,
    /// Serve only refs of this namespace (gitnamespaces).
    pub namespace: Option<String>,
}
