//! The power is cut after each change that the file system records.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use packrace_os::simulated::{DiskChange, DiskState, Recording};
use packrace_testkit::mounted::Mount;

use crate::cases::{CASES, Case};
use crate::{assert_sound, remove_locks, scratch_dir};

/// At most this many states after a change are considered.
const MAX_STATES: usize = 60;

/// At most about this many different states of a case before success are shown to git, and all states after
/// it.
const MAX_SHOWN: usize = 150;

fn record(case: &Case, top: &Path) -> Recording {
    (case.prepare)(top);
    let place = packrace_testkit::scratch_dir();
    let mount = Mount::new(top, place.path()).unwrap();
    let (output, recording) = mount.recorded(|| (case.run)(mount.place())).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", case.name);
    drop(mount);
    let count = recording.changes().len();
    assert_eq!(recording.killed(count), DiskState::of(top).unwrap(), "what was noted is what happened");
    assert!((case.is_done)(top), "{}", case.name);
    recording
}

/// Checks that an acknowledged change is there, that an unacknowledged one is there or not, and that git
/// finds nothing wrong.
fn check_state(case: &Case, copy: &Path, state: &DiskState, is_acknowledged: bool, what: &str) {
    state.lay_out(copy).unwrap();
    remove_locks(copy);
    assert_sound(&copy.join(case.repository), what);
    let is_done = (case.is_done)(copy);
    assert!(is_done || !is_acknowledged, "{what}: lost");
}

fn check_case(case: &Case) -> usize {
    let (top, copy) = (scratch_dir(), scratch_dir());
    let recording = record(case, top.path());
    let count = recording.changes().len();
    let mut seen = HashSet::new();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for done in 0..=count {
        for state in recording.crashed(done, MAX_STATES) {
            let states = if done == count { &mut after } else { &mut before };
            if seen.insert((state.clone(), done == count)) {
                states.push((state, done));
            }
        }
    }
    let step = before.len().div_ceil(MAX_SHOWN);
    let shown: Vec<_> = before.into_iter().step_by(step).chain(after).collect();
    for (number, (state, done)) in shown.iter().enumerate() {
        let change = recording.changes()[..*done].last().map(|change| format!("{change:.200?}"));
        let what = format!("{}, state {number} after {done} {change:?}", case.name);
        check_state(case, copy.path(), state, *done == count, &what);
    }
    println!("{}: {count} changes, {} of {} states shown", case.name, shown.len(), seen.len());
    shown.len()
}

#[test]
#[ignore = "needs FUSE"]
fn power_cuts() {
    let shown: usize = CASES.iter().map(check_case).sum();
    assert!(shown > 100 * CASES.len(), "only {shown}");
}

/// Whether a file matters once the change is acknowledged: not one in a work tree, and no reflog except the
/// list of stashes, since the others are not synced.
fn is_precious(name: &Path) -> bool {
    let name = name.to_str().unwrap();
    let is_stored = !name.starts_with("work/") || name.starts_with("work/.git/");
    is_stored
        && (!name.contains("/logs/") || name.ends_with("/logs/refs/stash"))
        && !name.contains("tmp_")
        && !name.ends_with(".keep")
        && !name.ends_with(".lock")
}

/// A file of `end` that a crash after this many changes can lose or damage.
fn find_fault(recording: &Recording, end: &DiskState, done: usize) -> Option<PathBuf> {
    recording.crashed(done, 400).iter().find_map(|state| {
        let found: BTreeMap<_, _> = state.entries().collect();
        let is_lost =
            |name: &Path, content| is_precious(name) && found.get(name).is_none_or(|is| *is != content);
        let (name, _) = end.entries().find(|(name, content)| is_lost(name, *content))?;
        Some(name.to_owned())
    })
}

/// The test would detect a program that omits a sync, and one that reports success before its last sync.
#[test]
#[ignore = "needs FUSE"]
fn a_sync_that_is_left_out_is_found_out() {
    for case in &CASES {
        let top = scratch_dir();
        let recording = record(case, top.path());
        let count = recording.changes().len();
        let end = recording.killed(count);
        assert_eq!(find_fault(&recording, &end, count), None, "{}", case.name);
        let is_sync = |change: &&DiskChange| matches!(change, DiskChange::Sync(_) | DiskChange::SyncDir(_));
        let syncs: Vec<&DiskChange> = recording.changes().iter().filter(is_sync).collect();
        let mut found = 0;
        for (number, sync) in syncs.iter().enumerate() {
            // By then, a `.keep` is deleted, and so are merged tables. Stashing stores some objects several
            // times, and syncs them each time. A `.promisor` without a text is empty, and the
            // directory of two packs is synced again before the second has its index.
            let (DiskChange::Sync(path) | DiskChange::SyncDir(path)) = sync else { continue };
            let path = path.to_str().unwrap();
            let is_again = case.name.starts_with("stash")
                || case.name.contains("promisor") && matches!(sync, DiskChange::SyncDir(_));
            let can_do_without = is_again
                || path.contains("tmp_keep")
                || path.contains("tmp_promisor")
                || path.contains("/reftable");
            let is_found = find_fault(&recording.without_sync(number).unwrap(), &end, count).is_some();
            assert!(is_found || can_do_without, "{}: without {sync:?}", case.name);
            found += usize::from(is_found);
        }
        assert!(found >= 4, "{}: only {found} of {}", case.name, syncs.len());
        let last = recording.changes().iter().rposition(|change| is_sync(&change)).unwrap();
        let early = find_fault(&recording, &end, last);
        assert!(early.is_some(), "{}: success before the last sync", case.name);
    }
}
