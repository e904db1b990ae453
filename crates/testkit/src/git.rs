use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// Where a second git may be installed besides the one in `PATH`.
const OTHER_PLACES: [&str; 4] =
    ["/usr/bin/git", "/usr/local/bin/git", "/opt/git/bin/git", "/opt/homebrew/bin/git"];

/// A stock git: a binary and the version it reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Git {
    binary: PathBuf,
    version: (u32, u32),
}

impl Git {
    /// The first git in `PATH`.
    pub fn stock() -> &'static Git {
        static STOCK: OnceLock<Git> = OnceLock::new();
        STOCK.get_or_init(|| {
            // An absolute path: a git that starts another puts its own directory first in PATH.
            let path = std::env::var_os("PATH").unwrap_or_default();
            let mut candidates = std::env::split_paths(&path).map(|dir| dir.join("git"));
            candidates.find_map(|binary| Git::at(&binary)).expect("stock git is needed in PATH")
        })
    }

    /// An older git in one of the usual places, if there is one.
    pub fn old() -> Option<&'static Git> {
        static OLD: OnceLock<Option<Git>> = OnceLock::new();
        OLD.get_or_init(|| {
            let candidates = OTHER_PLACES.iter().filter_map(|place| Git::at(Path::new(place)));
            candidates.min_by_key(|git| git.version).filter(|git| git.version < Git::stock().version)
        })
        .as_ref()
    }

    /// The git at `binary`, if it runs and reports its version.
    pub fn at(binary: &Path) -> Option<Git> {
        let output = Command::new(binary).arg("version").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let mut numbers = text.trim().strip_prefix("git version ")?.split(['.', ' ']);
        let version = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        Some(Git { binary: binary.to_path_buf(), version })
    }

    /// The binary.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Whether it supports the reftable format (2.45).
    pub fn has_reftable(&self) -> bool {
        self.version >= (2, 45)
    }

    /// A command that runs in `dir` without Git settings of the machine, the user or this process, with a
    /// fixed identity, date, language and time zone.
    pub fn command(&self, dir: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        clean_environment(&mut command);
        command.current_dir(dir);
        command
    }

    /// [`Git::command`] with arguments. It is kept from starting more processes that find nothing to do.
    pub fn command_with(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = self.command(dir);
        match args.first() {
            Some(&"fsck") if !has_derived_files(dir) => {
                command.args(["-c", "core.commitGraph=false", "-c", "core.multiPackIndex=false"]);
            }
            // Not those that start programs of others, which would inherit it: `push`, say.
            Some(&("commit" | "fetch" | "merge")) => {
                command.args(["-c", "maintenance.auto=false"]);
            }
            _ => {}
        }
        command.args(args);
        command
    }

    /// Runs git, which must succeed, and returns its output; panics with all its output otherwise.
    pub fn run(&self, dir: &Path, args: &[&str]) -> String {
        let bytes = self.run_with_input(dir, args, b"");
        String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
    }

    /// As [`Git::run`], with `input` on standard input; returns bytes.
    pub fn run_with_input(&self, dir: &Path, args: &[&str], input: &[u8]) -> Vec<u8> {
        let output = output_of(&mut self.command_with(dir, args), input);
        assert!(
            output.status.success(),
            "git {args:?} in {dir:?}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }
}

/// Whether a repository may have a commit-graph or a multi-pack-index, of its own or borrowed.
fn has_derived_files(dir: &Path) -> bool {
    let objects =
        [dir.join(".git/objects"), dir.join("objects")].into_iter().find(|objects| objects.is_dir());
    objects.is_none_or(|objects| {
        let names = [
            "info/commit-graph",
            "info/commit-graphs",
            "info/alternates",
            "pack/multi-pack-index",
            "pack/multi-pack-index.d",
        ];
        names.iter().any(|name| objects.join(name).exists())
    })
}

/// Removes every `GIT_*` variable from the command's environment and sets the fixed ones.
pub fn clean_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"GIT_") {
            command.env_remove(name);
        }
    }
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_AUTHOR_NAME", "A U Thor")
        .env("GIT_AUTHOR_EMAIL", "author@example.com")
        .env("GIT_AUTHOR_DATE", "1112912053 -0700")
        .env("GIT_COMMITTER_NAME", "C O Mitter")
        .env("GIT_COMMITTER_EMAIL", "committer@example.com")
        .env("GIT_COMMITTER_DATE", "1112912053 -0700")
        .env("HOME", "/nonexistent")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("no_proxy", "*");
    for proxy in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
}

/// Runs `command` with `input` on standard input, which another thread writes so that neither side can block.
pub(crate) fn output_of(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let mut stdin = child.stdin.take().expect("piped");
    if input.is_empty() {
        drop(stdin);
        return child.wait_with_output().expect("a child can be waited for");
    }
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A child that does not read all its input closes the pipe; its exit status tells whether that is
            // correct.
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().expect("a child can be waited for")
    })
}

/// Messages of an older git in the words of 2.55, which are ours.
pub fn in_newest_words(messages: &str) -> String {
    messages.replace(
        "running in this repository, e.g.\nan editor opened by 'git commit'. Please make sure all processes\nare terminated \
         then try again. If it still fails, a git process\nmay have crashed in this repository earlier:\nremove the file \
         manually to continue.",
        "running in this repository, or the lock file may be stale",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_git_runs_without_the_users_configuration() {
        let dir = crate::scratch_dir();
        assert!(Git::stock().version() >= (2, 30));
        assert_eq!(Git::stock().run(dir.path(), &["config", "--list"]), "");
        assert!(Git::stock().run(dir.path(), &["var", "GIT_AUTHOR_IDENT"]).starts_with("A U Thor <author@"));
    }

    #[test]
    fn an_old_git_is_older() {
        if let Some(old) = Git::old() {
            assert!(old.version() < Git::stock().version());
        }
        assert_eq!(Git::at(Path::new("/nonexistent/git")), None);
    }
}
