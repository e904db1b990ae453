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

pub use index::{AddOptions, Step, Switch, UpdateIndexOptions};
pub use maintenance::{
    CommitGraphOptions, CommitGraphVerifyOptions, CommitGraphWriteOptions, MaintenanceOptions,
    MaintenanceRunOptions, MultiPackIndexAction, MultiPackIndexOptions, MultiPackIndexWriteOptions,
    RepackOptions,
};
pub use objects::{CommitTreeOptions, HashObjectOptions, MessagePart, WriteTreeOptions};
pub use packs::{
    FsckOptions, IndexPackOptions, PackObjectsOptions, PackingOptions, UnpackObjectsOptions,
    VerifyPackOptions,
};
pub use refs::{
    ForEachRefOptions, PackRefsOptions, ReflogChangeOptions, ReflogDeleteOptions, ReflogDropOptions,
    ReflogExpireOptions, ReflogOptions, ReflogShowOptions, RefsMigrateOptions, RefsOptions,
    RefsVerifyOptions, ShowRefOptions, SymbolicRefOptions, UpdateRefOptions,
};
pub use repositories::{CloneOptions, InitOptions, ReceivePackOptions, UploadPackOptions};
pub use stash::{StashApplyOptions, StashKeepOptions, StashOptions, StashPushOptions, StashShowOptions};

/// Options of all commands; they stand before the command, as in git.
#[derive(Debug, Clone, Default)]
pub struct GlobalOptions {
    /// `-C`: the directory that all paths start from, each relative to the one before.
    pub directories: Vec<PathBuf>,
    /// `-c`: configuration for this call, as `name=value`; without a value it is true.
    pub config: Vec<String>,
    /// The repository, where a command names none.
    pub git_dir: Option<PathBuf>,
    /// Where the history of the repository is cut, instead of its own list; an empty path: nowhere.
    pub shallow_file: Option<OsString>,
    /// Attributes are read from this tree as well.
    pub attr_source: Option<String>,
    /// Only the refs of this namespace are served (gitnamespaces).
    pub namespace: Option<String>,
}
