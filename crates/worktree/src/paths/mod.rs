//! Paths of a work tree: pathspecs, ignore rules, and parent directories.

mod attributes;
mod ignore;
mod leading;
pub(crate) mod levels;
mod magic;
mod nested;
mod outside;
mod pathspec;
mod sparse;
mod verify;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_object::ObjectId;

pub(crate) use self::attributes::{AttributeState, Condition, PathAttributes, is_attribute_name};
pub use self::ignore::IgnoreRules;
pub use self::leading::LeadingDirs;
pub(crate) use self::nested::fault_of_nested;
pub use self::nested::{NestedHead, head_of_nested};
pub use self::outside::said_of_outside;
pub use self::pathspec::{Pathspecs, Spec, SpecDefaults};
pub use self::sparse::SparseCheckout;
pub(crate) use self::sparse::uses_cone;
pub use self::verify::NameRules;

/// Finds the index's blob for a path, if any.
pub type FindStaged<'a> = &'a dyn Fn(&[u8]) -> Option<ObjectId>;

/// Why paths cannot be found or matched, with git's message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// An invalid pathspec.
    #[error("{0}")]
    Spec(String),
    /// Attributes could not be read.
    #[error("{0}")]
    Attributes(String),
    /// The repository could not be read.
    #[error(transparent)]
    Store(#[from] packrace_store::Error),
    /// A repository that the index has is none that can be read.
    #[error("{0}")]
    Nested(String),
    /// What should be a file of patterns is a directory.
    #[error("cannot use {} as an exclude file", .0.display())]
    NoExcludeFile(PathBuf),
    /// A file or directory could not be read.
    #[error("{what}: {source}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The parent directories of a path, from the top down, without trailing slashes.
pub fn directories_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}

/// These bytes as a path.
pub(crate) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
