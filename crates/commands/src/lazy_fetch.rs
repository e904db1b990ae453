//! Fetches objects that a command knows to be missing, all in one request. What it misses only when it reads it is fetched by
//! the repository itself ([`OpenOptions::fetcher`](packrace_store::OpenOptions::fetcher)).

use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_store::{Error, Repository, Snapshot};

use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::call::git_fetch::warn;

/// Whether the repository is a partial clone.
pub(crate) fn is_partial(repository: &Repository) -> Result<bool, Error> {
    Ok(!repository.config().promisor_remotes()?.is_empty())
}

/// Says that what is about to be fetched is not, if so.
pub(crate) fn warn_if_off(call: &Call) {
    if call.environment.lazy_fetch == Some(false) {
        warn(&call.streams.errors);
    }
}

/// Fetches objects that are known to be missing. Gives a snapshot with all of them.
pub(crate) fn prefetch(call: &Call, from: &Snapshot, ids: &[ObjectId]) -> Result<Arc<Snapshot>, Fatal> {
    warn_if_off(call);
    Ok(from.fetch_missing(ids)?)
}

/// The same for bases of received deltas, which stay unresolved without them. None are fetched for a complete repository.
pub(crate) fn prefetch_bases(
    call: &Call,
    repository: &Repository,
    ids: &[ObjectId],
) -> Option<Arc<Snapshot>> {
    let fetched = match is_partial(repository) {
        Ok(false) => return None,
        Ok(true) => repository.snapshot().map_err(Fatal::from).and_then(|from| prefetch(call, &from, ids)),
        Err(error) => Err(error.into()),
    };
    fetched.inspect_err(|error| call.report_error(&error.message)).ok()
}
