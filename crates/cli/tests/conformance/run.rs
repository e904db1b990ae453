//! Runs one session in a directory of its own, with git alone or with packrace in its place.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use packrace_testkit::{clean_environment, scratch_dir};
use tempfile::TempDir;

use crate::left::Left;
use crate::session::Case;

/// Longer than anything a session does; ends one that waits forever.
const LIMIT_SECONDS: &str = "60";

/// The output of a run, and the state that it leaves.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub stdout: String,
    pub stderr: String,
    /// Failed commands of git, each after its exit code; last, the end of the session itself.
    pub failures: Vec<String>,
    /// Without what is the same in both runs.
    pub state: String,
}

/// A session that has run.
struct Run {
    /// The session's directory `work`, and the log of failures.
    dir: TempDir,
    stdout: String,
    stderr: String,
    failures: Vec<String>,
}

/// State shared by all runs.
pub struct Stage {
    /// The committed folder.
    folder: PathBuf,
    git: PathBuf,
    packrace: PathBuf,
    /// `GIT_EXEC_PATH` with packrace: the commands of git; those of packrace are links to a stub program.
    exec: TempDir,
}

impl Stage {
    pub fn new(folder: &Path, git: &Path) -> Stage {
        let output = Command::new(git).arg("--exec-path").output().expect("git runs");
        let theirs = PathBuf::from(String::from_utf8(output.stdout).expect("a path of UTF-8").trim_end());
        let exec = scratch_dir();
        for entry in std::fs::read_dir(theirs).expect("git's own programs") {
            let entry = entry.expect("an entry");
            let name = entry.file_name();
            let through_us = ["git", "git-upload-pack", "git-receive-pack"].iter().any(|ours| name == *ours);
            let target = if through_us { folder.join("git") } else { entry.path() };
            symlink(target, exec.path().join(name)).expect("a link");
        }
        // Another build can be tested without compiling the tests against it.
        let packrace =
            std::env::var_os("CONFORMANCE_PACKRACE").unwrap_or_else(|| env!("CARGO_BIN_EXE_packrace").into());
        Stage { folder: folder.to_path_buf(), git: git.to_path_buf(), packrace: packrace.into(), exec }
    }

    /// What comes of the session with git alone, and with packrace in its place.
    pub fn outcomes(&self, case: &Case) -> [Outcome; 2] {
        let runs = [Path::new(""), &self.packrace].map(|packrace| self.run(case, packrace));
        let left = runs.each_ref().map(|run| Left::read(run.dir.path(), case));
        let omitted = match &left {
            [Ok(alone), Ok(ours)] => alone.same_as(ours),
            _ => Some(Vec::new()),
        };
        runs.map(|run| {
            let state = omitted.as_ref().map(|omitted| self.state(case, &run, omitted)).unwrap_or_default();
            let place = run.dir.path().display().to_string();
            let masked = |text: String| text.replace(&place, "/HERE");
            Outcome {
                stdout: masked(run.stdout),
                stderr: masked(run.stderr),
                failures: run.failures.into_iter().map(masked).collect(),
                state: masked(state),
            }
        })
    }

    fn run(&self, case: &Case, packrace: &Path) -> Run {
        let dir = scratch_dir();
        std::fs::create_dir(dir.path().join("work")).expect("a directory for the session");
        let log = dir.path().join("failures");
        std::fs::write(&log, "").expect("a file beside it");
        let script = format!(". '{}'\n{}", self.folder.join("prelude.sh").display(), case.session.script);
        let (stdout, stderr, code) = self.shell(&dir, packrace, case, &["-c", &script]);
        let failures = std::fs::read_to_string(&log).expect("the log of failures");
        let mut failures: Vec<String> = failures.lines().map(str::to_owned).collect();
        failures.push(format!("{code} the session"));
        Run { dir, stdout, stderr, failures }
    }

    /// What stock git says of the state that a run has left.
    fn state(&self, case: &Case, run: &Run, omitted: &[&str]) -> String {
        let script = self.folder.join("state.sh").display().to_string();
        let shown = case.session.state.iter().map(String::as_str);
        let arguments: Vec<&str> =
            std::iter::once(script.as_str()).chain(shown).chain(omitted.iter().copied()).collect();
        let (state, problems, _) = self.shell(&run.dir, Path::new(""), case, &arguments);
        state + &problems
    }

    fn shell(
        &self,
        dir: &TempDir,
        packrace: &Path,
        case: &Case,
        arguments: &[&str],
    ) -> (String, String, i32) {
        let here = &dir.path().join("work");
        let mut command = Command::new("timeout");
        clean_environment(&mut command);
        let path = std::env::var("PATH").expect("PATH is UTF-8");
        command
            .args([LIMIT_SECONDS, "sh"])
            .args(arguments)
            .current_dir(here)
            .env("PATH", format!("{}:{path}", self.folder.display()))
            .env("HOME", here)
            .env("XDG_CONFIG_HOME", here)
            .env("GIT_CONFIG_GLOBAL", self.folder.join("gitconfig"))
            .env("GIT_CEILING_DIRECTORIES", dir.path())
            .env("GIT_DEFAULT_HASH", case.hash)
            .env("GIT_DEFAULT_REF_FORMAT", case.refs)
            .env("GIT_EDITOR", ":")
            .env("CONFORMANCE_GIT", &self.git)
            .env("CONFORMANCE_PACKRACE", packrace)
            .env("CONFORMANCE_EXEC", self.exec.path())
            .env("CONFORMANCE_LOG", dir.path().join("failures"))
            .env_remove("CONFORMANCE_INSIDE")
            .env_remove("CONFORMANCE_ONLY")
            .stdin(Stdio::null());
        let output = command.output().expect("sh runs");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (text(output.stdout), text(output.stderr), output.status.code().unwrap_or(-1))
    }
}
