//! Steps after new packs are written: a multi-pack-index and its bitmap, then removal of old packs and of
//! other references to removed objects.
//!
//! In this order readers find every object at every moment, also after a crash.

use std::path::Path;

use packrace_os::count::Role;
use packrace_os::durable;
use packrace_pack::maintain::pack_files::BitmapRequest;
use packrace_pack::maintain::repack::{Repacked, Scope, delete_packs};
use packrace_pack::maintain::{multi_pack_index, prune, server_info};
use packrace_pack::{ProgressSink, RequestObjects};
use packrace_store::publish::{
    FileKind, MultiPackIndexLock, WritePolicy, publish_file, publish_locked, remove_pack,
};
use packrace_store::{Pack, Repository};

use crate::bitmaps::bitmap_of_multi_pack_index;
use crate::error::Error;

/// Options of these steps.
#[derive(Debug)]
pub struct Finishing {
    /// How files are written.
    pub policy: WritePolicy,
    /// Whether to write a multi-pack-index over new and remaining packs.
    pub multi_pack_index: bool,
    /// Its bitmap.
    pub bitmap: Option<BitmapRequest>,
    /// Whether to remove packs and loose objects that became redundant.
    pub delete: bool,
    /// Whether the repack may have dropped objects.
    pub drops_unreachable: bool,
    /// Whether to write the lists of the dumb HTTP protocol.
    pub server_info: bool,
}

/// Performs these steps. `request_objects` are the objects from which the packs were made.
pub fn finish(
    repository: &Repository,
    request_objects: &RequestObjects,
    repacked: &Repacked,
    finishing: &Finishing,
    progress: &dyn ProgressSink,
) -> Result<(), Error> {
    check_sources(repository, request_objects, repacked)?;
    match finishing.multi_pack_index {
        true => write_multi_pack_index(repository, repacked, finishing, progress)?,
        false => forget_multi_pack_index(request_objects, repacked, finishing.policy)?,
    }
    if finishing.delete {
        delete_packs(request_objects, repacked)?;
        let after = RequestObjects::new(repository.snapshot()?);
        prune::prune_packed(&after, progress)?;
        if finishing.drops_unreachable {
            forget_dropped_shallow(repository, &after, finishing.policy)?;
        }
    }
    if finishing.server_info {
        update_server_info(repository, finishing.policy)?;
    }
    Ok(())
}

/// If a disk fault does not end the process, packs may have been made from zeros: then nothing is
/// removed for them.
fn check_sources(
    repository: &Repository,
    request_objects: &RequestObjects,
    repacked: &Repacked,
) -> Result<(), Error> {
    let snapshot = request_objects.snapshot();
    let Err(error) = snapshot.check_opened_files() else { return Ok(()) };
    let was_there = |name: &str| snapshot.packs().iter().any(|pack| pack.name() == name);
    for new in &repacked.new {
        let name = new.stem.file_name().and_then(|name| name.to_str());
        if new.stem.starts_with(repository.object_dir()) && name.is_some_and(|name| !was_there(name)) {
            remove_pack(&new.stem)?;
        }
    }
    Err(error.into())
}

/// Covers the new packs and those that stay, but not those about to be deleted.
fn write_multi_pack_index(
    repository: &Repository,
    repacked: &Repacked,
    finishing: &Finishing,
    progress: &dyn ProgressSink,
) -> Result<(), Error> {
    let pack_dir = repository.object_dir().join("pack");
    let lock = MultiPackIndexLock::take(&pack_dir, repository.hash_kind(), finishing.policy)?;
    let snapshot = repository.snapshot()?;
    let new: Vec<&str> = repacked.new.iter().filter_map(|new| new.stem.file_name()?.to_str()).collect();
    let is_wanted =
        |pack: &Pack| new.contains(&pack.name()) || repacked.staying.iter().any(|name| name == pack.name());
    let preferred = match repacked.scope {
        Scope::Geometric(_) => repacked.largest.as_deref().or(new.first().copied()),
        _ => None,
    };
    let bit_order = finishing.bitmap.is_some();
    let made = multi_pack_index::make(&snapshot, is_wanted, preferred, bit_order, progress)?;
    let Some(bytes) = made else { return Ok(()) };
    let bitmap = finishing
        .bitmap
        .as_ref()
        .map(|request| bitmap_of_multi_pack_index(&snapshot, &bytes, request, progress))
        .transpose()?;
    Ok(lock.publish(&bytes, bitmap.flatten().as_deref())?)
}

/// Removes a multi-pack-index that names a pack about to be deleted: readers would find it damaged.
fn forget_multi_pack_index(
    request_objects: &RequestObjects,
    repacked: &Repacked,
    policy: WritePolicy,
) -> Result<(), Error> {
    let snapshot = request_objects.snapshot();
    let named = snapshot.own_multi_pack_index_names().unwrap_or_default();
    if named.iter().any(|name| repacked.redundant.contains(name)) {
        MultiPackIndexLock::take(&snapshot.own_pack_dir(), snapshot.hash_kind(), policy)?.remove()?;
    }
    Ok(())
}

/// Removes dropped commits from the shallow boundary.
fn forget_dropped_shallow(
    repository: &Repository,
    after: &RequestObjects,
    policy: WritePolicy,
) -> Result<(), Error> {
    let shallow = after.snapshot().shallow();
    let mut kept = String::new();
    let mut is_changed = false;
    for id in shallow {
        match after.contains(id)? {
            true => kept.push_str(&format!("{id}\n")),
            false => is_changed = true,
        }
    }
    let path = repository.common_dir().join("shallow");
    if is_changed && kept.is_empty() {
        durable::remove_file(&path, Role::Config).map_err(|error| Error::file(path, error))?;
    } else if is_changed {
        publish_locked(&path, kept.as_bytes(), FileKind::Shallow, policy)?;
    }
    Ok(())
}

fn update_server_info(repository: &Repository, policy: WritePolicy) -> Result<(), Error> {
    let request_objects = RequestObjects::new(repository.snapshot()?);
    let refs = repository.refs().snapshot(&[])?;
    let refs = server_info::refs(&request_objects, &refs)?;
    let packs = server_info::packs(request_objects.snapshot());
    let publish = |path: &Path, bytes: &[u8]| publish_file(path, bytes, FileKind::ServerInfo, policy);
    publish(&repository.common_dir().join("info/refs"), &refs)?;
    publish(&repository.object_dir().join("info/packs"), &packs)?;
    Ok(())
}
