//! The committer in the reflogs of a push.

use std::sync::Arc;

use packrace_store::Config;

/// Makes the line for reflogs: `Name <mail> seconds zone`.
type Make = dyn Fn(&Config, Option<&Pusher>) -> Result<Vec<u8>, String> + Send + Sync;

/// The committer, according to the configuration of a repository and the environment of this process.
#[derive(Clone)]
pub struct Committer(Arc<Make>);

impl Committer {
    /// A committer that `make` determines when refs change.
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

/// The user who pushes, as a transport knows it (git-http-backend, "ENVIRONMENT").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pusher {
    /// Used as `GIT_COMMITTER_NAME`, if the environment has none.
    pub name: String,
    /// Used as `GIT_COMMITTER_EMAIL`, if the environment has none.
    pub email: String,
}
