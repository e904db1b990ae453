//! Repositories inside a work tree: submodules, and others.

use std::path::Path;

use packrace_object::ObjectId;
use packrace_store::{OpenOptions, Repository};

/// The commit that is checked out in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NestedHead {
    /// A repository with this commit checked out.
    At(ObjectId),
    /// A repository without a commit, or whose `HEAD` cannot be read.
    Unborn,
    /// The directory is not a repository.
    None,
}

impl NestedHead {
    /// The commit, if there is one.
    pub fn commit(self) -> Option<ObjectId> {
        match self {
            NestedHead::At(id) => Some(id),
            NestedHead::Unborn | NestedHead::None => None,
        }
    }
}

/// Examines the repository in a directory; `options` has the configuration from outside it.
pub fn head_of_nested(path: &Path, options: &OpenOptions) -> NestedHead {
    let git = path.join(".git");
    if !matches!(packrace_os::identity(&git, packrace_os::count::Role::WorkTree), Ok(Some(_))) {
        return NestedHead::None;
    }
    let options = OpenOptions { strict: true, config: options.config.clone(), ..OpenOptions::default() };
    let Ok(nested) = Repository::open(&git, &options) else { return NestedHead::None };
    let head = nested.refs().snapshot(&[]).and_then(|refs| refs.resolve(b"HEAD"));
    match head {
        Ok(Some(found)) => NestedHead::At(found.id),
        Ok(None) | Err(_) => NestedHead::Unborn,
    }
}
