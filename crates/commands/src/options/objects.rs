//! Options of commands that make single objects.

use std::ffi::OsString;
use std::path::PathBuf;

/// What `hash-object` names.
#[derive(Debug, Clone)]
pub struct HashObjectOptions {
    /// What kind of object it is.
    pub kind: String,
    /// Store the object.
    pub write: bool,
    /// Read the object from the input; how often that was said, which may be once.
    pub stdin: u8,
    /// Read names of files from the input.
    pub stdin_paths: bool,
    /// Take files as they are, without conversion.
    pub no_filters: bool,
    /// Take any bytes for an object of the kind, and any word for a kind.
    pub literally: bool,
    /// Convert as if this was the file.
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

/// What `write-tree` makes trees of.
#[derive(Debug, Clone, Default)]
pub struct WriteTreeOptions {
    /// Do not look whether the objects are there that the index names.
    pub missing_ok: bool,
    /// Say the tree of this directory.
    pub prefix: Option<OsString>,
}

/// What `commit-tree` makes a commit of.
#[derive(Debug, Clone, Default)]
pub struct CommitTreeOptions {
    /// The tree, which has to be one.
    pub trees: Vec<OsString>,
    /// Parents, in order.
    pub parents: Vec<OsString>,
    /// Parts of the message, in order.
    pub message: Vec<MessagePart>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessagePart {
    /// `-m`
    Text(OsString),
    /// `-F`; `-` is the input.
    File(PathBuf),
}
