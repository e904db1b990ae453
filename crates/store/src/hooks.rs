//! Programs that the owner of a repository wants to run (githooks).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_os::child::{ChildProcess, Confinement, Program};
use packrace_os::count::Role;

use crate::error::Error;

/// The hooks of a repository and how to run them.
#[derive(Debug, Clone)]
pub struct Hooks {
    pub(crate) messages: MessageSink,
    /// `None` disables hooks.
    pub(crate) dir: Option<PathBuf>,
    /// The top of the work tree, or the bare repository itself.
    pub(crate) directory: PathBuf,
    /// `None` if hooks run in it.
    pub(crate) git_dir: Option<PathBuf>,
    pub(crate) environment: Vec<(OsString, Option<OsString>)>,
    pub(crate) warns_of_ignored: bool,
    pub(crate) confinement: Confinement,
    /// A hook that cannot be examined is an error, not an absent hook.
    pub(crate) is_strict: bool,
}

/// Which hooks run for a served repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HooksFrom {
    /// The repository's own, as in git.
    #[default]
    Repository,
    /// No hooks.
    Nowhere,
    /// Those in this directory, for all repositories.
    Dir(PathBuf),
}

/// Takes a piece of text.
type Say = dyn Fn(&[u8]) + Send + Sync;

/// Receives the output of hooks, from both streams.
#[derive(Clone)]
pub struct MessageSink(Arc<Say>);

impl MessageSink {
    /// A sink that passes each piece to `to`.
    pub fn new(to: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        MessageSink(Arc::new(to))
    }
}

impl MessageSink {
    /// Writes a piece of text.
    pub fn say(&self, text: &[u8]) {
        (self.0)(text);
    }
}

impl std::fmt::Debug for MessageSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MessageSink")
    }
}

/// How a hook ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// There is no such hook, or it is not executable.
    NotThere,
    /// With exit code 0.
    Well,
    /// With another exit code, or by a signal.
    Badly,
}

impl Hooks {
    /// A copy of the hooks with additional variables.
    pub fn with_environment(&self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut hooks = self.clone();
        hooks.environment.extend(variables.into_iter().map(|(name, value)| (name, Some(value))));
        hooks
    }

    /// The hook of this name, if it exists and is executable.
    pub fn find(&self, name: &str) -> Result<Option<PathBuf>, Error> {
        let Some(dir) = &self.dir else { return Ok(None) };
        let path = dir.join(name);
        match packrace_os::is_executable(&path, Role::Hook) {
            Ok(Some(true)) => Ok(Some(path)),
            Ok(Some(false)) => {
                if self.warns_of_ignored {
                    let shown = self.seen_by_hook(&path, name).unwrap_or_else(|_| path.clone());
                    let shown = shown.display();
                    tracing::warn!(
                        advice = %"ignoredHook",
                        "The '{shown}' hook was ignored because it's not set as executable."
                    );
                }
                Ok(None)
            }
            Ok(None) => Ok(None),
            Err(error) if self.is_strict => Err(Error::io(&path, error)),
            Err(_) => Ok(None),
        }
    }

    /// Runs a hook and waits for it to end.
    pub fn run(&self, name: &str, arguments: &[&[u8]], input: &[u8]) -> Result<Ended, Error> {
        let Some(program) = self.program(name, arguments)? else { return Ok(Ended::NotThere) };
        let child = ChildProcess::start(&program).map_err(|error| Error::io(Path::new(name), error))?;
        let status = child
            .run(input, &mut |bytes| (self.messages.0)(bytes))
            .map_err(|error| Error::io(Path::new(name), error))?;
        Ok(if status.success() { Ended::Well } else { Ended::Badly })
    }

    /// How to start a hook, if it exists; for callers that communicate with it while it runs.
    pub fn program(&self, name: &str, arguments: &[&[u8]]) -> Result<Option<Program>, Error> {
        let Some(path) = self.find(name)? else { return Ok(None) };
        let shown = self.seen_by_hook(&path, name)?;
        let git_dir = match &self.git_dir {
            Some(dir) => packrace_os::real_path(dir).map_err(|error| Error::io(dir, error))?.into_os_string(),
            None => ".".into(),
        };
        let mut environment = vec![("GIT_DIR".into(), Some(git_dir))];
        environment.extend_from_slice(&self.environment);
        let arguments = arguments.iter().map(|argument| OsStr::from_bytes(argument).to_owned());
        Ok(Some(Program {
            argv: [shown.into_os_string()].into_iter().chain(arguments).collect(),
            hook: Some(name.to_owned()),
            directory: self.directory.clone(),
            environment,
            reads_messages: true,
            confinement: self.confinement.clone(),
        }))
    }

    /// The path of a hook as it sees it (`$0`): as in git from the directory where it runs, and not resolved if it is a
    /// link itself.
    fn seen_by_hook(&self, path: &Path, name: &str) -> Result<PathBuf, Error> {
        if let Ok(below) = path.strip_prefix(&self.directory) {
            // A name without a slash would be searched for in `PATH`.
            return Ok(if below == Path::new(name) { Path::new(".").join(below) } else { below.to_owned() });
        }
        let dir = path.parent().unwrap_or(path);
        Ok(packrace_os::real_path(dir).map_err(|error| Error::io(dir, error))?.join(name))
    }
}
