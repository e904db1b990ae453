//! Why commands end before they are done.

use std::io::Write as _;

use packrace_server::engine;

use crate::args;

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

    /// A failure that git reports with `error:` and exit code 1.
    pub fn error(message: impl ToString) -> Self {
        Fatal { message: message.to_string(), code: 1 }
    }

    /// An end with nothing more to say.
    pub fn silent(code: u8) -> Self {
        Fatal { message: String::new(), code }
    }

    /// Arguments that make no sense together: how the command is used is all that is said.
    pub fn usage_of(command: &str) -> Self {
        tell!("{}", args::usage_of(command).trim_end());
        Fatal { message: String::new(), code: 129 }
    }

    /// An option whose value makes no sense; nothing is said of how the command is used.
    pub fn usage_text(message: &str) -> Self {
        tell!("error: {message}");
        Fatal { message: String::new(), code: 129 }
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

impl From<packrace_pack::Error> for Fatal {
    fn from(error: packrace_pack::Error) -> Self {
        Fatal::new(error)
    }
}

impl From<packrace_pack::maintenance::pack_files::PackFilesError> for Fatal {
    fn from(error: packrace_pack::maintenance::pack_files::PackFilesError) -> Self {
        Fatal::new(error)
    }
}

impl From<packrace_pack::ingest::Error> for Fatal {
    fn from(error: packrace_pack::ingest::Error) -> Self {
        let _ = std::io::stderr().write_all(error.lines());
        Fatal::new(error)
    }
}

impl From<packrace_worktree::index::IndexError> for Fatal {
    fn from(error: packrace_worktree::index::IndexError) -> Self {
        if let Some(cause) = error.cause() {
            tell!("error: {cause}");
        }
        Fatal::new(error)
    }
}

impl From<engine::Error> for Fatal {
    fn from(error: engine::Error) -> Self {
        Fatal::new(error)
    }
}
