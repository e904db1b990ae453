//! A rewrite never risks what was durable before, also where `core.fsync` says that nothing is synced: what is new may be lost
//! then, and nothing else.

use std::collections::HashSet;

use packrace_object::HashKind;
use packrace_os::simulated::{DiskChange, DiskState};
use packrace_testkit::RefFormat;

use super::cases::{large, small};
use super::matrix::{Run, run, show};
use super::world::World;

/// States behind one change.
const MAX_STATES: usize = 20;

/// Each ref that was there before all has a value that it had since.
fn check(world: &World, run: &Run, state: &DiskState, begun: usize, what: &str) {
    let views = &run.views[..=begun.min(run.views.len() - 1)];
    state.lay_out(&world.copy).unwrap();
    // Loose refs that are new, and of which a crash has left nothing, are nobody's fault.
    for (name, content) in state.entries() {
        let bytes = name.as_os_str().as_encoded_bytes();
        let is_old = views[0].refs.contains_key(bytes);
        if !is_old && bytes.starts_with(b"refs/") && content.is_some_and(is_broken) {
            std::fs::remove_file(world.copy.join(name)).unwrap();
        }
    }
    let found = world.refs(&world.copy).unwrap_or_else(|error| panic!("{what}: {error}\n{}", show(state)));
    for name in views[0].refs.keys() {
        let is = found.get(name);
        let name_text = String::from_utf8_lossy(name);
        assert!(
            views.iter().any(|view| view.refs.get(name) == is),
            "{what}: {name_text} is {is:?}\n{}",
            show(state)
        );
    }
}

fn is_broken(content: &[u8]) -> bool {
    !content.ends_with(b"\n") || content.contains(&0)
}

fn check_all(format: RefFormat) {
    let mut seen = HashSet::new();
    for cases in [small, large] {
        for number in 0..cases(&World::new(format, HashKind::Sha1).ids).len() {
            let mut world = World::new(format, HashKind::Sha1);
            let case = cases(&world.ids).swap_remove(number);
            let run = run(&mut world, &case, false);
            for done in 0..=run.recording.changes().len() {
                let begun = run.ends.iter().filter(|end| **end < done).count() + 1;
                for state in run.recording.crashed(done, MAX_STATES.min(case.max_states)) {
                    if !seen.insert(state.clone()) {
                        continue;
                    }
                    let after = run.recording.changes()[..done].last();
                    let what = format!("{} ({format:?}), after {done} {after:?}", case.name);
                    check(&world, &run, &state, begun, &what);
                }
            }
        }
    }
    assert!(seen.len() > 100, "only {} states", seen.len());
}

#[test]
fn among_files() {
    check_all(RefFormat::Files);
}

#[test]
fn among_reftables() {
    check_all(RefFormat::Reftable);
}

/// A ref that is new in a file of its own is what `none` is for.
#[test]
fn what_is_new_is_not_synced() {
    let mut world = World::new(RefFormat::Files, HashKind::Sha1);
    let case = small(&world.ids).swap_remove(1);
    let run = run(&mut world, &case, false);
    let is_sync = |change: &&DiskChange| matches!(change, DiskChange::Sync(_) | DiskChange::SyncDir(_));
    assert_eq!(run.recording.changes().iter().filter(is_sync).count(), 0, "{}", case.name);
}
