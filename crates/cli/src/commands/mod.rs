//! One file a command.

pub mod man;
pub mod serve;
pub mod upload_pack;

use std::path::{Path, PathBuf};

use packrace_os::count::Role;
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
fn in_directory(globals: &Globals, path: &Path) -> Result<PathBuf, Fatal> {
    let mut base = PathBuf::new();
    for directory in &globals.directories {
        base.push(directory);
        // An empty one means nothing, as in git.
        if !base.as_os_str().is_empty() {
            enter(&base)?;
        }
    }
    Ok(base.join(path))
}

fn enter(directory: &Path) -> Result<(), Fatal> {
    let cannot = |why: &dyn std::fmt::Display| {
        Err(Fatal::new(format!("cannot change to '{}': {why}", directory.display())))
    };
    match packrace_os::identity(directory, Role::Config) {
        Ok(Some(found)) if found.is_dir => Ok(()),
        Ok(Some(_)) => cannot(&"Not a directory"),
        Ok(None) => cannot(&"No such file or directory"),
        Err(error) => cannot(&error),
    }
}
