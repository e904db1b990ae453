//! Which paths are those of the API.

use super::routes::percent_decode;
use crate::settings::{Admin, Settings};

/// Where all repositories are.
pub(super) const COLLECTION: &str = "/-/api/v1/repositories";

/// Where events are.
const EVENTS: &str = "/-/events";

/// What git asks for below a repository, in one part: it may lie at [`COLLECTION`].
const OF_GIT: [&str; 4] = ["HEAD", "git-upload-pack", "git-receive-pack", "git-upload-archive"];

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApiTarget {
    /// All repositories.
    Collection,
    /// The one of this name, without percent signs; `None` where they stand for nothing.
    Repository(Option<Vec<u8>>),
    /// What happens to those that the principal may read.
    Events,
}

/// What of the API is at a path, if there is one.
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
