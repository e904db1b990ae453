//! One file a command.

pub mod man;
pub mod serve;
pub mod upload_pack;

use std::path::{Path, PathBuf};

use packrace_server::engine;

use crate::args::Globals;

/// Why a command ends: text for `fatal: …` and an exit code.
#[derive(Debug)]
pub struct Fatal {
    pub message: String,
    pub code: u8,
}

impl Fatal {
    /// A failure.
    pub fn new(message: impl ToString) -> Self {
        Fatal { message: message.to_string(), code: 128 }
    }

    /// Something that was asked for and is not offered.
    pub fn usage(message: impl ToString) -> Self {
        Fatal { message: message.to_string(), code: 129 }
    }
}

impl From<packrace_store::Error> for Fatal {
    fn from(error: packrace_store::Error) -> Self {
        Fatal::new(error)
    }
}

impl From<engine::Error> for Fatal {
    fn from(error: engine::Error) -> Self {
        Fatal::new(error)
    }
}

/// A path as the `-C` options mean it.
fn in_directory(globals: &Globals, path: &Path) -> PathBuf {
    let mut base = PathBuf::new();
    base.extend(&globals.directories);
    base.join(path)
}
