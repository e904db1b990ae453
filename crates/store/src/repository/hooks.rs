//! Finds the hooks of an opened repository.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use packrace_os::child::Confinement;

use super::Repository;
use crate::config::{Config, parse_boolean, parse_small_integer};
use crate::error::{Error, Reason};
use crate::hooks::{ConfiguredHook, Hooks, HooksFrom, MessageSink};

/// All events (githooks). No configured hook has such a name: `hook.<name>.enabled` would be ambiguous.
const EVENTS: [&str; 28] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// Where a repository is, and its work tree, if there is one.
pub(crate) struct HookPlace<'a> {
    pub(crate) git_dir: &'a Path,
    pub(crate) common_dir: &'a Path,
    pub(crate) work_tree: Option<PathBuf>,
    pub(crate) has_own_work_tree: bool,
}

impl Hooks {
    /// The hooks of `repository`. `environment` is added to what they inherit.
    pub fn of(
        repository: &Repository,
        environment: Vec<(OsString, OsString)>,
        messages: MessageSink,
    ) -> Result<Self, Error> {
        Hooks::found(repository, &HooksFrom::Repository, environment, messages)
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
        let mut hooks = Hooks::found(repository, from, environment, messages)?;
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

    fn found(
        repository: &Repository,
        from: &HooksFrom,
        environment: Vec<(OsString, OsString)>,
        messages: MessageSink,
    ) -> Result<Self, Error> {
        let place = HookPlace {
            git_dir: repository.git_dir(),
            common_dir: repository.common_dir(),
            work_tree: repository.work_tree()?,
            has_own_work_tree: repository.own_work_tree().is_some(),
        };
        Hooks::at(place, repository.config(), from, environment, messages)
    }

    /// The hooks of what is, or becomes, a repository.
    pub(crate) fn at(
        place: HookPlace<'_>,
        config: &Config,
        from: &HooksFrom,
        environment: Vec<(OsString, OsString)>,
        messages: MessageSink,
    ) -> Result<Self, Error> {
        config.need_values(&["core.hooksPath"])?;
        let git_dir = place.git_dir.to_owned();
        let (directory, named_dir) = match place.work_tree {
            Some(work_tree) => (work_tree, Some(git_dir)),
            None => (git_dir, None),
        };
        let dir = match config.path("core.hooksPath") {
            // Relative to the directory where hooks run (git-config, "core.hooksPath").
            Some(path) => directory.join(path),
            None => place.common_dir.join("hooks"),
        };
        let warns_of_ignored = config.boolean("advice.ignoredHook")?.unwrap_or(true)
            && !environment.iter().any(|(name, value)| name == "GIT_ADVICE" && value == "0");
        let environment = environment.into_iter().map(|(name, value)| (name, Some(value))).collect();
        Ok(Hooks {
            messages,
            dir: Some(dir),
            configured: configured(config, from)?,
            directory,
            git_dir: named_dir,
            is_repository_found: false,
            has_own_work_tree: place.has_own_work_tree,
            called_in: None,
            environment,
            warns_of_ignored,
            confinement: Confinement::default(),
            is_strict: false,
        })
    }
}

/// The commands that configuration sets for events, in the order in which they run.
fn configured(config: &Config, from: &HooksFrom) -> Result<Vec<ConfiguredHook>, Error> {
    let counts = |scope: &str| match from {
        HooksFrom::Repository => true,
        HooksFrom::Nowhere => false,
        // A repository chooses no program of its own.
        HooksFrom::Dir(_) => !matches!(scope, "local" | "worktree"),
    };
    let mut settings = HookSettings::default();
    for (_, full_name, value) in config.entries_by_scope().filter(|(scope, ..)| counts(scope)) {
        let Some(rest) = full_name.strip_prefix(b"hook.") else { continue };
        if let (b"jobs", Some(value)) = (rest, value) {
            warn_of_jobs(full_name, value);
        }
        let Some(dot) = rest.iter().rposition(|byte| *byte == b'.') else { continue };
        let Some(value) = value else {
            let shown = String::from_utf8_lossy(full_name);
            config.need_values(&[&*shown])?;
            return Err(Reason::Config(format!("missing value for '{shown}'")).into());
        };
        settings.take(&rest[..dot], &rest[dot + 1..], value)?;
    }
    settings.hooks()
}

/// Settings of configured hooks (git-config, "hook").
#[derive(Default)]
struct HookSettings<'a> {
    /// Events and names. A later setting of the same two replaces an earlier one.
    events: Vec<(&'a [u8], &'a [u8])>,
    /// By name.
    commands: HashMap<&'a [u8], &'a [u8]>,
    /// Names and events.
    disabled: HashSet<&'a [u8]>,
}

impl<'a> HookSettings<'a> {
    fn take(&mut self, name: &'a [u8], key: &[u8], value: &'a [u8]) -> Result<(), Error> {
        match key {
            b"event" if value.is_empty() => self.events.retain(|(_, of)| *of != name),
            b"event" => {
                check_name(name, value)?;
                self.events.retain(|pair| *pair != (value, name));
                self.events.push((value, name));
            }
            b"command" => {
                self.commands.insert(name, value);
            }
            // As in git, what is no boolean changes nothing.
            b"enabled" => match parse_boolean(value) {
                Some(true) => {
                    self.disabled.remove(&name);
                }
                Some(false) => {
                    self.disabled.insert(name);
                }
                None => {}
            },
            b"jobs" => warn_of_jobs(&[b"hook.", name, b".jobs"].concat(), value),
            b"parallel" if parse_boolean(value).is_none() => {
                let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
                tracing::warn!("hook.{name}.parallel must be a boolean, ignoring: '{value}'");
            }
            _ => {}
        }
        Ok(())
    }

    fn hooks(&self) -> Result<Vec<ConfiguredHook>, Error> {
        let mut hooks = Vec::new();
        for (event, name) in &self.events {
            let shown = String::from_utf8_lossy(name);
            let is_enabled = !self.disabled.contains(name);
            match self.commands.get(name) {
                Some(command) if is_enabled && !self.disabled.contains(event) => {
                    hooks.push(ConfiguredHook { event: event.to_vec(), command: command.to_vec() });
                }
                Some(_) => {}
                None if is_enabled => {
                    let why = format!(
                        "'hook.{shown}.command' must be configured or 'hook.{shown}.event' must be removed; aborting."
                    );
                    return Err(Reason::Config(why).into());
                }
                None => tracing::warn!("disabled hook '{shown}' has no command configured"),
            }
        }
        Ok(hooks)
    }
}

/// Hooks run one after the other; a wrong number of jobs is reported as git does.
fn warn_of_jobs(full_name: &[u8], value: &[u8]) {
    let (name, shown) = (String::from_utf8_lossy(full_name), String::from_utf8_lossy(value));
    match parse_small_integer(value) {
        Some(-1 | 1..) => {}
        Some(_) => tracing::warn!("{name} must be a positive integer or -1, ignoring: '{shown}'"),
        None => tracing::warn!("{name} must be an integer, ignoring: '{shown}'"),
    }
}

fn check_name(name: &[u8], event: &[u8]) -> Result<(), Error> {
    let shown = String::from_utf8_lossy(name);
    if EVENTS.iter().any(|known| known.as_bytes() == name) {
        let why = format!(
            "hook friendly-name '{shown}' collides with a known event name; please choose a different friendly-name"
        );
        return Err(Reason::Config(why).into());
    }
    if name == event {
        tracing::warn!(
            "hook friendly-name '{shown}' is the same as its event; this may cause ambiguity with hook.{shown}.enabled"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings of hooks as `name.key=value`, and what runs, as `event: command`.
    fn check(settings: &[&str], expect: Result<&[&str], &str>) {
        let mut read = HookSettings::default();
        let taken = settings.iter().try_for_each(|setting| {
            let (full, value) = setting.split_once('=').unwrap();
            let (name, key) = full.rsplit_once('.').unwrap();
            read.take(name.as_bytes(), key.as_bytes(), value.as_bytes())
        });
        let found = taken.and_then(|()| read.hooks()).map_err(|error| error.to_string());
        let shown = |hook: &ConfiguredHook| {
            format!("{}: {}", String::from_utf8_lossy(&hook.event), String::from_utf8_lossy(&hook.command))
        };
        let found = found.map(|hooks| hooks.iter().map(shown).collect::<Vec<_>>());
        let expect = expect.map(|all| all.iter().map(|one| one.to_string()).collect::<Vec<_>>());
        assert_eq!(found, expect.map_err(str::to_owned), "{settings:?}");
    }

    #[test]
    fn settings_of_hooks() {
        const MISSING: &str =
            "'hook.a.command' must be configured or 'hook.a.event' must be removed; aborting.";
        check(&[], Ok(&[]));
        check(&["a.event=update", "a.command=x"], Ok(&["update: x"]));
        check(&["a.command=x", "a.event=update", "a.command=y"], Ok(&["update: y"]));
        check(
            &["a.event=update", "a.event=pre-receive", "a.command=x"],
            Ok(&["update: x", "pre-receive: x"]),
        );
        check(&["a.event=update", "a.event=", "a.event=x", "a.command=x"], Ok(&["x: x"]));
        let both = ["a.event=update", "a.command=x", "b.event=update", "b.command=y", "a.event=update"];
        check(&both, Ok(&["update: y", "update: x"]));
        check(&["a.event=update"], Err(MISSING));
        check(&["a.event=update", "update.enabled=no"], Err(MISSING));
        check(&["a.event=update", "a.enabled=no"], Ok(&[]));
        check(&["a.event=update", "a.command=x", "a.enabled=no"], Ok(&[]));
        check(&["a.event=update", "a.command=x", "a.enabled=no", "a.enabled=1"], Ok(&["update: x"]));
        check(&["a.event=update", "a.command=x", "a.enabled=no", "a.enabled=bad"], Ok(&[]));
        check(&["a.event=update", "a.command=x", "update.enabled=no"], Ok(&[]));
        check(&["a.b.event=update", "a.b.command="], Ok(&["update: "]));
        // Wrong numbers of jobs are only reported.
        check(
            &["update.jobs=0", "a.jobs=x", "a.parallel=bad", "a.event=update", "a.command=x"],
            Ok(&["update: x"]),
        );
        let collides = "hook friendly-name 'update' collides with a known event name; please choose a different \
                        friendly-name";
        check(&["update.event=x", "update.command=x"], Err(collides));
    }
}
