//! Transactions that sync too little are found out: with nothing configured, on a disk that leaves out a sync, each one.

use packrace_object::HashKind;
use packrace_os::simulated::{DiskChange, DiskState};
use packrace_testkit::RefFormat;

use super::cases::small;
use super::matrix::{Run, run};
use super::world::{View, World};

/// States behind one change.
const MAX_STATES: usize = 40;

/// Whether what was acknowledged, or was there before, is lost or broken.
fn is_fault(world: &World, run: &Run, state: &DiskState, acknowledged: usize) -> bool {
    state.lay_out(&world.copy).unwrap();
    let Ok(found) = world.view(&world.copy) else { return true };
    let old = &run.views[acknowledged];
    let new = run.views.get(acknowledged + 1).unwrap_or(old);
    if world.format == RefFormat::Reftable {
        return found != *old && found != *new;
    }
    let is_one_of = |name: &Vec<u8>| {
        let [is, was, will_be] = [&found, old, new].map(|view: &View| view.refs.get(name));
        is == was || is == will_be
    };
    let is_whole = found.packed == old.packed || found.packed == new.packed;
    !is_whole || ![&found, old, new].into_iter().flat_map(|view| view.refs.keys()).all(is_one_of)
}

/// Whether a crash from some change on shows that a sync did nothing.
fn is_found_out(world: &World, run: &Run, number: usize) -> bool {
    let lying = run.recording.without_sync(number).unwrap();
    let count = lying.changes().len();
    let is_sync = |change: &DiskChange| matches!(change, DiskChange::Sync(_) | DiskChange::SyncDir(_));
    let at = (0..count).filter(|at| is_sync(&run.recording.changes()[*at])).nth(number).unwrap();
    (at..=count).any(|done| {
        let acknowledged = run.ends.iter().filter(|end| **end <= done).count();
        lying.crashed(done, MAX_STATES).iter().any(|state| is_fault(world, run, state, acknowledged))
    })
}

fn is_table(file: &std::path::Path) -> bool {
    file.to_string_lossy().contains(".ref.temp.")
}

fn check(format: RefFormat, number: usize) -> usize {
    let mut world = World::new(format, HashKind::Sha1);
    let case = small(&world.ids).swap_remove(number);
    let run = run(&mut world, &case, true);
    let is_sync = |change: &&DiskChange| matches!(change, DiskChange::Sync(_) | DiskChange::SyncDir(_));
    let syncs: Vec<&DiskChange> = run.recording.changes().iter().filter(is_sync).collect();
    let mut missed = Vec::new();
    for (number, sync) in syncs.iter().enumerate() {
        // Directories above that of a new ref might be new as well: nobody knows, and these are not.
        let is_above = matches!(sync, DiskChange::SyncDir(dir) if dir.ends_with("refs"));
        // The name of a list, where another table is written then, whose directory is synced too.
        let is_again = matches!(sync, DiskChange::SyncDir(dir) if dir.ends_with("reftable"))
            && matches!(syncs.get(number + 1), Some(DiskChange::Sync(file)) if is_table(file));
        if !is_above && !is_again && !is_found_out(&world, &run, number) {
            missed.push(format!("{number}: {sync:?}"));
        }
    }
    assert_eq!(missed, [""; 0], "{} ({format:?})", case.name);
    syncs.len()
}

#[test]
fn a_sync_that_is_left_out_is_found_out() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        let syncs: usize = [0, 5].into_iter().map(|number| check(format, number)).sum();
        assert!(syncs > 10, "only {syncs} among {format:?}");
    }
}
