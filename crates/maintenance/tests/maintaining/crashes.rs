//! The machine stops behind any change, the process is killed, a step fails: nothing is lost, and the next run leaves nothing
//! behind.

use std::collections::{BTreeSet, HashSet};
use std::io::ErrorKind;
use std::time::Duration;

use packrace_maintenance::Task;
use packrace_os::clock::time_of_day;
use packrace_os::simulated::{DiskFault, on_disk, recorded};
use packrace_testkit::{
    Extent, Git, Loose, RepoBuilder, Size, Storage, reachable_objects, sampled, scratch_dir,
};

use crate::{assert_no_litter, assert_sound, maintain_at};

/// States after a crash behind one change that are looked at.
const MAX_STATES: usize = 4;

/// States of a sample.
const SAMPLE: usize = 12;

/// After so long, whoever held a lock is known to be gone: here it is this very process.
const LATER: Duration = Duration::from_secs(8 * 24 * 60 * 60);

fn builder() -> RepoBuilder {
    RepoBuilder::new(Size::Tiny).storage(Storage { packs: 4, loose: Loose::Newest, ..Storage::default() })
}

fn check_crashes(extent: Extent, task: Task) {
    let dir = scratch_dir();
    let (root, copy) = (dir.path().join("a.git"), dir.path().join("b.git"));
    builder().build_at(&root, Git::stock());
    let expect = reachable_objects(Git::stock(), &root);
    let (done, recording) = recorded(&root, || maintain_at(&root, time_of_day(), &[task])).unwrap();
    done.unwrap();
    let count = recording.changes().len();
    assert!(count > 50, "only {count} changes");
    std::fs::create_dir(&copy).unwrap();
    let mut seen = HashSet::new();
    let mut states = Vec::new();
    for done in 0..=count {
        let crashed = recording.crashed(done, MAX_STATES).into_iter().chain([recording.killed(done)]);
        states.extend(crashed.filter(|state| seen.insert(state.clone())).map(|state| (done, state)));
    }
    for (done, state) in states.iter().step_by(extent.step(states.len(), SAMPLE)) {
        let after = done.checked_sub(1).map(|last| &recording.changes()[last]);
        let what = format!("{task:?} after {done} of {count}: {after:?}");
        state.lay_out(&copy).unwrap();
        check_after(&copy, &expect, &what);
    }
    println!("{task:?}: {count} changes, {} different states", states.len());
}

/// All is there, and after the next run nothing else is.
fn check_after(path: &std::path::Path, expect: &BTreeSet<String>, what: &str) {
    assert!(reachable_objects(Git::stock(), path) == *expect, "{what}: objects are lost");
    maintain_at(path, time_of_day() + LATER, &[Task::StaleFiles])
        .unwrap_or_else(|error| panic!("{what}: again: {error}"));
    assert_sound(path, what);
    assert!(reachable_objects(Git::stock(), path) == *expect, "{what}: objects are lost again");
    assert_no_litter(path, what);
}

sampled! {
    fn states_after_a_crash_of_a_geometric_repack(extent) {
        check_crashes(extent, Task::GeometricRepack);
    }

    fn states_after_a_crash_of_gc(extent) {
        check_crashes(extent, Task::Gc);
    }
}

sampled! {
    /// A disk that is full, or fails, from any step on.
    fn disks_that_fail(extent) {
        let dir = scratch_dir();
        let root = dir.path().join("a.git");
        builder().build_at(&root, Git::stock());
        let expect = reachable_objects(Git::stock(), &root);
        let fresh = |path: &std::path::Path| {
            let _ = std::fs::remove_dir_all(path);
            Git::stock().run(dir.path(), &["clone", "-q", "--mirror", "--no-local", "a.git", path.to_str().unwrap()]);
            // More than one pack, and loose objects.
            Git::stock().run(path, &["config", "gc.auto", "1"]);
            let blob = Git::stock().run_with_input(path, &["hash-object", "-w", "--stdin"], b"loose");
            assert!(!blob.is_empty());
        };
        let copy = dir.path().join("c.git");
        fresh(&copy);
        let (_, steps) = on_disk(DiskFault::None, || maintain_at(&copy, time_of_day(), &[Task::Gc]));
        for at in (0..steps.len()).step_by(extent.step(steps.len(), SAMPLE)) {
            for fault in [DiskFault::At(at, ErrorKind::StorageFull), DiskFault::StopAt(at)] {
                fresh(&copy);
                let _ = on_disk(fault, || maintain_at(&copy, time_of_day(), &[Task::Gc]));
                check_after(&copy, &expect, &format!("{fault:?} of {}: {:?}", steps.len(), steps[at]));
            }
        }
    }
}
