//! Runs one session in a directory of its own, with git alone or with packrace in its place.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use packrace_testkit::{clean_environment, scratch_dir};
use tempfile::TempDir;

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
    pub state: String,
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

    pub fn run_alone(&self, case: &Case) -> Outcome {
        self.run(case, Path::new(""))
    }

    pub fn run_with_packrace(&self, case: &Case) -> Outcome {
        self.run(case, &self.packrace)
    }

    fn run(&self, case: &Case, packrace: &Path) -> Outcome {
        let dir = scratch_dir();
        let here = dir.path().join("work");
        std::fs::create_dir(&here).expect("a directory for the session");
        let log = dir.path().join("failures");
        std::fs::write(&log, "").expect("a file beside it");
        let script = format!(". '{}'\n{}", self.folder.join("prelude.sh").display(), case.session.script);
        let (stdout, stderr, code) = self.shell(&here, &log, packrace, case, &["-c", &script]);
        let state = self.folder.join("state.sh").display().to_string();
        let arguments: Vec<&str> =
            std::iter::once(state.as_str()).chain(case.session.state.iter().map(String::as_str)).collect();
        let (state, problems, _) = self.shell(&here, &log, Path::new(""), case, &arguments);
        let failures = std::fs::read_to_string(&log).expect("the log of failures");
        let mut failures: Vec<String> = failures.lines().map(str::to_owned).collect();
        failures.push(format!("{code} the session"));
        let place = dir.path().display().to_string();
        let masked = |text: String| text.replace(&place, "/HERE");
        Outcome {
            stdout: masked(stdout),
            stderr: masked(stderr),
            failures: failures.into_iter().map(masked).collect(),
            state: masked(state + &problems),
        }
    }

    fn shell(
        &self,
        here: &Path,
        log: &Path,
        packrace: &Path,
        case: &Case,
        arguments: &[&str],
    ) -> (String, String, i32) {
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
            .env("GIT_CEILING_DIRECTORIES", here.parent().expect("it has one"))
            .env("GIT_DEFAULT_HASH", case.hash)
            .env("GIT_DEFAULT_REF_FORMAT", case.refs)
            .env("GIT_EDITOR", ":")
            .env("CONFORMANCE_GIT", &self.git)
            .env("CONFORMANCE_PACKRACE", packrace)
            .env("CONFORMANCE_EXEC", self.exec.path())
            .env("CONFORMANCE_LOG", log)
            .env_remove("CONFORMANCE_INSIDE")
            .env_remove("CONFORMANCE_ONLY")
            .stdin(Stdio::null());
        let output = command.output().expect("sh runs");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (text(output.stdout), text(output.stderr), output.status.code().unwrap_or(-1))
    }
}
