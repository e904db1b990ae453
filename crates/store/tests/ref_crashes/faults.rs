//! Each step fails once, and at each the process is killed: the refs are as before or as after, and nothing lies about.

use std::io::ErrorKind;
use std::path::Path;

use packrace_object::HashKind;
use packrace_os::simulated::{DiskFault, DiskOp, DiskState, DiskStep, on_disk};
use packrace_testkit::{Extent, RefFormat, sampled};

use super::cases::{Case, large, small};
use super::matrix::{check_next, check_refs, remove_locks, show};
use super::world::World;

/// A full disk, one that fails (EIO has no kind of its own), and one that can only be read.
const KINDS: [ErrorKind; 3] = [ErrorKind::StorageFull, ErrorKind::Other, ErrorKind::ReadOnlyFilesystem];

/// What lies about that is nobody's: locks, temporary files, and tables that no list names.
fn strays(state: &DiskState) -> Vec<&Path> {
    let list = state.entries().find(|(name, _)| name.ends_with("tables.list"));
    let list = list.and_then(|(_, content)| content).unwrap_or_default();
    let is_listed = |name: &Path| {
        let name = name.file_name().unwrap_or_default().as_encoded_bytes();
        list.split(|byte| *byte == b'\n').any(|line| line == name)
    };
    let is_stray = |name: &&Path| {
        let text = name.to_str().unwrap();
        let is_table = text.ends_with(".ref") && !is_listed(name);
        is_table || text.ends_with(".lock") || text.ends_with(".new") || text.contains(".temp.")
    };
    state.entries().map(|(name, _)| name).filter(is_stray).collect()
}

/// Of each transaction of a case, so many faults are a sample.
const SAMPLE: usize = 24;

/// Lets each step of each transaction of a case fail; says how many there are, and how many of them failed at a reflog.
fn check_case(extent: Extent, world: &mut World, case: &Case) -> [usize; 2] {
    case.prepare(world);
    let (root, copy) = (world.root.clone(), world.copy.clone());
    let [mut count, mut at_logs] = [0, 0];
    for (number, edits) in case.run.iter().enumerate() {
        let before = DiskState::of(&root).unwrap();
        let old = world.view(&root).unwrap();
        let (done, steps) = on_disk(DiskFault::None, || world.transact(&root, edits.clone()));
        done.unwrap();
        let new = world.view(&root).unwrap();
        let faults = (0..steps.len()).flat_map(|at| {
            let failures = KINDS.map(|kind| DiskFault::At(at, kind));
            failures.into_iter().chain([DiskFault::StopAt(at)])
        });
        let faults: Vec<_> = faults.collect();
        count += faults.len();
        for fault in faults.iter().copied().step_by(extent.step(faults.len(), SAMPLE)) {
            before.lay_out(&copy).unwrap();
            let (result, steps) = on_disk(fault, || world.transact(&copy, edits.clone()));
            let state = DiskState::of(&copy).unwrap();
            let step = match fault {
                DiskFault::At(at, _) | DiskFault::StopAt(at) => &steps[at],
                DiskFault::None => unreachable!("not among the faults"),
            };
            let what = format!("{} ({:?}), {number}, {fault:?} at {step:?}", case.name, world.format);
            let view = check_refs(world, &state, &old, &new, &what);
            match &result {
                Ok(()) => assert_eq!(view.refs, new.refs, "{what}"),
                Err(text) => assert!(text.contains(copy.to_str().unwrap()), "{what}: {text}"),
            }
            // Reflogs are written before any ref changes.
            let is_log = step.path.starts_with(copy.join("logs")) && !matches!(step.op, DiskOp::Remove);
            if result.is_err() && is_log && matches!(fault, DiskFault::At(..)) {
                at_logs += 1;
                assert_eq!(view.refs, old.refs, "{what}");
            }
            if let DiskFault::At(..) = fault {
                check_strays(&state, step, &copy, &what);
            }
            check_next(world, case, &view, &what);
        }
    }
    [count, at_logs]
}

/// Nothing is left but what could not be removed, and tables whose successor may not be durable.
fn check_strays(state: &DiskState, step: &DiskStep, dir: &Path, what: &str) {
    let kept = step.path.strip_prefix(dir).unwrap();
    let strays = strays(state);
    let is_excused = |name: &Path| match step.op {
        DiskOp::Remove => name == kept,
        DiskOp::SyncDir => name.extension().is_some_and(|extension| extension == "ref"),
        _ => false,
    };
    assert!(strays.iter().all(|name| is_excused(name)), "{what}: {strays:?}\n{}", show(state));
}

fn check_all(
    extent: Extent,
    format: RefFormat,
    hash: HashKind,
    cases: fn(&[packrace_object::ObjectId]) -> Vec<Case>,
    least: usize,
) {
    let count = cases(&World::new(format, hash).ids).len();
    let mut faults = [0, 0];
    for number in 0..count {
        let mut world = World::new(format, hash);
        let case = cases(&world.ids).swap_remove(number);
        let found = check_case(extent, &mut world, &case);
        faults = [faults[0] + found[0], faults[1] + found[1]];
    }
    let [faults, at_logs] = faults;
    assert!(at_logs > 0 || format == RefFormat::Reftable, "no reflog failed");
    println!("{format:?} {hash:?}: {faults} faults");
    assert!(faults >= least, "only {faults} faults");
}

sampled! {
    fn steps_of_small_transactions_on_files_fail(extent) {
        check_all(extent, RefFormat::Files, HashKind::Sha1, small, 1_000);
    }
}

sampled! {
    fn steps_of_large_transactions_on_files_fail(extent) {
        check_all(extent, RefFormat::Files, HashKind::Sha256, large, 1_500);
    }
}

sampled! {
    fn steps_of_transactions_on_reftables_fail(extent) {
        check_all(extent, RefFormat::Reftable, HashKind::Sha1, small, 1_500);
    }
}

#[test]
fn locks_are_counted() {
    let dir = packrace_testkit::scratch_dir();
    for name in ["tables.list", "a.ref", "b.ref", "x.lock", "packed-refs.new", "b.ref.temp.x"] {
        std::fs::write(dir.path().join(name), "a.ref\n").unwrap();
    }
    let state = DiskState::of(dir.path()).unwrap();
    let names: Vec<&str> = strays(&state).into_iter().map(|name| name.to_str().unwrap()).collect();
    assert_eq!(names, ["b.ref", "b.ref.temp.x", "packed-refs.new", "x.lock"]);
    assert_eq!(remove_locks(&state, dir.path()), 1);
}
