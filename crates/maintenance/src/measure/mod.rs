//! Measures a repository: reads indexes, names and lengths; of objects, how samples are stored.

pub(crate) mod deltas;
mod names;
mod search_gain;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::SystemTime;

use packrace_object::ObjectId;
use packrace_os::count::Role;
use packrace_store::refs::{Backend, Target};
use packrace_store::{GraphFiles, Pack, Repository, Snapshot};

use crate::error::Error;
use crate::facts::{BitmapFacts, DeltaFacts, Facts, IndexFacts, PackFacts, PackKind, RefFacts};
use crate::reflogs::ReflogExpiry;
use crate::settings::MaintenanceSettings;
use crate::stale_files;

pub use names::{Sizes, exceeds_gc_limits, loose_objects};

/// Measures a repository as of now. What was estimated `earlier` of the same pack is not estimated again.
pub fn measure(
    repository: &Repository,
    settings: &MaintenanceSettings,
    now: SystemTime,
    earlier: Option<&DeltaFacts>,
) -> Result<Facts, Error> {
    let snapshot = repository.snapshot()?;
    let mut facts = Facts {
        packs: packs(&snapshot, settings, now),
        loose_objects: loose_objects(repository.object_dir(), Facts::MAX_COUNTED)?,
        multi_pack_index: multi_pack_index(&snapshot),
        bitmap: bitmap(&snapshot, now),
        refs: refs(repository)?,
        stale: stale_files::find(repository, now, None)?.facts(),
        is_shallow: !snapshot.shallow()?.is_empty() || repository.has_grafts(),
        borrows: !repository.borrowed_object_dirs().is_empty(),
        graph_files: GraphFiles::open(repository, None)?.layers().len() as u64,
        ..Facts::default()
    };
    facts.is_partial = facts.packs.iter().any(|pack| pack.kind == PackKind::Promisor);
    facts.deltas = deltas::sample(repository, &snapshot, settings, &facts)?;
    if let Some(deltas) = facts.deltas.take() {
        let known = earlier.filter(|earlier| earlier.pack == deltas.pack).and_then(|earlier| earlier.gain);
        let gain = match known {
            None if can_search(&facts, settings) && !deltas.is_searched => {
                search_gain::estimate(repository, &snapshot)?
            }
            known => known,
        };
        facts.deltas = Some(DeltaFacts { gain, ..deltas });
    }
    add_tips(repository, &snapshot, &mut facts)?;
    if repository.refs().log(b"HEAD")?.is_some_and(|log| !log.is_empty()) {
        facts.expired_log_entries = ReflogExpiry::new(repository, None, None)?.too_old(b"HEAD")?;
    }
    Ok(facts)
}

/// Whether a new search for deltas is possible.
fn can_search(facts: &Facts, settings: &MaintenanceSettings) -> bool {
    !settings.is_precious && !settings.packs_alone && !facts.is_partial && !facts.is_shallow
}

fn packs(snapshot: &Snapshot, settings: &MaintenanceSettings, now: SystemTime) -> Vec<PackFacts> {
    let dir = snapshot.own_pack_dir();
    let own = snapshot.packs().iter().filter(|pack| pack.is_local());
    let facts = own.map(|pack| {
        let kind = match pack {
            pack if !pack.is_usable() => PackKind::Damaged,
            pack if pack.has_keep() => PackKind::Kept,
            pack if pack.is_promisor() => PackKind::Promisor,
            pack if pack.is_cruft() => PackKind::Cruft,
            _ => PackKind::Ordinary,
        };
        let file = packrace_os::identity(&dir.join(format!("{}.pack", pack.name())), Role::Pack);
        PackFacts {
            name: pack.name().to_owned(),
            kind,
            objects: if kind == PackKind::Damaged { 0 } else { pack.len() },
            bytes: file.ok().flatten().map_or(0, |file| file.length),
            age_seconds: age(pack.modified(), now),
            expired: if kind == PackKind::Cruft { expired(pack, settings.prune_before) } else { 0 },
        }
    });
    facts.collect()
}

fn age(then: Option<SystemTime>, now: SystemTime) -> u64 {
    then.and_then(|then| now.duration_since(then).ok()).map_or(0, |age| age.as_secs())
}

/// The number of objects of a cruft pack that were not wanted since this time.
fn expired(pack: &Pack, before: i64) -> u32 {
    let Ok(Some(times)) = pack.times() else { return 0 };
    let is_expired = |position: &u32| i64::from(times.seconds_at(*position)) <= before;
    (0..pack.len()).filter(is_expired).count() as u32
}

fn multi_pack_index(snapshot: &Snapshot) -> Option<IndexFacts> {
    let named = snapshot.own_multi_pack_index_names()?;
    let own: HashSet<&str> = snapshot.packs().iter().filter(|pack| pack.is_local()).map(Pack::name).collect();
    let covered = named.iter().filter(|name| own.contains(name.as_str())).count();
    Some(IndexFacts { covered, missing: named.len() - covered })
}

/// Takes the age of the multi-pack-index, or else of the oldest pack, for that of the bitmap.
fn bitmap(snapshot: &Snapshot, now: SystemTime) -> Option<BitmapFacts> {
    let objects = u64::from(snapshot.bitmap()?.objects());
    let index = packrace_os::identity(&snapshot.own_pack_dir().join("multi-pack-index"), Role::Index);
    let of_index = index.ok().flatten().and_then(|file| file.modified);
    let of_pack = snapshot.packs().iter().filter_map(Pack::modified).min();
    Some(BitmapFacts { objects, age_seconds: age(of_index.or(of_pack), now) })
}

fn refs(repository: &Repository) -> Result<RefFacts, Error> {
    let dir = repository.refs().dir();
    Ok(match repository.refs().backend() {
        Backend::Files => {
            let packed = packrace_os::identity(&dir.join("packed-refs"), Role::Refs);
            let packed_bytes = packed.ok().flatten().map_or(0, |file| file.length);
            RefFacts::Files { loose: names::loose_refs(&dir.join("refs"), Facts::MAX_COUNTED)?, packed_bytes }
        }
        Backend::Reftable => RefFacts::Tables(names::tables(&dir.join("reftable"))?),
    })
}

/// Counts targets of refs, and those outside the bitmap and the commit-graph.
fn add_tips(repository: &Repository, snapshot: &Snapshot, facts: &mut Facts) -> Result<(), Error> {
    let (mut tips, mut branch_tips) = (HashSet::new(), HashSet::new());
    repository.refs().snapshot(&[])?.visit(b"refs/", &mut |record| {
        if let Target::Direct { id, .. } = record.target {
            tips.insert(id);
            if record.name.starts_with(b"refs/heads/") {
                branch_tips.insert(id);
            }
        }
        match (tips.len() as u64) < Facts::MAX_COUNTED {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    let bitmap = snapshot.bitmap();
    let is_covered = |id: &&ObjectId| {
        let bit = |ix| bitmap.as_ref().and_then(|bitmap| bitmap.ix_to_bit(ix));
        snapshot.lookup(id).and_then(bit).is_some()
    };
    let graph = snapshot.commit_graph();
    let is_in_graph = |id: &&ObjectId| graph.is_some_and(|graph| graph.position_of(id).is_some());
    facts.tips = tips.len() as u64;
    facts.branch_tips = branch_tips.len() as u64;
    // A missing object can be in neither, however often they are rewritten.
    let is_there = |id: &&ObjectId| snapshot.contains(id).unwrap_or(false);
    facts.tips_outside_bitmap = tips.iter().filter(|id| !is_covered(id) && is_there(id)).count() as u64;
    let outside = branch_tips.iter().filter(|id| !is_in_graph(id) && is_there(id));
    facts.tips_outside_graph = outside.count() as u64;
    Ok(())
}
