//! The paths of the API.

use super::routes::percent_decode;
use crate::settings::{Admin, Settings};

/// The path of all repositories.
pub(super) const COLLECTION: &str = "/-/api/v1/repositories";

/// The path of events.
const EVENTS: &str = "/-/events";

/// What git requests below a repository, in one part: a repository may be called [`COLLECTION`].
const OF_GIT: [&str; 4] = ["HEAD", "git-upload-pack", "git-receive-pack", "git-upload-archive"];

/// What a request of the API is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApiTarget {
    /// All repositories.
    Collection,
    /// The repository of this name, percent-decoded; `None` if it cannot be decoded.
    Repository(Option<Vec<u8>>),
    /// The events of repositories that the principal may read.
    Events,
}

/// The target of a path, if it belongs to the API.
pub(super) fn target(path: &str, settings: &Settings) -> Option<ApiTarget> {
    let is_there = settings.access.has_rules() && settings.admin != Admin::Nowhere;
    if path == EVENTS && is_there && settings.events.journal.is_some() {
        return Some(ApiTarget::Events);
    }
    let rest =
        path.strip_prefix(COLLECTION).filter(|_| is_there && settings.repository_prototype.is_some())?;
    if rest.is_empty() {
        return Some(ApiTarget::Collection);
    }
    let name = rest.strip_prefix('/')?;
    let is_of_git = OF_GIT.contains(&name) || name.is_empty() || name.contains('/');
    (!is_of_git).then(|| ApiTarget::Repository(percent_decode(name)))
}
