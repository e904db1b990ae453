//! Errors that end a command.

use std::fmt;

use packrace_pack::maintain::bitmap_build::not_closed_warning;
use packrace_pack::maintain::commit_graph::GraphError;
use packrace_pack::maintain::pack_files::PackFilesError;

use crate::call::printable::harmless;

/// An error that ends a command: its last message and its exit code.
#[derive(Debug)]
pub struct Fatal {
    /// The message; empty if everything was already printed.
    pub message: String,
    /// The exit code.
    pub code: u8,
    /// The command whose usage is printed too.
    pub usage_of: Option<&'static str>,
    /// What is printed on standard output, too.
    pub shown: String,
    /// Whether git is to do the command instead, if there is one. Nothing has been printed then.
    pub is_for_git: bool,
    /// Whether it is about the format of a repository, which this program does not know.
    pub is_of_unknown_format: bool,
    /// The prefix of the message.
    word: &'static str,
    /// Lines printed before the message.
    before: Vec<u8>,
}

impl Fatal {
    /// A fatal error.
    pub fn new(message: impl ToString) -> Self {
        let message = without_numbers(message.to_string());
        let word = "fatal: ";
        let (is_for_git, is_of_unknown_format) = (false, false);
        Fatal {
            message,
            code: 128,
            usage_of: None,
            shown: String::new(),
            is_for_git,
            is_of_unknown_format,
            word,
            before: Vec::new(),
        }
    }

    /// A fatal error in the lines of git, if there are several; else its own text.
    fn in_lines(lines: Option<(String, String)>, error: impl ToString) -> Self {
        match lines {
            Some((before, last)) => Fatal::new(last).after(harmless(&before)),
            None => Fatal::new(error),
        }
    }

    /// An error that git reports with `error:` and exit code 1.
    pub fn error(message: impl ToString) -> Self {
        Fatal { code: 1, word: "error: ", ..Fatal::new(message) }
    }

    /// An error after which git ends with what it means for -1.
    pub fn minus_one(message: impl ToString) -> Self {
        Fatal { code: 255, ..Fatal::error(message) }
    }

    /// An exit code without a message.
    pub fn silent(code: u8) -> Self {
        Fatal { code, ..Fatal::new("") }
    }

    /// Arguments that do not go together: only the usage is printed.
    pub fn usage_of(command: &'static str) -> Self {
        Fatal::silent(129).with_usage_of(command)
    }

    /// An option with an invalid value.
    pub fn refused(message: impl ToString) -> Self {
        Fatal { code: 129, ..Fatal::error(message) }
    }

    /// An unsupported request.
    pub fn usage(message: impl ToString) -> Self {
        Fatal { code: 129, ..Fatal::new(message) }
    }

    /// The same, only if there is no git that can do the command instead.
    pub fn unless_git(self) -> Self {
        Fatal { is_for_git: true, ..self }
    }

    /// The same, with the command's usage.
    pub fn with_usage_of(self, command: &'static str) -> Self {
        Fatal { usage_of: Some(command), ..self }
    }

    /// The same, printed after these lines.
    pub fn after(self, lines: impl Into<Vec<u8>>) -> Self {
        Fatal { before: lines.into(), ..self }
    }

    /// The same, with this on standard output.
    pub fn showing(self, shown: String) -> Self {
        Fatal { shown, ..self }
    }

    /// Everything to print on standard error, except usage.
    pub fn text(&self) -> Vec<u8> {
        let Fatal { message, word, before, .. } = self;
        match message.is_empty() {
            true => before.clone(),
            false => [before, format!("{word}{}\n", harmless(message)).as_bytes()].concat(),
        }
    }
}

/// The text without the numbers that errors of the system have behind them: git shows none.
fn without_numbers(mut text: String) -> String {
    while let Some(at) = text.find(" (os error ") {
        let Some(length) = text[at..].find(')') else { break };
        text.replace_range(at..=at + length, "");
    }
    text
}

/// Whether the system does not allow what was tried.
pub(crate) fn is_forbidden(error: &packrace_store::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == std::io::ErrorKind::PermissionDenied)
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fatal {}

impl From<packrace_store::Error> for Fatal {
    fn from(error: packrace_store::Error) -> Self {
        Fatal {
            is_of_unknown_format: error.is_of_unknown_format(),
            ..Fatal::in_lines(error.in_git_words(), error)
        }
    }
}

impl From<packrace_pack::Error> for Fatal {
    fn from(error: packrace_pack::Error) -> Self {
        Fatal::in_lines(error.in_git_words(), error)
    }
}

impl From<PackFilesError> for Fatal {
    fn from(error: PackFilesError) -> Self {
        match error {
            PackFilesError::Objects(error) => error.into(),
            error => Fatal::new(error),
        }
    }
}

impl From<packrace_maintenance::Error> for Fatal {
    fn from(error: packrace_maintenance::Error) -> Self {
        match error {
            packrace_maintenance::Error::NotClosed(missing) => {
                Fatal::error(&error).after(format!("warning: {}\n", not_closed_warning(&missing)))
            }
            packrace_maintenance::Error::NoBitmap => Fatal::error(error),
            packrace_maintenance::Error::Store(error) => error.into(),
            packrace_maintenance::Error::Objects(error)
            | packrace_maintenance::Error::PackFiles(PackFilesError::Objects(error))
            | packrace_maintenance::Error::CommitGraph(GraphError::Objects(error)) => error.into(),
            error => Fatal::new(error),
        }
    }
}

impl From<packrace_pack::ingest::IngestError> for Fatal {
    fn from(error: packrace_pack::ingest::IngestError) -> Self {
        let lines = error.lines().to_vec();
        Fatal::new(error).after(lines)
    }
}

impl From<packrace_worktree::index::IndexError> for Fatal {
    fn from(error: packrace_worktree::index::IndexError) -> Self {
        if let packrace_worktree::index::IndexError::Store(error) = error {
            return error.into();
        }
        match error.cause() {
            Some(cause) => Fatal::new(error).after(format!("error: {cause}\n")),
            None => Fatal::new(error),
        }
    }
}

impl From<packrace_server::error::Error> for Fatal {
    fn from(error: packrace_server::error::Error) -> Self {
        Fatal::in_lines(error.in_git_words(), error)
    }
}
