//! Programs that the owner of a repository wants to run (githooks): for an event, commands of the configuration in its
//! order, then the file in the hooks directory (git-hook).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_os::child::{self, ChildProcess, Confinement, Program};
use packrace_os::count::Role;

use crate::error::Error;

/// Characters for which git runs a command in a shell (observed).
const SHELL_CHARACTERS: &[u8] = b"|&;<>()$`\\\"' \t\n*?[#~=%";

/// How a shell is started.
const SHELL: [&str; 2] = ["/bin/sh", "-c"];

/// The hooks of a repository and how to run them.
#[derive(Debug, Clone)]
pub struct Hooks {
    pub(crate) messages: MessageSink,
    /// `None` disables hooks in a directory.
    pub(crate) dir: Option<PathBuf>,
    /// In the order in which they run.
    pub(crate) configured: Vec<ConfiguredHook>,
    /// The top of the work tree, or the bare repository itself.
    pub(crate) directory: PathBuf,
    /// `None` if hooks run in it.
    pub(crate) git_dir: Option<PathBuf>,
    /// Nobody named the repository.
    pub(crate) is_repository_found: bool,
    /// The repository says where its work tree is.
    pub(crate) has_own_work_tree: bool,
    /// Where the command was called.
    pub(crate) called_in: Option<PathBuf>,
    pub(crate) environment: Vec<(OsString, Option<OsString>)>,
    pub(crate) warns_of_ignored: bool,
    pub(crate) confinement: Confinement,
    /// A hook that cannot be examined is an error, not an absent hook.
    pub(crate) is_strict: bool,
}

/// A command that the configuration sets for an event (git-config, "hook").
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfiguredHook {
    pub(crate) event: Vec<u8>,
    pub(crate) command: Vec<u8>,
}

/// Which hooks run for a served repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HooksFrom {
    /// The repository's own, and those of the configuration, as in git.
    #[default]
    Repository,
    /// No hooks.
    Nowhere,
    /// Those in this directory, and those of the server's own configuration, for all repositories.
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

/// How the hooks of an event ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// There is no such hook, or it is not executable.
    NotThere,
    /// All with exit code 0.
    Well,
    /// One with another exit code, or by a signal.
    Badly,
}

impl Hooks {
    /// A copy of the hooks with additional variables.
    pub fn with_environment(&self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut hooks = self.clone();
        hooks.environment.extend(variables.into_iter().map(|(name, value)| (name, Some(value))));
        hooks
    }

    /// The same for a repository that nobody named: as in git, hooks get no `GIT_DIR` if they find the git directory
    /// where they run, so that `git -C` in a hook reaches another repository.
    pub fn of_found_repository(self) -> Self {
        Hooks { is_repository_found: true, ..self }
    }

    /// The same of a command that was called in this directory, which hooks get as `GIT_PREFIX`.
    pub fn called_in(self, directory: PathBuf) -> Self {
        Hooks { called_in: Some(directory), ..self }
    }

    /// The name of a hook as git shows it: the path of a file, or a configured command.
    pub fn shown(program: &Program) -> &OsStr {
        match program.argv.as_slice() {
            [shell, flag, _, command, ..] if shell == SHELL[0] && flag == SHELL[1] => command,
            [name, ..] => name,
            [] => OsStr::new(""),
        }
    }

    /// Whether git's name for a program is the path of a file, and not a command, or a name to search for.
    pub fn is_file(program: &Program) -> bool {
        let shown = Hooks::shown(program);
        shown.as_bytes().contains(&b'/') && program.argv.first().is_some_and(|name| name == shown)
    }

    /// What git says of a hook that cannot be started, and as what; whoever reads it calls the hook `shown`.
    pub fn not_started(program: &Program, shown: &str, error: &std::io::Error) -> (&'static str, String) {
        let reason = packrace_os::reason(error);
        match Hooks::is_file(program) {
            true => ("fatal", format!("cannot exec '{shown}': {reason}")),
            false => ("error", format!("cannot run {shown}: {reason}")),
        }
    }

    /// Whether something runs for an event.
    pub fn is_any(&self, event: &str) -> Result<bool, Error> {
        Ok(self.configured_for(event).next().is_some() || self.find(event)?.is_some())
    }

    /// Runs the hooks of an event, one after the other. All run even if one fails, but one that cannot be started ends
    /// them badly, as in git; its messages say why.
    pub fn run(&self, event: &str, arguments: &[&[u8]], input: &[u8]) -> Result<Ended, Error> {
        let mut ended = Ended::NotThere;
        for program in self.programs(event, arguments)? {
            let shown = Hooks::shown(&program).to_string_lossy();
            // Clients of a server learn no path of it.
            let shown = if self.is_strict && shown.starts_with('/') { event.into() } else { shown };
            let child = match ChildProcess::start(&program) {
                Ok(child) => child,
                Err(error) => {
                    let (kind, text) = Hooks::not_started(&program, &shown, &error);
                    self.report(kind, &text);
                    return Ok(Ended::Badly);
                }
            };
            let status = child
                .run(input, &mut |bytes| (self.messages.0)(bytes))
                .map_err(|error| Error::io(Path::new(event), error))?;
            if let Some(signal) = child::fatal_signal(status) {
                self.report("error", &format!("{shown} died of signal {signal}"));
            }
            match ended {
                _ if !status.success() => ended = Ended::Badly,
                Ended::NotThere => ended = Ended::Well,
                Ended::Well | Ended::Badly => {}
            }
        }
        Ok(ended)
    }

    /// How to start the hooks of an event, in order.
    pub fn programs(&self, event: &str, arguments: &[&[u8]]) -> Result<Vec<Program>, Error> {
        let start = |hook: &ConfiguredHook| {
            self.started_with(event, command_line(&hook.command, !arguments.is_empty()), arguments)
        };
        let mut programs = self.configured_for(event).map(start).collect::<Result<Vec<Program>, Error>>()?;
        programs.extend(self.program(event, arguments)?);
        Ok(programs)
    }

    /// How to start the hook in the hooks directory, if it exists; for `proc-receive`, for which git ignores the
    /// configuration.
    pub fn program(&self, name: &str, arguments: &[&[u8]]) -> Result<Option<Program>, Error> {
        let Some(path) = self.find(name)? else { return Ok(None) };
        let shown = self.seen_by_hook(&path, name)?;
        self.started_with(name, vec![shown.into_os_string()], arguments).map(Some)
    }

    fn report(&self, kind: &str, text: &str) {
        self.messages.say(format!("{kind}: {text}\n").as_bytes());
    }

    fn started_with(
        &self,
        event: &str,
        mut argv: Vec<OsString>,
        arguments: &[&[u8]],
    ) -> Result<Program, Error> {
        let mut environment = vec![("GIT_DIR".into(), self.git_dir_variable()?)];
        environment.extend_from_slice(&self.environment);
        if let Some(called_in) = &self.called_in {
            environment.push(("GIT_PREFIX".into(), Some(self.prefix(called_in).unwrap_or_default())));
        }
        argv.extend(arguments.iter().map(|argument| OsStr::from_bytes(argument).to_owned()));
        Ok(Program {
            argv,
            hook: Some(event.to_owned()),
            directory: self.directory.clone(),
            environment,
            reads_messages: true,
            confinement: self.confinement.clone(),
        })
    }

    /// `GIT_DIR`; `None` if git in a hook finds the same one.
    fn git_dir_variable(&self) -> Result<Option<OsString>, Error> {
        let Some(dir) = &self.git_dir else { return Ok(Some(".".into())) };
        let real = |path: &Path| packrace_os::real_path(path).map_err(|error| Error::io(path, error));
        let git_dir = real(dir)?;
        let is_found = self.is_repository_found && real(&self.directory)?.join(".git") == git_dir;
        Ok((!is_found).then(|| git_dir.into_os_string()))
    }

    /// A directory below the top of the work tree, with a slash at its end; as in git, the git directory is not below it
    /// unless somebody says where the one or the other is.
    fn prefix(&self, directory: &Path) -> Option<OsString> {
        let real = |path: &Path| packrace_os::real_path(path).ok();
        let (git_dir, directory) = (real(self.git_dir.as_deref()?)?, real(directory)?);
        if self.is_repository_found && !self.has_own_work_tree && directory.starts_with(git_dir) {
            return None;
        }
        let top = real(&self.directory)?;
        let mut prefix = directory.strip_prefix(top).ok()?.as_os_str().to_owned();
        if !prefix.is_empty() {
            prefix.push("/");
        }
        Some(prefix)
    }

    fn configured_for<'a>(&'a self, event: &'a str) -> impl Iterator<Item = &'a ConfiguredHook> {
        self.configured.iter().filter(move |hook| hook.event == event.as_bytes())
    }

    /// The hook of this name in the hooks directory, if it exists and is executable.
    fn find(&self, name: &str) -> Result<Option<PathBuf>, Error> {
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

/// What starts a configured command, before its arguments: a shell only if git would need one.
fn command_line(command: &[u8], has_arguments: bool) -> Vec<OsString> {
    let text = OsString::from_vec(command.to_vec());
    if !command.iter().any(|byte| SHELL_CHARACTERS.contains(byte)) {
        return vec![text];
    }
    let arguments: &[u8] = if has_arguments { b" \"$@\"" } else { b"" };
    let script = OsString::from_vec([command, arguments].concat());
    SHELL.iter().map(OsString::from).chain([script, text]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let check = |command: &str, has_arguments, expect: &[&str]| {
            assert_eq!(command_line(command.as_bytes(), has_arguments), expect, "{command}");
        };
        check("a", true, &["a"]);
        check("./a/b-c{}", true, &["./a/b-c{}"]);
        check("", true, &[""]);
        check("a b", true, &["/bin/sh", "-c", "a b \"$@\"", "a b"]);
        check("a b", false, &["/bin/sh", "-c", "a b", "a b"]);
        check("~/a", false, &["/bin/sh", "-c", "~/a", "~/a"]);
    }
}
