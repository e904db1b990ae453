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
    let Ok(nested) = open(&git, options) else { return NestedHead::None };
    let head = nested.refs().snapshot(&[]).and_then(|refs| refs.resolve(b"HEAD"));
    match head {
        Ok(Some(found)) => NestedHead::At(found.id),
        Ok(None) | Err(_) => NestedHead::Unborn,
    }
}

/// Why a directory that the index has as a repository is none that can be read, in git's words; `shown` is what git calls it. One
/// without `.git` is only not checked out.
pub(crate) fn fault_of_nested(path: &Path, shown: &Path, options: &OpenOptions) -> Option<String> {
    let git = path.join(".git");
    let is_dir = std::fs::metadata(&git).ok()?.is_dir();
    let error = open(&git, options).err()?;
    if is_dir {
        let words = || format!("'{}' not recognized as a git repository", shown.join(".git").display());
        return error.is_no_repository().then(words);
    }
    let text = error.to_string();
    let (what, file) = text.split_once(": ")?;
    let is_gitfile = matches!(what, "not a git repository" | "invalid gitfile format" | "no path in gitfile");
    let below = file.strip_prefix(&format!("{}/", path.display()));
    let file = below.map_or_else(|| file.to_owned(), |below| format!("{}/{below}", shown.display()));
    is_gitfile.then(|| format!("{what}: {file}"))
}

fn open(git: &Path, options: &OpenOptions) -> Result<Repository, packrace_store::Error> {
    let options = OpenOptions { strict: true, config: options.config.clone(), ..OpenOptions::default() };
    Repository::open(git, &options)
}
