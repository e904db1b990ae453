//! The repositories that a principal may read: for the list of the API, and for the page for users.

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use packrace_store::Repository;

use super::root::NotServed;
use super::shared::Shared;
use crate::access::{Ask, Principal, RepositoryAccess};
use crate::repositories::{RepositoryError, description_in};
use crate::settings::Settings;

/// The description of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DescribedRepository {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// `None` if it cannot be read.
    pub(crate) object_format: Option<String>,
}

impl DescribedRepository {
    /// `None` for a repository that cannot be read.
    pub(crate) fn new(name: &str, repository: Option<&Repository>) -> Self {
        let git_dir = repository.map(Repository::common_dir);
        DescribedRepository {
            name: name.to_owned(),
            description: git_dir.and_then(|dir: &Path| description_in(dir).ok().flatten()),
            object_format: repository.map(|repository| repository.hash_kind().to_string()),
        }
    }
}

/// Repositories that a principal may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReadableRepositories {
    /// In a fixed order.
    pub(crate) repositories: Vec<DescribedRepository>,
    /// Whether there are more.
    pub(crate) has_more: bool,
}

impl ReadableRepositories {
    /// At most `most` of the served repositories that a principal may read, after this path.
    pub(crate) fn of(
        principal: &Principal,
        after: Option<&Path>,
        most: usize,
        settings: &Settings,
        shared: &Shared,
    ) -> Result<Self, RepositoryError> {
        let mut readable = ReadableRepositories::default();
        shared.root.folder.list(after, &mut |found| {
            let path = found.path.as_os_str().as_bytes();
            let access = RepositoryAccess::new(settings.access.clone(), principal.clone(), path.to_vec());
            // The folder itself has no name.
            if path.is_empty() || access.check(Ask::Read).is_err() {
                return ControlFlow::Continue(());
            }
            let repository = match shared.root.open_once(&found.path) {
                Ok(repository) if is_served(&repository, settings) => Some(repository),
                // It exists, and clients that request it get that error.
                Err(NotServed::Broken(_)) => None,
                _ => return ControlFlow::Continue(()),
            };
            if readable.repositories.len() == most {
                readable.has_more = true;
                return ControlFlow::Break(());
            }
            readable.repositories.push(DescribedRepository::new(&found.name(), repository.as_ref()));
            ControlFlow::Continue(())
        })?;
        Ok(readable)
    }
}

/// Whether the settings allow this repository to be served.
pub(crate) fn is_served(repository: &Repository, settings: &Settings) -> bool {
    !settings.rules.require_export_ok || repository.is_export_ok()
}
