//! Each step fails once, and at each the process is killed.

use std::io::ErrorKind;

use packrace_object::HashKind;
use packrace_os::simulated::{DiskFault, DiskOp, DiskState, on_disk};
use packrace_testkit::sampled;

use super::cases::CASES;
use super::world::{World, complete_packs, object_files};

/// A full disk, one that fails (EIO has no kind of its own), and one that can only be read.
const KINDS: [ErrorKind; 3] = [ErrorKind::StorageFull, ErrorKind::Other, ErrorKind::ReadOnlyFilesystem];

/// So many faults of a case are a sample.
const SAMPLE: usize = 24;

sampled! {
    fn steps_fail(extent) {
        let mut count = 0;
        for case in &CASES {
            let world = World::new(HashKind::Sha1);
            (case.prepare)(&world, &world.root);
            let before = DiskState::of(&world.root).unwrap();
            let repository = world.open(&world.root, None);
            if case.name.contains("written by others") {
                // Those others are this process, too.
                continue;
            }
            let (stored, steps) = on_disk(DiskFault::None, || (case.store)(&world, &repository));
            stored.unwrap();
            let faults = (0..steps.len()).flat_map(|at| {
                let failures = KINDS.map(|kind| DiskFault::At(at, kind));
                failures.into_iter().chain([DiskFault::StopAt(at)])
            });
            let faults: Vec<_> = faults.collect();
            count += faults.len();
            for fault in faults.iter().copied().step_by(extent.step(faults.len(), SAMPLE)) {
                before.lay_out(&world.copy).unwrap();
                let repository = world.open(&world.copy, None);
                let (result, steps) = on_disk(fault, || (case.store)(&world, &repository));
                let step = match fault {
                    DiskFault::At(at, _) | DiskFault::StopAt(at) => &steps[at],
                    DiskFault::None => unreachable!("not among the faults"),
                };
                let what = format!("{}, {fault:?} at {step:?}", case.name);
                let found = world.count(&world.copy, &what);
                if result.is_ok() {
                    assert_eq!(found, world.objects.len(), "{what}");
                }
                if let DiskFault::At(..) = fault {
                    let state = DiskState::of(&world.copy).unwrap();
                    check_left(&state, &step.op, &what);
                    // A step that only cleans up or makes young may fail.
                    let may_fail = matches!(step.op, DiskOp::Touch | DiskOp::Remove);
                    assert!(result.is_err() || may_fail, "{what}");
                }
                (case.store)(&world, &repository).unwrap_or_else(|error| panic!("{what}: again: {error}"));
                assert_eq!(world.count(&world.copy, &what), world.objects.len(), "{what}");
            }
        }
        println!("{count} faults");
        assert!(count > 1_600, "only {count}");
    }
}

/// No temporaries but where they could not be removed, and no `.keep` beside a pack that was not acknowledged.
fn check_left(state: &DiskState, op: &DiskOp, what: &str) {
    if *op == DiskOp::Remove {
        return;
    }
    let names: Vec<&str> = state.entries().map(|(name, _)| name.to_str().unwrap()).collect();
    assert!(!names.iter().any(|name| name.contains("tmp_")), "{what}: {names:?}");
    assert!(!names.iter().any(|name| name.ends_with(".keep")), "{what}: {names:?}");
    let stray = object_files(state).into_iter().map(|(name, _)| name.to_str().unwrap());
    let mut stray = stray.filter(|name| name.ends_with(".idx"));
    assert!(stray.all(|name| complete_packs(state).iter().any(|pack| name.starts_with(pack))), "{what}");
}
