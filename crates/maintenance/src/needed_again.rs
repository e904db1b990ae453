//! Whether objects that a repack dropped, or made loose, are needed where they were.
//!
//! Who writes an object that is there already only touches its pack, and names the object a moment later, in a ref or an
//! index. Git takes no part in this: it deletes the pack, and with it the object.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use packrace_object::ObjectId;
use packrace_pack::maintain::repack::Repacked;
use packrace_pack::plan::{MissingObjects, plan};
use packrace_pack::{NoProgress, PackRequest, RequestObjects};
use packrace_store::{PackIx, Repository, RootKinds, Snapshot, roots};

use crate::error::Error;

/// Whether a root that is none of the `old` ones reaches an object that only redundant packs hold.
pub(crate) fn is_needed_again(
    repository: &Repository,
    now: &Arc<RequestObjects>,
    repacked: &Repacked,
    old: &HashSet<ObjectId>,
) -> Result<bool, Error> {
    let found = roots(repository, RootKinds::ALL)?;
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
    let redundant = RedundantPacks::of(repacked, snapshot);
    let is_only_there =
        |id: &ObjectId| redundant.have(id) == Some(true) && snapshot.own_loose_modified(id).is_none();
    Ok(ids.iter().any(is_only_there))
}

/// Whether objects that were made loose still are, or are in packs that stay.
pub(crate) fn are_kept(repository: &Repository, repacked: &Repacked) -> Result<bool, Error> {
    if repacked.loosened.is_empty() {
        return Ok(true);
    }
    let now = repository.snapshot()?;
    let redundant = RedundantPacks::of(repacked, &now);
    let is_kept = |id: &ObjectId| now.own_loose_modified(id).is_some() || redundant.have(id) == Some(false);
    Ok(repacked.loosened.iter().all(is_kept))
}

/// The redundant packs in a snapshot.
struct RedundantPacks<'s> {
    snapshot: &'s Snapshot,
    packs: HashSet<PackIx>,
}

impl<'s> RedundantPacks<'s> {
    fn of(repacked: &Repacked, snapshot: &'s Snapshot) -> Self {
        let names: HashSet<&str> = repacked.redundant.iter().map(String::as_str).collect();
        let packs = (0..).map(PackIx).zip(snapshot.packs());
        let packs = packs.filter(|(_, pack)| names.contains(pack.name())).map(|(number, _)| number).collect();
        RedundantPacks { snapshot, packs }
    }

    /// Whether they have the object, where it is found first; `None` if it is in no pack.
    fn have(&self, id: &ObjectId) -> Option<bool> {
        Some(self.packs.contains(&self.snapshot.locate(self.snapshot.lookup(id)?).pack))
    }
}

/// The redundant packs that somebody has touched since `before`.
pub(crate) fn touched_packs<'r>(
    before: &Snapshot,
    now: &Snapshot,
    repacked: &'r Repacked,
) -> HashSet<&'r str> {
    let times = |snapshot: &Snapshot| -> HashMap<String, Option<SystemTime>> {
        snapshot.packs().iter().map(|pack| (pack.name().to_owned(), pack.modified())).collect()
    };
    let (before, now) = (times(before), times(now));
    let names = repacked.redundant.iter().map(String::as_str);
    names.filter(|name| before.get(*name) != now.get(*name)).collect()
}
