//! Keeps what promisor objects link to in promisor packs (git-index-pack, "--promisor").
//!
//! Walks stop at promisor objects. A commit that was made here, pushed, and built upon elsewhere comes back as a
//! parent of a received commit. If only received commits lead to it, then no walk finds it outside promisor packs: it
//! would be dropped as unreachable.

use std::sync::Arc;

use packrace_object::{ObjectId, oid};
use packrace_store::publish::PublishedPack;
use packrace_store::{Pack, Snapshot};

use super::pack_files::{PackFiles, PackFilesError, Special};
use crate::error::Error;
use crate::marks::Marks;
use crate::names::Names;
use crate::progress::NoProgress;
use crate::request_objects::RequestObjects;
use crate::select::plan::to_store;
use crate::settings::Settings;
use crate::walk::lenient_walk::LenientWalk;

/// Whether the repository itself, without alternates, has objects outside promisor packs.
pub fn has_local_objects(snapshot: &Snapshot) -> Result<bool, Error> {
    Ok(snapshot.packs().iter().any(is_of_repository) || !snapshot.own_loose()?.is_empty())
}

/// Writes a promisor pack of the repository's own objects that are `linked`, and of all that they reach up to objects
/// of promisor packs. Leaves out objects for which `received` returns true: a pack that is about to be published holds
/// them. Objects of alternates stay there: no repack of this repository deletes them. Writes nothing if there are no
/// such objects.
pub fn pack_linked(
    request_objects: &Arc<RequestObjects>,
    linked: &[ObjectId],
    received: impl Fn(&oid) -> bool,
    settings: Settings,
    files: &PackFiles,
) -> Result<Vec<PublishedPack>, PackFilesError> {
    let snapshot = request_objects.snapshot();
    let loose = snapshot.own_loose()?;
    let is_local = |id: &oid| {
        let is_here = loose.binary_search_by(|known| (**known).cmp(id)).is_ok()
            || snapshot.is_in_pack(id, is_of_repository);
        is_here && !snapshot.is_in_pack(id, Pack::is_promisor)
    };
    let tips: Vec<ObjectId> = linked.iter().filter(|id| is_local(id)).copied().collect();
    if tips.is_empty() {
        return Ok(Vec::new());
    }
    let end = request_objects.packed_end();
    let (wanted, names) = (Marks::new(end), Names::new(end).by(settings.name_hash));
    let stops = |ix| !is_local(&request_objects.id(ix));
    LenientWalk::new(request_objects).reach_until(tips, stops, &wanted, &names)?;
    for ix in wanted.members().collect::<Vec<_>>() {
        if received(&request_objects.id(ix)) {
            wanted.remove(ix);
        }
    }
    let plan = to_store(request_objects, wanted, names, settings, true, &NoProgress)?;
    match plan.objects() {
        0 => Ok(Vec::new()),
        _ => files.write(plan, &Special { is_promisor: true, ..Special::default() }, &NoProgress),
    }
}

fn is_of_repository(pack: &Pack) -> bool {
    pack.is_local() && !pack.is_promisor()
}
