//! Objects that a partial clone lacks are fetched when they are needed (technical/partial-clone).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use packrace_object::ObjectId;

use crate::config::Config;
use crate::error::{Error, ErrorKind};

/// Fetches objects for partial clones.
pub trait FetchMissing: fmt::Debug + Send + Sync {
    /// Fetches these objects into the repository. What the remote does not have stays missing: that is no error.
    fn fetch(&self, from: &Promisor<'_>, ids: &[ObjectId]) -> io::Result<()>;

    /// Whether an object is also fetched when a reader misses it, and not only by
    /// [`Snapshot::fetch_missing`](crate::Snapshot::fetch_missing).
    fn fetches_on_read(&self) -> bool {
        true
    }
}

/// A promisor remote of a repository.
#[derive(Debug, Clone, Copy)]
pub struct Promisor<'a> {
    /// The repository that lacks the objects.
    pub git_dir: &'a Path,
    /// The top of its work tree, if there is one: there git runs, and relative URLs begin.
    pub work_tree: Option<&'a Path>,
    /// The name of the remote.
    pub remote: &'a str,
    /// Whether no progress is shown (`promisor.quiet`).
    pub is_quiet: bool,
}

/// The promisor remotes of a repository, in the order in which they are asked.
#[derive(Debug)]
pub(crate) struct Promisors {
    fetcher: Arc<dyn FetchMissing>,
    git_dir: PathBuf,
    work_tree: Option<PathBuf>,
    pub(crate) remotes: Vec<String>,
    is_quiet: bool,
    /// One fetch at a time: others may need the same objects.
    fetching: Mutex<()>,
}

impl Promisors {
    /// `None` if there is none.
    pub(crate) fn of(
        config: &Config,
        git_dir: &Path,
        work_tree: impl FnOnce() -> Result<Option<PathBuf>, Error>,
        fetcher: &Arc<dyn FetchMissing>,
    ) -> Result<Option<Arc<Self>>, Error> {
        let mut remotes = config.promisor_remotes()?;
        // Such a name would be an option.
        remotes.retain(|remote| !remote.starts_with('-'));
        if remotes.is_empty() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Promisors {
            fetcher: fetcher.clone(),
            git_dir: git_dir.to_owned(),
            work_tree: work_tree()?,
            remotes,
            is_quiet: config.boolean("promisor.quiet")? == Some(true),
            fetching: Mutex::default(),
        })))
    }

    pub(crate) fn fetches_on_read(&self) -> bool {
        self.fetcher.fetches_on_read()
    }

    pub(crate) fn begin(&self) -> MutexGuard<'_, ()> {
        self.fetching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fetch_from(&self, remote: &str, ids: &[ObjectId]) -> Result<(), Error> {
        let from = Promisor {
            git_dir: &self.git_dir,
            work_tree: self.work_tree.as_deref(),
            remote,
            is_quiet: self.is_quiet,
        };
        let failed = |error: io::Error| Error::caused(ErrorKind::Unavailable, error.to_string(), error);
        self.fetcher.fetch(&from, ids).map_err(failed)
    }
}
