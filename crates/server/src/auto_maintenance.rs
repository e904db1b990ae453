//! Maintenance that a process for one push starts afterwards (`receive.autogc`). A server has its caretaker
//! for that.

use std::ffi::OsString;
use std::path::PathBuf;

use packrace_maintenance::{MaintenanceSettings, exceeds_gc_limits};
use packrace_os::child::{ChildProcess, Confinement, Program};
use packrace_store::Repository;

use crate::error::Error;

/// The program that maintains repositories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoMaintenance {
    /// The program and its arguments. It runs in the git directory, with `GIT_DIR=.`.
    pub argv: Vec<OsString>,
    /// Variables that it gets in addition to those of this process.
    pub environment: Vec<(OsString, OsString)>,
}

impl AutoMaintenance {
    /// `packrace maintenance run --auto --quiet`.
    pub fn run_by(packrace: PathBuf, environment: Vec<(OsString, OsString)>) -> Self {
        let arguments = ["maintenance", "run", "--auto", "--quiet"].map(OsString::from);
        AutoMaintenance { argv: [packrace.into()].into_iter().chain(arguments).collect(), environment }
    }

    /// Starts it if a push has left more packs or loose objects than `gc.autoPackLimit` and `gc.auto` allow.
    /// It runs on its own; if `maintenance.autoDetach` is false, this waits for its end.
    pub fn begin(&self, repository: &Repository) -> Result<(), Error> {
        let settings = MaintenanceSettings::of(repository).map_err(failed)?;
        if !settings.is_automatic
            || !settings.follows_pushes
            || !exceeds_gc_limits(repository.object_dir(), &settings).map_err(failed)?
        {
            return Ok(());
        }
        let environment = self.environment.iter().cloned().chain([("GIT_DIR".into(), ".".into())]);
        let program = Program {
            argv: self.argv.clone(),
            hook: None,
            directory: repository.git_dir().to_owned(),
            environment: environment.map(|(name, value)| (name, Some(value))).collect(),
            reads_messages: false,
            confinement: Confinement::default(),
        };
        let done = match settings.is_detached {
            true => program.start_detached(),
            // The program reports failures on standard error.
            false => ChildProcess::start(&program).and_then(|child| child.run(&[], &mut |_| {})).map(drop),
        };
        done.map_err(failed)
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::caused("maintenance after a push", error)
}
