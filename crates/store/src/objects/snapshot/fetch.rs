//! Fetches objects that a partial clone lacks.

use std::sync::Arc;

use packrace_object::{ObjectId, oid};

use super::{Snapshot, is_built_in};
use crate::error::{Error, Reason};

impl Snapshot {
    /// Whether missing objects are fetched: see [`OpenOptions::fetcher`](crate::OpenOptions::fetcher).
    pub fn can_fetch(&self) -> bool {
        self.shared.sources.promisors.is_some()
    }

    /// Whether an object is fetched when a reader misses it.
    pub fn fetches_on_read(&self) -> bool {
        self.shared.sources.promisors.as_ref().is_some_and(|promisors| promisors.fetches_on_read())
    }

    /// Fetches these objects with one request to each promisor remote, until none is missing. Gives a snapshot with all of
    /// them, which uses no bitmaps and no commit-graph.
    pub fn fetch_missing(&self, ids: &[ObjectId]) -> Result<Arc<Snapshot>, Error> {
        let mut missing = ids.to_vec();
        if let Some(promisors) = &self.shared.sources.promisors {
            let _one = promisors.begin();
            let mut remotes = promisors.remotes.iter();
            loop {
                if let Some(later) = self.look_later(true)? {
                    let mut left = Vec::new();
                    for id in missing {
                        if !later.contains(&id)? {
                            left.push(id);
                        }
                    }
                    missing = left;
                    if missing.is_empty() {
                        return Ok(later);
                    }
                }
                let Some(remote) = remotes.next() else { break };
                promisors.fetch_from(remote, &missing)?;
            }
        }
        let first = missing.first().copied();
        Err(Reason::NotFetched(first.unwrap_or_else(|| ObjectId::null(self.hash_kind()))).into())
    }

    /// Fetches those of these objects that are not here, unless nothing is fetched on reading. What no remote has
    /// stays missing. `None` if nothing was fetched.
    pub fn prefetch(&self, ids: impl IntoIterator<Item = ObjectId>) -> Result<Option<Arc<Snapshot>>, Error> {
        if !self.fetches_on_read() {
            return Ok(None);
        }
        let mut missing = Vec::new();
        for id in ids {
            if !is_built_in(&id) && !self.contains(&id)? {
                missing.push(id);
            }
        }
        if missing.is_empty() { Ok(None) } else { self.fetch_if_there(&missing) }
    }

    /// Fetches an object that is about to be read; `None` if it is missing everywhere.
    pub(crate) fn fetch_one(&self, id: &oid) -> Result<Option<Arc<Snapshot>>, Error> {
        if is_built_in(id) || !self.fetches_on_read() {
            return Ok(None);
        }
        self.fetch_if_there(&[id.to_owned()])
    }

    fn fetch_if_there(&self, ids: &[ObjectId]) -> Result<Option<Arc<Snapshot>>, Error> {
        match self.fetch_missing(ids) {
            Err(error) if error.unfetched().is_some() => Ok(None),
            fetched => fetched.map(Some),
        }
    }
}
