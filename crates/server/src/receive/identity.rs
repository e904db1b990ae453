//! In whose name refs change.

use std::sync::Arc;

use packrace_store::Config;

/// Makes the line for reflogs: `Name <mail> seconds zone`.
type Make = dyn Fn(&Config, Option<&Pusher>) -> Result<Vec<u8>, String> + Send + Sync;

/// Who changes refs, according to the configuration of a repository and the environment of this process.
#[derive(Clone)]
pub struct Committer(Arc<Make>);

impl Committer {
    /// As `make` says, when refs change.
    pub fn new(
        make: impl Fn(&Config, Option<&Pusher>) -> Result<Vec<u8>, String> + Send + Sync + 'static,
    ) -> Self {
        Committer(Arc::new(make))
    }

    /// The line for reflogs now.
    pub(crate) fn now(&self, config: &Config, pusher: Option<&Pusher>) -> Result<Vec<u8>, String> {
        (self.0)(config, pusher)
    }
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Committer")
    }
}

/// Who pushes, as a transport knows it (git-http-backend, "ENVIRONMENT").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pusher {
    /// Stands for `GIT_COMMITTER_NAME`, where the environment has none.
    pub name: String,
    /// Stands for `GIT_COMMITTER_EMAIL`, where the environment has none.
    pub email: String,
}
