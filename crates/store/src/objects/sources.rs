//! The inputs of a snapshot.

use std::path::PathBuf;
use std::sync::Arc;

use packrace_object::{HashKind, ObjectId};

use crate::error::{Error, Reason};
use crate::objects::promisors::Promisors;
use crate::objects::replacements::Replacements;

/// The inputs of a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    pub(crate) hash: HashKind,
    pub(crate) objects: PathBuf,
    pub(crate) extra_objects: Vec<PathBuf>,
    /// The shallow boundary, sorted, or why it cannot be read.
    pub(crate) shallow: Result<Vec<ObjectId>, Arc<Error>>,
    pub(crate) use_commit_graph: bool,
    pub(crate) use_multi_pack_index: bool,
    pub(crate) use_bitmap: bool,
    /// Where missing objects are fetched from.
    pub(crate) promisors: Option<Arc<Promisors>>,
    /// Objects that are read in place of others.
    pub(crate) replacements: Option<Arc<Replacements>>,
}

/// The sources of attributes, in ascending priority.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttributeSources {
    /// Files of the system and the user.
    pub(crate) outside: Vec<PathBuf>,
    /// A commit or tree with attribute files.
    pub(crate) tree: Option<ObjectId>,
    /// Whether the environment names a tree that does not exist, which a name in the configuration may do.
    pub(crate) lacks_tree: bool,
    /// Why nothing can be looked up.
    pub(crate) refused: Option<String>,
    /// The file of the repository.
    pub(crate) info: PathBuf,
    /// Whether paths are compared case-insensitively (`core.ignoreCase`).
    pub(crate) folds_case: bool,
}

impl AttributeSources {
    /// Refuses a missing tree and variables that make no sense, before the first lookup.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.refused {
            Some(why) => Err(Reason::Refused(why.clone()).into()),
            None if self.lacks_tree => {
                Err(Reason::Refused("bad --attr-source or GIT_ATTR_SOURCE".to_owned()).into())
            }
            None => Ok(()),
        }
    }
}
