//! An opened repository, cached while its files are unchanged.

use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::file_dependencies::{DependencyStamp, FileDependencies};
use crate::repository::{OpenOptions, Repository};

/// How often a repository is reopened because it changed while it was being opened.
const MAX_OPENINGS: usize = 3;

/// An opened repository, and the stamp of every file that opening it depended on: configuration, packs and
/// their indexes, owner and path. Refs and loose objects are always read anew.
#[derive(Debug)]
pub struct CachedRepository {
    repository: Arc<Repository>,
    /// `None` if it never stopped changing.
    stamp: Option<DependencyStamp>,
}

impl CachedRepository {
    /// Opens the repository at `path` like [`Repository::open`], but twice: the first time finds the files to
    /// stamp before the second.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        let (mut repository, mut dependencies) = open_seen(path, options)?;
        for _ in 1..MAX_OPENINGS {
            let stamp = dependencies.stamp();
            (repository, dependencies) = open_seen(path, options)?;
            if stamp.is_of(&dependencies) {
                return Ok(CachedRepository { repository: Arc::new(repository), stamp: Some(stamp) });
            }
        }
        Ok(CachedRepository { repository: Arc::new(repository), stamp: None })
    }

    /// The repository. A caller may keep using it after it has changed.
    pub fn repository(&self) -> &Arc<Repository> {
        &self.repository
    }

    /// Whether opening it now would give the same result. Also false if a file changed so shortly before
    /// opening that a further change might be invisible, and if a pack is damaged or unusable.
    pub fn is_current(&self) -> bool {
        self.stamp.as_ref().is_some_and(DependencyStamp::holds) && !self.repository.is_doubtful()
    }
}

fn open_seen(path: &Path, options: &OpenOptions) -> Result<(Repository, FileDependencies), Error> {
    let mut seen = FileDependencies::default();
    let repository = Repository::open_seen(path, options, &mut seen)?;
    repository.see_objects(&mut seen);
    // The targets of links on the path determine the repository, even if nothing else changes.
    seen.real(repository.git_dir());
    if repository.common_dir() != repository.git_dir() {
        seen.real(repository.common_dir());
    }
    Ok((repository, seen))
}
