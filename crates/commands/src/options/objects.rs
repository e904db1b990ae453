//! Options of commands that create single objects.

use std::ffi::OsString;
use std::path::PathBuf;

/// The objects that `hash-object` names.
#[derive(Debug, Clone)]
pub struct HashObjectOptions {
    /// The object type.
    pub kind: String,
    /// Store the object.
    pub write: bool,
    /// How often `--stdin` was given: at most once.
    pub stdin: u8,
    /// Read file names from the input.
    pub stdin_paths: bool,
    /// Do not convert files.
    pub no_filters: bool,
    /// Accept invalid content.
    pub literally: bool,
    /// Convert as if the content were in this file.
    pub path: Option<OsString>,
    /// The files.
    pub files: Vec<OsString>,
}

impl Default for HashObjectOptions {
    fn default() -> Self {
        HashObjectOptions {
            kind: "blob".to_owned(),
            write: false,
            stdin: 0,
            stdin_paths: false,
            no_filters: false,
            literally: false,
            path: None,
            files: Vec::new(),
        }
    }
}

/// The tree that `write-tree` writes.
#[derive(Debug, Clone, Default)]
pub struct WriteTreeOptions {
    /// Do not check whether the objects in the index exist.
    pub missing_ok: bool,
    /// Write the tree of this directory.
    pub prefix: Option<OsString>,
}

/// The commit that `commit-tree` makes.
#[derive(Debug, Clone, Default)]
pub struct CommitTreeOptions {
    /// The tree; exactly one.
    pub trees: Vec<OsString>,
    /// The parents and the parts of the message, in the order in which they are looked at.
    pub parts: Vec<CommitPart>,
}

/// A part of a new commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitPart {
    /// `-p`
    Parent(OsString),
    /// `-m`
    Text(OsString),
    /// `-F`; `-` is the input.
    File(PathBuf),
}
