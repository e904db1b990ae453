//! Fetches objects that a command knows to be missing, all in one request. What it misses only when it reads it is fetched by
//! the repository itself ([`OpenOptions::fetcher`](packrace_store::OpenOptions::fetcher)).

use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_pack::plan::{MissingObjects, PackRequest, plan};
use packrace_pack::{ProgressSink, RequestObjects};
use packrace_store::{Error, Pack, Repository, Snapshot, ref_tips};

use crate::call::fatal::Fatal;
use crate::call::git_fetch::warn;
use crate::call::{Call, discovery};

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

/// Fetches all that refs lead to and that is missing, where no pack says what was promised: then nothing may be missing.
pub(crate) fn fetch_unpromised(
    call: &Call,
    repository: &Repository,
    progress: &dyn ProgressSink,
) -> Result<(), Fatal> {
    let has_promised = |objects: &RequestObjects| objects.snapshot().packs().iter().any(Pack::is_promisor);
    if !is_partial(repository)? {
        return Ok(());
    }
    let fetching = discovery::repository(call)?;
    let mut objects = Arc::new(RequestObjects::new(fetching.snapshot()?));
    let missing = MissingObjects::Listed;
    let request = PackRequest { wants: ref_tips(&fetching)?, missing, threads: 1, ..PackRequest::default() };
    // What fails here fails again, in the words of the command.
    while !has_promised(&objects) && plan(&objects, &request, progress).is_ok() {
        if objects.missing_met().is_empty() {
            break;
        }
        warn_if_off(call);
        objects = objects.fetch_missing_met(progress)?;
    }
    Ok(())
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
