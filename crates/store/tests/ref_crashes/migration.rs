//! A migration that is broken off: at every moment the repository works, with all its refs and reflogs.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;

use packrace_object::{HashKind, ObjectId};
use packrace_os::simulated::{DiskFault, DiskState, on_disk, recorded};
use packrace_store::refs::{Backend, LogEdit, Migration, RefChange, Target, Value};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::{Extent, RefFormat, sampled};

use super::matrix::{remove_locks, show};
use super::world::{LIST, World, edit, not_synced};

/// So many states a change may leave behind.
const MAX_STATES: usize = 24;

/// One in so many is shown to git, and is migrated on.
const GIT_STEP: usize = 15;

/// A sample has one state in so many, and so many faults.
const SAMPLE_STEP: usize = 8;
const SAMPLE_FAULTS: usize = 30;

/// Old and new object, who and why.
type Line = (ObjectId, ObjectId, Vec<u8>, Vec<u8>);

/// What a repository has, as its own configuration says where.
#[derive(Debug, PartialEq)]
struct Content {
    refs: BTreeMap<Vec<u8>, Value>,
    logs: BTreeMap<Vec<u8>, Vec<Line>>,
}

fn content(dir: &Path) -> Result<(Backend, Content), String> {
    let said = |error: packrace_store::refs::RefError| error.to_string();
    let repository = Repository::open(dir, &OpenOptions::default()).map_err(|error| error.to_string())?;
    let store = repository.refs();
    let mut content = Content { refs: BTreeMap::new(), logs: BTreeMap::new() };
    for name in store.root_refs().map_err(said)? {
        if let Some(value) = store.read(&name).map_err(said)? {
            content.refs.insert(name, value);
        }
    }
    let visited = store.snapshot(&[]).map_err(said)?.visit(b"", &mut |record| {
        let value = match record.target {
            Target::Direct { id, .. } => Value::Id(id),
            Target::Symbolic(target) => Value::Symbolic(target.to_vec()),
        };
        content.refs.insert(record.name.to_vec(), value);
        ControlFlow::Continue(())
    });
    visited.map_err(said)?;
    for name in store.logged_names().map_err(said)? {
        let log = store.log(&name).map_err(said)?.unwrap_or_default();
        let lines = log.into_iter().map(|line| (line.old, line.new, line.who, line.message));
        content.logs.insert(name, lines.collect());
    }
    Ok((store.backend(), content))
}

fn migrate(world: &World, dir: &Path, to: Backend) -> Result<(), String> {
    let repository = Repository::open(dir, &OpenOptions::default()).map_err(|error| error.to_string())?;
    let migration = Migration { to, keeps_logs: true, is_dry_run: false };
    let done = repository.refs().migrate(&migration, &world.writes, &mut world.objects());
    done.map(|dry| assert!(dry.is_none())).map_err(|error| error.to_string())
}

/// Refs of all kinds, with reflogs.
fn prepare(world: &mut World) {
    let (root, ids) = (world.root.clone(), world.ids.clone());
    let set = |name: &str, at: usize| edit(name, RefChange::Set(ids[at]));
    let symbolic = |name: &str, to: &str| edit(name, RefChange::SetSymbolic(to.as_bytes().to_vec()));
    let first = vec![
        set("refs/heads/main", 0),
        set("refs/heads/deep/er/one", 1),
        set("refs/tags/heavy", 4),
        symbolic("refs/remotes/o/HEAD", "refs/remotes/o/main"),
        set("refs/remotes/o/main", 2),
        set("refs/bisect/bad", 1),
        set("ORIG_HEAD", 3),
    ];
    world.transact(&root, first).unwrap();
    world.git(&root, &["pack-refs", "--all"]);
    let second = vec![
        set("refs/heads/main", 1),
        set("refs/heads/loose", 2),
        symbolic("refs/heads/dangling", "refs/heads/none"),
    ];
    world.transact(&root, second).unwrap();
    world.transact(&root, vec![set("refs/heads/main", 2)]).unwrap();
    let mut empty = |_: Option<&[_]>| LogEdit::Replace { changes: Vec::new(), value: None };
    world.store(&root).edit_log(b"refs/heads/loose", &world.writes, &mut empty).unwrap();
}

fn check_states(extent: Extent, format: RefFormat, hash: HashKind, is_durable: bool) {
    let mut world = World::new(format, hash);
    if !is_durable {
        world.writes.policy = not_synced();
    }
    prepare(&mut world);
    let (root, copy) = (world.root.clone(), world.copy.clone());
    let to = match format {
        RefFormat::Files => Backend::Reftable,
        RefFormat::Reftable => Backend::Files,
    };
    let (from, before) = content(&root).unwrap();
    assert!(before.refs.len() == 10 && before.logs.len() == 8, "{before:?}");
    let listing = |dir: &Path| {
        let listing = world.git(dir, &LIST);
        let said = String::from_utf8(listing.stderr).unwrap();
        assert!(listing.status.success() && said.is_empty(), "{said}");
        String::from_utf8(listing.stdout).unwrap()
    };
    let listed = listing(&root);
    let (done, recording) = recorded(&root, || migrate(&world, &root, to)).unwrap();
    done.unwrap();
    assert_eq!(content(&root).unwrap().0, to);
    assert_eq!(recording.killed(recording.changes().len()), DiskState::of(&root).unwrap());
    let (mut seen, mut states) = (HashSet::new(), [0, 0]);
    let (mut number, step) = (0, extent.pick(SAMPLE_STEP, 1));
    for done in 0..=recording.changes().len() {
        let is_last = done == recording.changes().len();
        for state in recording.crashed(done, MAX_STATES) {
            if !seen.insert(state.clone()) && !is_last {
                continue;
            }
            number += 1;
            if number % step != 0 {
                continue;
            }
            let after = recording.changes()[..done].last();
            let what = format!("{format:?}, state {} after {done} {after:?}", seen.len());
            state.lay_out(&copy).unwrap();
            let (backend, found) =
                content(&copy).unwrap_or_else(|error| panic!("{what}: {error}\n{}", show(&state)));
            assert_eq!(found, before, "{what}\n{}", show(&state));
            assert!(!is_last || backend == to, "{what}");
            states[usize::from(backend == to)] += 1;
            if number % (step * GIT_STEP) != 0 {
                continue;
            }
            assert_eq!(listing(&copy), listed, "{what}");
            let verified = world.git(&copy, &["refs", "verify", "--strict"]);
            assert!(verified.status.success() && verified.stderr.is_empty(), "{what}: {verified:?}");
            remove_locks(&DiskState::of(&copy).unwrap(), &copy);
            for to in if backend == to { [from, to] } else { [to, from] } {
                migrate(&world, &copy, to).unwrap_or_else(|error| panic!("{what}: again: {error}"));
                let (backend, found) = content(&copy).unwrap();
                assert!(backend == to && found == before, "{what}: {found:?}");
                assert_eq!(listing(&copy), listed, "{what}");
            }
        }
    }
    println!("{format:?} {hash:?}: {} changes, {states:?} states", recording.changes().len());
    let [each, all] = extent.pick([2, 30], [20, 300]);
    assert!(states.iter().all(|count| *count > each) && states.iter().sum::<usize>() > all, "{states:?}");
}

/// Each step fails once, or is the first that a killed process does not do any more.
fn check_faults(extent: Extent, format: RefFormat) {
    let mut world = World::new(format, HashKind::Sha1);
    prepare(&mut world);
    let (root, copy) = (world.root.clone(), world.copy.clone());
    let to = if format == RefFormat::Files { Backend::Reftable } else { Backend::Files };
    let (before, (from, expect)) = (DiskState::of(&root).unwrap(), content(&root).unwrap());
    before.lay_out(&copy).unwrap();
    let (done, steps) = on_disk(DiskFault::None, || migrate(&world, &copy, to));
    done.unwrap();
    let mut failed = [0, 0];
    for at in (0..steps.len()).step_by(extent.step(steps.len(), SAMPLE_FAULTS)) {
        for fault in [DiskFault::At(at, std::io::ErrorKind::StorageFull), DiskFault::StopAt(at)] {
            before.lay_out(&copy).unwrap();
            let (result, steps) = on_disk(fault, || migrate(&world, &copy, to));
            let what = format!("{format:?} {fault:?} {:?}: {result:?}", steps[at]);
            let (backend, found) = content(&copy).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(found, expect, "{what}");
            assert!(result.is_err() || backend == to, "{what}");
            let is_failure = matches!(fault, DiskFault::At(..)) && result.is_err();
            if is_failure && backend == from {
                let state = DiskState::of(&copy).unwrap();
                let is_stray = |name: &str| name.contains("ref_migration") || name.ends_with(".lock");
                let strays: Vec<_> = state
                    .entries()
                    .map(|(name, _)| name)
                    .filter(|name| is_stray(name.to_str().unwrap()))
                    .collect();
                assert!(strays.is_empty(), "{what}: {strays:?}");
            }
            failed[usize::from(backend == to)] += usize::from(result.is_err());
            remove_locks(&DiskState::of(&copy).unwrap(), &copy);
            let again = if backend == to { from } else { to };
            migrate(&world, &copy, again).unwrap_or_else(|error| panic!("{what}: again: {error}"));
            let (backend, found) = content(&copy).unwrap();
            assert!(backend == again && found == expect, "{what}: {found:?}");
        }
    }
    println!("{format:?}: {} steps, {failed:?} failures", steps.len());
    assert!(failed[0] > extent.pick(10, 30) && failed[1] > extent.pick(0, 5), "{failed:?}");
}

sampled! {
    fn steps_that_fail(extent) {
        check_faults(extent, RefFormat::Files);
        check_faults(extent, RefFormat::Reftable);
    }
}

sampled! {
    fn of_files(extent) {
        check_states(extent, RefFormat::Files, HashKind::Sha1, true);
    }
}

sampled! {
    fn of_reftables(extent) {
        check_states(extent, RefFormat::Reftable, HashKind::Sha1, true);
    }
}

sampled! {
    fn of_sha256(extent) {
        check_states(extent, RefFormat::Files, HashKind::Sha256, false);
        check_states(extent, RefFormat::Reftable, HashKind::Sha256, false);
    }
}
