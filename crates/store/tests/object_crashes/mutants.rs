//! Programs that sync too little are found out: on a disk that leaves out a sync, each one, and where the objects are acknowledged
//! before the last one.

use packrace_object::HashKind;
use packrace_os::simulated::{DiskChange, DiskState, Recording};

use super::cases::CASES;
use super::matrix::{find_fault, run};
use super::world::World;

/// Whether a crash behind so many changes can lose or break what was acknowledged.
fn is_found_out(recording: &Recording, end: &DiskState, done: usize) -> bool {
    recording.crashed(done, 400).iter().any(|state| find_fault(end, state, true).is_some())
}

#[test]
fn a_sync_that_is_left_out_is_found_out() {
    let mut found = 0;
    // Those in which nothing was there before, so that everything has to be synced.
    for case in CASES.iter().filter(|case| !case.name.contains("others")) {
        let world = World::new(HashKind::Sha1);
        let recording = run(&world, case, None);
        let count = recording.changes().len();
        let end = recording.killed(count);
        assert!(!is_found_out(&recording, &end, count), "{}", case.name);
        let is_sync = |change: &&DiskChange| matches!(change, DiskChange::Sync(_) | DiskChange::SyncDir(_));
        let syncs: Vec<&DiskChange> = recording.changes().iter().filter(is_sync).collect();
        for (number, sync) in syncs.iter().enumerate() {
            // Of that, the pack can do without.
            let is_note =
                matches!(sync, DiskChange::Sync(path) if path.to_str().unwrap().contains("tmp_keep"));
            let lying = recording.without_sync(number).unwrap();
            assert_eq!(is_found_out(&lying, &end, count), !is_note, "{}: without {sync:?}", case.name);
            found += 1;
        }
        assert!(recording.without_sync(syncs.len()).is_none());
    }
    assert!(found > 40, "only {found}");
}

#[test]
fn what_is_acknowledged_before_the_last_sync_is_found_out() {
    for case in &CASES {
        let world = World::new(HashKind::Sha1);
        let recording = run(&world, case, None);
        let end = recording.killed(recording.changes().len());
        let last =
            recording.changes().iter().rposition(|change| matches!(change, DiskChange::SyncDir(_))).unwrap();
        assert!(is_found_out(&recording, &end, last), "{}", case.name);
    }
}
