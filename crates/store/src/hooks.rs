//! Programs that the owner of a repository wants to be run (githooks).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_os::child::{ChildProcess, Confinement, Program};
use packrace_os::count::Role;

use crate::error::Error;

/// The hooks of a repository, and what they are run with.
#[derive(Debug, Clone)]
pub struct Hooks {
    pub(crate) outlet: MessageSink,
    /// None where no hooks are run.
    pub(crate) dir: Option<PathBuf>,
    /// The top of the work tree, or a bare repository itself.
    pub(crate) directory: PathBuf,
    /// Where it is not the directory that hooks are run in.
    pub(crate) git_dir: Option<PathBuf>,
    pub(crate) environment: Vec<(OsString, Option<OsString>)>,
    pub(crate) warns_of_ignored: bool,
    pub(crate) confinement: Confinement,
    /// One that cannot be looked at is an error, and not none.
    pub(crate) is_strict: bool,
}

/// Which hooks of a served repository are run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HooksFrom {
    /// Its own, as in git.
    #[default]
    Repository,
    /// None.
    Nowhere,
    /// Those in this folder, which is the same for all repositories.
    Dir(PathBuf),
}

/// Takes what somebody says, piece by piece.
type Say = dyn Fn(&[u8]) + Send + Sync;

/// Where goes what hooks say, on either output.
#[derive(Clone)]
pub struct MessageSink(Arc<Say>);

impl MessageSink {
    /// There.
    pub fn new(to: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        MessageSink(Arc::new(to))
    }
}

impl MessageSink {
    /// Says something.
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
    /// There is none, or it is switched off because it cannot be run.
    NotThere,
    /// With exit code 0.
    Well,
    /// In any other way.
    Badly,
}

impl Hooks {
    /// The program of this name, if there is one that can be run.
    pub fn find(&self, name: &str) -> Result<Option<PathBuf>, Error> {
        let Some(dir) = &self.dir else { return Ok(None) };
        let path = dir.join(name);
        match packrace_os::is_executable(&path, Role::Hook) {
            Ok(Some(true)) => Ok(Some(path)),
            Ok(Some(false)) => {
                if self.warns_of_ignored {
                    let shown = path.display();
                    tracing::warn!("the '{shown}' hook was ignored because it's not set as executable");
                }
                Ok(None)
            }
            Ok(None) => Ok(None),
            Err(error) if self.is_strict => Err(Error::io(&path, error)),
            Err(_) => Ok(None),
        }
    }

    /// Runs a hook to its end.
    pub fn run(&self, name: &str, arguments: &[&[u8]], input: &[u8]) -> Result<Ended, Error> {
        let Some(program) = self.program(name, arguments)? else { return Ok(Ended::NotThere) };
        let child = ChildProcess::start(&program).map_err(|error| Error::io(Path::new(name), error))?;
        let status = child
            .run(input, &mut |bytes| (self.outlet.0)(bytes))
            .map_err(|error| Error::io(Path::new(name), error))?;
        Ok(if status.success() { Ended::Well } else { Ended::Badly })
    }

    /// How a hook is started, if it is there, for those who talk with it while it runs.
    pub fn program(&self, name: &str, arguments: &[&[u8]]) -> Result<Option<Program>, Error> {
        let Some(path) = self.find(name)? else { return Ok(None) };
        let absolute = packrace_os::real_path(&path).map_err(|error| Error::io(&path, error))?;
        let git_dir = match &self.git_dir {
            Some(dir) => packrace_os::real_path(dir).map_err(|error| Error::io(dir, error))?.into_os_string(),
            None => ".".into(),
        };
        let mut environment = vec![("GIT_DIR".into(), Some(git_dir))];
        environment.extend_from_slice(&self.environment);
        let arguments = arguments.iter().map(|argument| OsStr::from_bytes(argument).to_owned());
        Ok(Some(Program {
            argv: [absolute.into_os_string()].into_iter().chain(arguments).collect(),
            directory: self.directory.clone(),
            environment,
            reads_messages: true,
            confinement: self.confinement.clone(),
        }))
    }
}
