//! `git fetch` for what a partial clone lacks (technical/partial-clone).

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use packrace_object::ObjectId;
use packrace_store::{FetchMissing, Promisor};

use crate::call::streams::ErrorOutput;

/// Fetches missing objects with git.
pub(crate) struct GitFetch {
    pub git: fn() -> Option<Command>,
    pub environment: Vec<(OsString, OsString)>,
    pub errors: ErrorOutput,
    /// Whether nothing is fetched, which is only said.
    pub is_off: bool,
    /// Whether git runs in the git directory, as it does as a server, and not in the work tree.
    pub is_server: bool,
}

impl fmt::Debug for GitFetch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GitFetch").field("is_off", &self.is_off).finish_non_exhaustive()
    }
}

impl FetchMissing for GitFetch {
    /// Git says itself what goes wrong.
    fn fetch(&self, from: &Promisor<'_>, ids: &[ObjectId]) -> io::Result<()> {
        if self.is_off {
            warn(&self.errors);
            return Ok(());
        }
        let Some(mut git) = (self.git)() else {
            return Err(io::Error::other("missing objects are fetched by git, which is not in PATH"));
        };
        git.args(["-c", "fetch.negotiationAlgorithm=noop", "fetch", from.remote, "--no-tags"]);
        git.args(["--no-write-fetch-head", "--recurse-submodules=no", "--filter=blob:none", "--stdin"]);
        git.args(from.is_quiet.then_some("--quiet"));
        git.current_dir(from.work_tree.filter(|_| !self.is_server).unwrap_or(from.git_dir));
        git.env("GIT_DIR", from.git_dir).envs(self.environment.iter().cloned());
        git.stdin(Stdio::piped()).stdout(Stdio::null());
        if let Some(errors) = self.errors.descriptor()? {
            git.stderr(errors);
        }
        let failed =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot run git fetch: {error}"));
        let mut git = git.spawn().map_err(failed)?;
        let list: String = ids.iter().map(|id| format!("{id}\n")).collect();
        if let Some(mut input) = git.stdin.take() {
            // If git has ended early, its objects are missing afterwards.
            let _ = input.write_all(list.as_bytes());
        }
        git.wait().map_err(failed)?;
        Ok(())
    }

    /// A client may name many objects that are nowhere.
    fn fetches_on_read(&self) -> bool {
        !self.is_off
    }
}

/// Says that nothing is fetched.
pub(crate) fn warn(errors: &ErrorOutput) {
    errors.error_line(format_args!("warning: lazy fetching disabled; some objects may not be available"));
}
