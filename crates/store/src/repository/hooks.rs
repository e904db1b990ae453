//! Finds the hooks of an opened repository.

use std::ffi::OsString;

use packrace_os::child::Confinement;

use super::Repository;
use crate::error::Error;
use crate::hooks::{Hooks, HooksFrom, MessageSink};

impl Hooks {
    /// The hooks of `repository`. `environment` is added to what they inherit.
    pub fn of(
        repository: &Repository,
        environment: Vec<(OsString, OsString)>,
        messages: MessageSink,
    ) -> Result<Self, Error> {
        let config = repository.config();
        let git_dir = repository.git_dir().to_owned();
        let (directory, named_dir) = match repository.work_tree()? {
            Some(work_tree) => (work_tree, Some(git_dir)),
            None => (git_dir, None),
        };
        let dir = match config.path("core.hooksPath") {
            // Relative to the directory where hooks run (git-config, "core.hooksPath").
            Some(path) => directory.join(path),
            None => repository.common_dir().join("hooks"),
        };
        let warns_of_ignored = config.boolean("advice.ignoredHook")?.unwrap_or(true)
            && !environment.iter().any(|(name, value)| name == "GIT_ADVICE" && value == "0");
        let environment = environment.into_iter().map(|(name, value)| (name, Some(value))).collect();
        Ok(Hooks {
            messages,
            dir: Some(dir),
            directory,
            git_dir: named_dir,
            environment,
            warns_of_ignored,
            confinement: Confinement::default(),
            is_strict: false,
        })
    }

    /// As above, for servers: their hooks run in the git directory even if there is a work tree, as in git. A
    /// hook that cannot be examined is an error: it may be meant to forbid.
    pub fn in_git_dir(
        repository: &Repository,
        from: &HooksFrom,
        environment: Vec<(OsString, OsString)>,
        messages: MessageSink,
        confinement: Confinement,
    ) -> Result<Self, Error> {
        let mut hooks = Hooks::of(repository, environment, messages)?;
        hooks.directory = repository.git_dir().to_owned();
        hooks.git_dir = None;
        hooks.confinement = confinement;
        hooks.is_strict = true;
        hooks.dir = match (from, repository.config().path("core.hooksPath")) {
            (HooksFrom::Nowhere, _) => None,
            (HooksFrom::Dir(dir), _) => Some(dir.clone()),
            (HooksFrom::Repository, Some(path)) => Some(hooks.directory.join(path)),
            (HooksFrom::Repository, None) => Some(repository.common_dir().join("hooks")),
        };
        Ok(hooks)
    }
}
