//! One call of a command: global options, environment and streams.

pub mod booleans;
pub mod command_words;
pub(crate) mod config_parameters;
pub mod discovery;
pub mod discovery_limits;
pub mod environment;
pub mod fatal;
pub(crate) mod git_fetch;
pub mod history_variables;
pub mod http_variables;
pub mod identity;
pub mod left_to_git;
pub mod printable;
mod relative_paths;
pub mod streams;
pub mod synopsis;
pub mod users;

use std::fmt;
use std::process::Command;
use std::sync::Arc;

use packrace_store::{Config, FetchMissing, OpenOptions};

use self::environment::Environment;
use self::fatal::Fatal;
use self::git_fetch::GitFetch;
use self::printable::harmless;
use self::streams::Streams;
use crate::options::GlobalOptions;

/// The inputs of every command besides its own options.
pub struct Call {
    /// Options of all commands.
    pub globals: GlobalOptions,
    /// The variables that commands read.
    pub environment: Environment,
    /// Input and outputs.
    pub streams: Streams,
    /// Whether the process ends after this call: then memory is left to the kernel, which frees it faster.
    pub ends_process: bool,
    /// A process of git, if there is one: it does commands that end with [`Fatal::is_for_git`], and fetches promised objects.
    pub git: fn() -> Option<Command>,
}

/// Writes a line to the error output of a call, or to an error output itself.
macro_rules! error_line {
    ($to:expr, $($line:tt)*) => {
        $to.error_line(format_args!($($line)*))
    };
}

/// Whether output of a kind is coloured: by its own setting, or else `color.ui`.
pub(crate) fn has_colors(
    config: &Config,
    setting: &str,
    is_terminal: impl Fn() -> bool,
) -> Result<bool, Fatal> {
    let key = if config.string(setting).is_some() { setting } else { "color.ui" };
    Ok(match config.string(key).as_deref() {
        Some(b"always") => true,
        Some(b"never") => false,
        Some(b"auto") | None => is_terminal(),
        Some(_) => config.boolean(key)?.unwrap_or(true) && is_terminal(),
    })
}

impl Call {
    /// A call after which the process continues.
    pub fn new(globals: GlobalOptions, environment: Environment, streams: Streams) -> Self {
        Call { globals, environment, streams, ends_process: false, git: || None }
    }

    /// Writes a line to the error output.
    pub(crate) fn error_line(&self, line: fmt::Arguments<'_>) {
        self.streams.errors.error_line(line);
    }

    /// Writes an error that does not end the call.
    pub(crate) fn report_error(&self, text: &str) {
        error_line!(self, "error: {}", harmless(text));
    }

    /// Writes to the output and flushes it.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), Fatal> {
        self.streams.write(bytes)
    }

    /// Writes a line to the output.
    pub(crate) fn write_line(&self, line: impl AsRef<[u8]>) -> Result<(), Fatal> {
        self.write(&[line.as_ref(), b"\n"].concat())
    }

    /// What `advice.<name>` says of a hint: nothing is yes.
    pub(crate) fn advice(&self, config: &Config, name: &str) -> Result<Option<bool>, Fatal> {
        self.environment.booleans.check(&["GIT_ADVICE"])?;
        match self.environment.has_no_advice {
            true => Ok(Some(false)),
            false => Ok(config.boolean(&format!("advice.{name}"))?),
        }
    }

    /// Prints a hint in git's form, unless `advice.<name>` disables it. An empty line comes before git's own last line
    /// if the text ends in a line feed.
    pub(crate) fn hint(&self, config: &Config, name: &str, text: &str) -> Result<(), Fatal> {
        let set = self.advice(config, name)?;
        if set == Some(false) {
            return Ok(());
        }
        let mut lines: Vec<&str> = text.lines().collect();
        let last = format!("Disable this message with \"git config set advice.{name} false\"");
        // If the setting exists, the user knows how to disable the hint.
        if set.is_none() {
            lines.extend(text.ends_with('\n').then_some(""));
            lines.push(&last);
        }
        let is_colored = has_colors(config, "color.advice", || self.streams.errors.is_terminal())?;
        let (before, after) = if is_colored { ("\x1b[33m", "\x1b[m") } else { ("", "") };
        for line in lines {
            let space = if line.is_empty() { "" } else { " " };
            error_line!(self, "{before}hint:{space}{line}{after}");
        }
        Ok(())
    }

    /// Options for opening repositories.
    pub fn open_options(&self) -> Result<OpenOptions, Fatal> {
        self.environment.open_options(&self.globals)
    }

    /// The same; what a partial clone lacks is fetched when it is read.
    pub(crate) fn fetching_options(&self) -> Result<OpenOptions, Fatal> {
        let is_off = self.environment.lazy_fetch == Some(false);
        let fetcher = (!is_off).then(|| Arc::new(self.git_fetch()) as _);
        Ok(OpenOptions { fetcher, ..self.open_options()? })
    }

    /// The same for commands that show and name history, in which objects are replaced (git-replace).
    pub(crate) fn replacing_options(&self) -> Result<OpenOptions, Fatal> {
        let replace_refs = self.environment.history.replace_refs.clone();
        Ok(OpenOptions { replace_refs, ..self.fetching_options()? })
    }

    /// Fetches for a server, which does so only if the caller says that it may.
    pub(crate) fn server_fetcher(&self) -> Arc<dyn FetchMissing> {
        let is_off = self.environment.lazy_fetch != Some(true);
        Arc::new(GitFetch { is_off, is_server: true, ..self.git_fetch() })
    }

    fn git_fetch(&self) -> GitFetch {
        let environment = self.environment.for_hooks(&self.globals);
        GitFetch {
            git: self.git,
            environment,
            errors: self.streams.errors.clone(),
            is_off: false,
            is_server: false,
        }
    }
}
