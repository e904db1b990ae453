//! Steps after new packs are written: a multi-pack-index and its bitmap, then removal of old packs and of
//! other references to removed objects.
//!
//! In this order readers find every object at every moment, also after a crash.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_os::count::Role;
use packrace_os::durable;
use packrace_pack::maintain::pack_files::BitmapRequest;
use packrace_pack::maintain::repack::{Repacked, Scope};
use packrace_pack::maintain::{prune, server_info};
use packrace_pack::{ProgressSink, RequestObjects};
use packrace_store::publish::{
    FileKind, MultiPackIndexFile, MultiPackIndexLock, PackRemoval, WritePolicy, publish_file, publish_locked,
    remove_bitmap, remove_pack,
};
use packrace_store::{Pack, Repository};

use crate::chain::{Merging, NewChain, RepackedChain};
use crate::error::Error;
use crate::needed_again::{are_kept, is_needed_again, touched_packs};

/// Options of these steps.
#[derive(Debug)]
pub struct Finishing {
    /// How files are written.
    pub policy: WritePolicy,
    /// Whether and how to write a multi-pack-index over new and remaining packs.
    pub multi_pack_index: MultiPackIndexMode,
    /// Its bitmap.
    pub bitmap: Option<BitmapRequest>,
    /// Whether a single multi-pack-index leaves cruft packs out, unless its bitmap needs them
    /// (`repack.midxMustContainCruft`).
    pub without_cruft: bool,
    /// Whether to remove packs and loose objects that became redundant.
    pub delete: bool,
    /// The roots of the repack, if it may have dropped what they don't reach.
    pub dropped_beyond: Option<HashSet<ObjectId>>,
    /// Whether to write the lists of the dumb HTTP protocol.
    pub server_info: bool,
}

/// Multi-pack-indexes that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MultiPackIndexMode {
    /// None; one that names a removed pack is removed.
    #[default]
    No,
    /// One of all packs.
    Single,
    /// One for packs that are in none yet, on top of a chain of others.
    Chain {
        /// After a geometric repack, files on top are made into one while they have together at least this part of the
        /// objects of the next lower one (`repack.midxSplitFactor`).
        split_factor: u32,
    },
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
        MultiPackIndexMode::No => forget_multi_pack_index(request_objects, repacked, finishing.policy)?,
        MultiPackIndexMode::Single => write_multi_pack_index(repository, repacked, finishing, progress)?,
        MultiPackIndexMode::Chain { split_factor } => {
            write_chain(repository, repacked, split_factor, finishing, progress)?;
        }
    }
    if finishing.delete {
        delete(repository, request_objects, repacked, finishing, progress)?;
    }
    if finishing.server_info {
        update_server_info(repository, finishing.policy)?;
    }
    Ok(())
}

/// Deletes redundant packs, except those that have a `.keep` by now, and loose objects that are in packs.
fn delete(
    repository: &Repository,
    request_objects: &RequestObjects,
    repacked: &Repacked,
    finishing: &Finishing,
    progress: &dyn ProgressSink,
) -> Result<(), Error> {
    let pack_dir = request_objects.snapshot().own_pack_dir();
    let new = repacked.new.iter().filter(|new| new.stem.parent() == Some(&*pack_dir));
    let new = new.filter_map(|new| new.stem.file_name()?.to_str());
    let staying = repacked.staying.iter().map(String::as_str);
    let Some(removal) = PackRemoval::begin(&pack_dir, new.chain(staying))? else {
        tracing::warn!("no pack was removed: another process removes packs here");
        return Ok(());
    };
    if !are_kept(repository, repacked)? {
        tracing::warn!("no pack was removed: another process has packed objects that were made loose");
        return Ok(());
    }
    let mut touched = HashSet::new();
    if let Some(roots) = &finishing.dropped_beyond {
        let now = Arc::new(RequestObjects::new(repository.snapshot()?));
        touched = touched_packs(request_objects.snapshot(), now.snapshot(), repacked);
        if is_needed_again(repository, &now, repacked, roots)? {
            tracing::warn!("no pack was removed: another process needs objects again that no ref reached");
            return Ok(());
        }
    }
    for name in repacked.redundant.iter().filter(|name| !touched.contains(name.as_str())) {
        removal.remove(name)?;
    }
    let after = RequestObjects::new(repository.snapshot()?);
    prune::prune_packed(&after, progress)?;
    forget_dropped_shallow(repository, &after, finishing.policy)
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
    let _region = NewChain::traced();
    let snapshot = repository.snapshot()?;
    let remaining = Remaining::of(repacked);
    let preferred = match repacked.scope {
        Scope::Geometric(_) => repacked.left.last().map(String::as_str).or(remaining.new.first().copied()),
        _ => None,
    };
    let bitmap = finishing.bitmap.as_ref();
    let make = |with_cruft: bool| -> Result<Option<MultiPackIndexFile>, Error> {
        let is_wanted = |pack: &Pack| remaining.has(pack.name()) && (with_cruft || !pack.is_cruft());
        let mut made = NewChain::single(None);
        made.add_packs(&snapshot, is_wanted, preferred, bitmap, progress)?;
        Ok(made.into_new_file())
    };
    let made = match make(!finishing.without_cruft) {
        Err(Error::NotClosed(_)) if finishing.without_cruft => make(true)?,
        made => made?,
    };
    let Some(file) = made else { return Ok(()) };
    lock.publish(&file)?;
    if file.bitmap.is_some() {
        // As in git, this one replaces those of packs.
        let covered = snapshot.packs().iter().filter(|pack| pack.is_local() && remaining.has(pack.name()));
        for pack in covered.filter(|pack| !pack.has_keep()) {
            remove_bitmap(&pack_dir.join(pack.name()))?;
        }
    }
    Ok(())
}

/// Covers new packs and those that are in no multi-pack-index yet; those whose packs stay are kept.
fn write_chain(
    repository: &Repository,
    repacked: &Repacked,
    split_factor: u32,
    finishing: &Finishing,
    progress: &dyn ProgressSink,
) -> Result<(), Error> {
    let pack_dir = repository.object_dir().join("pack");
    let lock = MultiPackIndexLock::take_chain(&pack_dir, repository.hash_kind(), finishing.policy)?;
    let _region = NewChain::traced();
    let snapshot = repository.snapshot()?;
    let own = snapshot.own_multi_pack_index();
    let remaining = Remaining::of(repacked);
    let covered: HashSet<&str> = own.iter().flat_map(|own| own.chain.pack_stems()).collect();
    let merging = matches!(repacked.scope, Scope::Geometric(_))
        .then_some(Merging { split_factor, rolled_up_objects: repacked.rolled_up_objects });
    let chain = RepackedChain {
        own: own.as_ref(),
        snapshot: &snapshot,
        bitmap: finishing.bitmap.as_ref(),
        merging,
        is_new: &|name| remaining.new.contains(&name),
        progress,
    };
    let left: HashSet<&str> = repacked.left.iter().map(String::as_str).collect();
    let is_considered =
        |name: &str| remaining.new.contains(&name) || left.contains(name) || covered.contains(name);
    let all = || chain.make(&|name| remaining.has(name));
    let layers = match merging {
        None => all()?,
        Some(_) => match chain.make(&|name| remaining.has(name) && is_considered(name)) {
            // Bitmaps need what kept or cruft packs hold.
            Err(Error::NotClosed(_)) => all()?,
            layers => layers?,
        },
    };
    match layers {
        Some(layers) if layers.is_empty() => Ok(lock.remove()?),
        Some(layers) => Ok(lock.publish_chain(&layers)?),
        None => Ok(()),
    }
}

/// The repository's packs after a repack.
struct Remaining<'a> {
    new: Vec<&'a str>,
    staying: HashSet<&'a str>,
}

impl<'a> Remaining<'a> {
    fn of(repacked: &'a Repacked) -> Self {
        Remaining {
            new: repacked.new.iter().filter_map(|new| new.stem.file_name()?.to_str()).collect(),
            staying: repacked.staying.iter().map(String::as_str).collect(),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.new.contains(&name) || self.staying.contains(name)
    }
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

/// Removes commits that are gone from the shallow boundary.
fn forget_dropped_shallow(
    repository: &Repository,
    after: &RequestObjects,
    policy: WritePolicy,
) -> Result<(), Error> {
    let shallow = after.snapshot().shallow()?;
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
