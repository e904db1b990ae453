//! What a snapshot is made from.

use std::path::PathBuf;

use packrace_object::{HashKind, ObjectId};

/// What a snapshot is made from.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    pub(crate) hash: HashKind,
    pub(crate) objects: PathBuf,
    pub(crate) extra_objects: Vec<PathBuf>,
    /// Commits where history is cut, sorted.
    pub(crate) shallow: Vec<ObjectId>,
    pub(crate) use_commit_graph: bool,
    pub(crate) use_multi_pack_index: bool,
    pub(crate) use_bitmap: bool,
}

/// Where attributes come from, the less important first.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttributeSources {
    /// Of the system and of the user.
    pub(crate) outside: Vec<PathBuf>,
    /// A commit or tree with files of attributes.
    pub(crate) tree: Option<ObjectId>,
    /// Of the repository.
    pub(crate) info: PathBuf,
    /// Whether paths are compared without case (`core.ignoreCase`).
    pub(crate) folds_case: bool,
}
