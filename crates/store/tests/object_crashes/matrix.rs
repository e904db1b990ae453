//! The crash matrix: behind every change, every state that the disk may show.

use std::collections::HashSet;

use packrace_object::HashKind;
use packrace_os::simulated::{DiskState, Recording, recorded};
use packrace_testkit::{Extent, sampled};

use super::cases::{CASES, Case};
use super::world::{World, object_files};

/// A sample of a case has so many states.
const SAMPLE: usize = 60;

/// So many states of a case stock git is shown too; of a sample fewer.
const MAX_GIT_STATES: usize = 25;
const GIT_SAMPLE: usize = 2;

/// Stores the objects and notes what happens. All is there then.
pub fn run(world: &World, case: &Case, fsync: Option<&str>) -> Recording {
    (case.prepare)(world, &world.root);
    let repository = world.open(&world.root, fsync);
    let (stored, recording) = recorded(&world.root, || (case.store)(world, &repository)).unwrap();
    stored.unwrap();
    assert_eq!(world.count(&world.root, case.name), world.objects.len());
    assert_eq!(recording.killed(recording.changes().len()), DiskState::of(&world.root).unwrap());
    recording
}

/// What was acknowledged is there, byte by byte. Of what was not, names may be missing in any order, but what has one is whole.
pub fn find_fault(end: &DiskState, state: &DiskState, is_acknowledged: bool) -> Option<String> {
    let found = object_files(state);
    object_files(end).into_iter().find_map(|(name, content)| {
        match found.iter().find(|(other, _)| *other == name) {
            Some((_, is)) if *is == content => None,
            Some(_) => Some(format!("{} is broken", name.display())),
            None => is_acknowledged.then(|| format!("{} is lost", name.display())),
        }
    })
}

fn check_case(extent: Extent, hash: HashKind, case: &Case) -> usize {
    let world = World::new(hash);
    let recording = run(&world, case, None);
    let count = recording.changes().len();
    let end = recording.killed(count);
    let mut seen = HashSet::new();
    let mut different = Vec::new();
    for done in 0..=count {
        for state in recording.crashed(done, case.max_states) {
            if seen.insert((state.clone(), done == count)) {
                different.push((state, done));
            }
        }
    }
    let step = extent.step(different.len(), SAMPLE);
    let max_with_git = extent.pick(GIT_SAMPLE, MAX_GIT_STATES);
    let git_step = different.len().div_ceil(step).div_ceil(max_with_git) * step;
    for (number, (state, done)) in different.iter().enumerate().step_by(step) {
        let after = recording.changes()[..*done].last();
        let what = format!("{}, state {number} after {done} {after:?}", case.name);
        check_state(&world, case, &end, state, *done == count, &what);
        if number % git_step == 0 && !is_of_others(case, *done == count) {
            state.lay_out(&world.copy).unwrap();
            world.check_with_git(&world.copy, &what);
        }
    }
    println!("{hash:?} {}: {count} changes, {} different states", case.name, different.len());
    different.len()
}

/// Reads a state, and stores the objects once more.
fn check_state(
    world: &World,
    case: &Case,
    end: &DiskState,
    state: &DiskState,
    is_acknowledged: bool,
    what: &str,
) {
    if is_of_others(case, is_acknowledged) {
        return;
    }
    assert_eq!(find_fault(end, state, is_acknowledged), None, "{what}");
    state.lay_out(&world.copy).unwrap();
    let found = world.count(&world.copy, what);
    assert!(!is_acknowledged || found == world.objects.len(), "{what}");
    let repository = world.open(&world.copy, None);
    (case.store)(world, &repository).unwrap_or_else(|error| panic!("{what}: again: {error}"));
    assert_eq!(world.count(&world.copy, what), world.objects.len());
}

/// Files that others have written and not synced may be broken, until it is acknowledged that the objects are there.
fn is_of_others(case: &Case, is_acknowledged: bool) -> bool {
    case.name.contains("written by others") && !is_acknowledged
}

sampled! {
    fn every_state_after_a_crash(extent) {
        let different: usize = CASES.iter().map(|case| check_case(extent, HashKind::Sha1, case)).sum();
        assert!(different > 10_000, "only {different}");
    }
}

sampled! {
    fn sha256(extent) {
        check_case(extent, HashKind::Sha256, &CASES[5]);
        check_case(extent, HashKind::Sha256, &CASES[6]);
    }
}

sampled! {
    /// Without syncs a crash may leave anything, but a kill may not.
    fn kills_where_nothing_is_synced(extent) {
        for case in &CASES {
            let world = World::new(HashKind::Sha1);
            let recording = run(&world, case, Some("none"));
            let count = recording.changes().len();
            let end = recording.killed(count);
            for done in (0..=count).step_by(extent.step(count, 20)) {
                let what = format!("{}, killed after {done}", case.name);
                check_state(&world, case, &end, &recording.killed(done), done == count, &what);
            }
        }
    }
}
