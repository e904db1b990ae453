//! Maintenance that a process for one push starts afterwards (`receive.autogc`). A server has its caretaker
//! for that.

use std::ffi::OsString;
use std::path::PathBuf;

use packrace_maintenance::{MaintenanceSettings, exceeds_gc_limits};
use packrace_os::child::{Confinement, Program};
use packrace_store::Repository;

use crate::error::Error;

/// The program that maintains repositories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoMaintenance {
    /// The program and its arguments. It runs in the git directory, with `GIT_DIR=.`.
    pub argv: Vec<OsString>,
    /// Variables that it gets in addition to those of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether the client gets its standard error, as in git; otherwise it is that of this process.
    pub tells_client: bool,
}

impl AutoMaintenance {
    /// `packrace maintenance run --auto --quiet`.
    pub fn run_by(packrace: PathBuf, environment: Vec<(OsString, OsString)>) -> Self {
        let arguments = ["maintenance", "run", "--auto", "--quiet"].map(OsString::from);
        let argv = [packrace.into()].into_iter().chain(arguments).collect();
        AutoMaintenance { argv, environment, tells_client: true }
    }

    /// Starts it if a push has left more packs or loose objects than `gc.autoPackLimit` and `gc.auto` allow.
    /// It runs on its own; if `maintenance.autoDetach` is false, `run` sees it to its end.
    pub(crate) fn begin(
        &self,
        repository: &Repository,
        run: impl FnOnce(&Program) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let is_detached = match is_detached(repository) {
            Ok(Some(is_detached)) => is_detached,
            Ok(None) => return Ok(()),
            // The program says so, in its words.
            Err(_) if self.tells_client => false,
            Err(error) => return Err(failed(error)),
        };
        let environment = self.environment.iter().cloned().chain([("GIT_DIR".into(), ".".into())]);
        let program = Program {
            argv: self.argv.clone(),
            hook: None,
            directory: repository.git_dir().to_owned(),
            environment: environment.map(|(name, value)| (name, Some(value))).collect(),
            reads_messages: self.tells_client,
            confinement: Confinement::default(),
        };
        if is_detached { program.start_detached().map_err(failed) } else { run(&program) }
    }
}

/// Whether a repository is maintained on its own; `None` if it needs nothing.
fn is_detached(repository: &Repository) -> Result<Option<bool>, packrace_maintenance::Error> {
    let settings = MaintenanceSettings::of(repository)?;
    let is_due = settings.is_automatic
        && settings.follows_pushes
        && exceeds_gc_limits(repository.object_dir(), &settings)?;
    Ok(is_due.then_some(settings.is_detached))
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::caused("maintenance after a push", error)
}
