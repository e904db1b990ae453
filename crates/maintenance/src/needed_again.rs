//! Whether objects that a repack dropped are needed by now.
//!
//! Who writes an object that is there already only touches its pack, and names the object a moment later, in a ref or an
//! index. Git takes no part in this: it deletes the pack, and with it the object.

use std::collections::HashSet;
use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_pack::maintain::repack::Repacked;
use packrace_pack::plan::{MissingObjects, plan};
use packrace_pack::{NoProgress, PackRequest, RequestObjects};
use packrace_store::{Repository, Snapshot, roots};

use crate::error::Error;

/// Whether a root that is none of the `old` ones reaches an object that only redundant packs hold.
pub(crate) fn is_needed_again(
    repository: &Repository,
    now: &Arc<RequestObjects>,
    repacked: &Repacked,
    old: &HashSet<ObjectId>,
) -> Result<bool, Error> {
    let found = roots(repository)?;
    let snapshot = now.snapshot();
    let mut new = Vec::new();
    for id in found.refs.iter().copied().chain(found.soft()).filter(|id| !old.contains(id)) {
        // Reflogs and indexes may name what is gone.
        if snapshot.contains(&id)? {
            new.push(id);
        }
    }
    if new.is_empty() {
        return Ok(false);
    }
    let request = PackRequest {
        wants: new,
        haves: old.iter().copied().collect(),
        missing: MissingObjects::Any,
        threads: 1,
        ..PackRequest::default()
    };
    let ids = plan(now, &request, &NoProgress)?.ids();
    let is_only_there = |id: &ObjectId| {
        snapshot.own_loose_modified(id).is_none() && is_in_redundant(snapshot, repacked, id) == Some(true)
    };
    Ok(ids.iter().any(is_only_there))
}

/// Whether the pack in which an object is found is redundant; `None` if it is in no pack.
pub(crate) fn is_in_redundant(now: &Snapshot, repacked: &Repacked, id: &ObjectId) -> Option<bool> {
    let pack = now.locate(now.lookup(id)?).pack;
    let name = now.packs()[pack.0 as usize].name();
    Some(repacked.redundant.iter().any(|redundant| redundant == name))
}

/// The redundant packs that somebody has touched since `before`.
pub(crate) fn touched_packs<'r>(
    before: &Snapshot,
    now: &Snapshot,
    repacked: &'r Repacked,
) -> HashSet<&'r str> {
    let modified = |snapshot: &Snapshot, name: &str| {
        snapshot.packs().iter().find(|pack| pack.name() == name).and_then(|pack| pack.modified())
    };
    let names = repacked.redundant.iter().map(String::as_str);
    names.filter(|name| modified(before, name) != modified(now, name)).collect()
}
