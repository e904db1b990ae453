//! Fetches missing objects from promisor remotes, with git (technical/partial-clone).

use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_store::{Repository, Snapshot};

use crate::call::Call;
use crate::call::fatal::Fatal;

/// Fetches what a partial clone lacks.
pub(crate) struct LazyFetch<'a> {
    call: &'a Call,
    repository: &'a Repository,
    /// Names of the promisor remotes, in the order in which they are asked.
    remotes: Vec<String>,
}

impl<'a> LazyFetch<'a> {
    /// `None` if the repository has no promisor remote.
    pub(crate) fn of(call: &'a Call, repository: &'a Repository) -> Result<Option<Self>, Fatal> {
        let mut remotes = repository.config().promisor_remotes()?;
        // Such a name would be an option.
        remotes.retain(|remote| !remote.starts_with('-'));
        Ok((!remotes.is_empty()).then_some(LazyFetch { call, repository, remotes }))
    }

    /// Fetches these objects with one request to each remote, until none is missing. Gives a snapshot with all of them.
    pub(crate) fn fetch(&self, ids: &[ObjectId]) -> Result<Arc<Snapshot>, Fatal> {
        let mut missing = ids.to_vec();
        if self.call.environment.has_no_lazy_fetch {
            error_line!(self.call, "warning: lazy fetching disabled; some objects may not be available");
        } else {
            for remote in &self.remotes {
                self.fetch_from(remote, &missing)?;
                let snapshot = self.repository.snapshot()?;
                let mut left = Vec::new();
                for id in missing {
                    if !snapshot.contains(&id)? {
                        left.push(id);
                    }
                }
                if left.is_empty() {
                    return Ok(snapshot);
                }
                missing = left;
            }
        }
        Err(Fatal::new(format!("could not fetch {} from promisor remote", missing[0])))
    }

    /// The same for bases of received deltas, which stay unresolved without them.
    pub(crate) fn fetch_bases(&self, ids: &[ObjectId]) -> Option<Arc<Snapshot>> {
        self.fetch(ids).inspect_err(|error| self.call.report_error(&error.message)).ok()
    }

    /// Git says itself what goes wrong.
    fn fetch_from(&self, remote: &str, ids: &[ObjectId]) -> Result<(), Fatal> {
        let call = self.call;
        let Some(mut git) = (call.git)() else {
            return Err(Fatal::new("missing objects are fetched by git, which is not in PATH"));
        };
        git.args(["-c", "fetch.negotiationAlgorithm=noop", "fetch", remote, "--no-tags"]);
        git.args(["--no-write-fetch-head", "--recurse-submodules=no", "--filter=blob:none", "--stdin"]);
        if self.repository.config().boolean("promisor.quiet")? == Some(true) {
            git.arg("--quiet");
        }
        git.env("GIT_DIR", self.repository.git_dir()).envs(call.environment.for_hooks(&call.globals));
        git.stdin(Stdio::piped()).stdout(Stdio::null());
        if let Some(errors) = call.streams.errors.descriptor().map_err(Fatal::new)? {
            git.stderr(errors);
        }
        let failed = |error: std::io::Error| Fatal::new(format!("cannot run git fetch: {error}"));
        let mut git = git.spawn().map_err(failed)?;
        let list: String = ids.iter().map(|id| format!("{id}\n")).collect();
        if let Some(mut input) = git.stdin.take() {
            // If git has ended early, its objects are missing afterwards.
            let _ = input.write_all(list.as_bytes());
        }
        git.wait().map_err(failed)?;
        Ok(())
    }
}
