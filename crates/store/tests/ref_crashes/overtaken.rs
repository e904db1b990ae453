//! A transaction of many refs that somebody else overtakes is taken back: after a crash, too, and where taking back fails.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use packrace_object::{HashKind, Kind, oid};
use packrace_os::simulated::{DiskFault, DiskOp, DiskState, on_disk, recorded};
use packrace_store::Error;
use packrace_store::publish::ObjectsStored;
use packrace_store::refs::{Peeled, RefChange, RefEdit, RefObjects, StoredObjects, TransactionMode};
use packrace_testkit::RefFormat;

use super::world::{World, edit};

/// Takes the lock of a loose ref when the first tag is peeled, which is just before `packed-refs` is written.
struct Overtaking {
    objects: StoredObjects,
    lock: PathBuf,
}

impl RefObjects for Overtaking {
    fn kind(&mut self, id: &oid) -> Result<Option<Kind>, Error> {
        self.objects.kind(id)
    }

    fn peel(&mut self, id: &oid) -> Result<Peeled, Error> {
        std::fs::create_dir_all(self.lock.parent().unwrap()).unwrap();
        std::fs::write(&self.lock, "").unwrap();
        self.objects.peel(id)
    }
}

fn prepared() -> (World, Vec<RefEdit>) {
    let mut world = World::new(RefFormat::Files, HashKind::Sha1);
    let (root, id) = (world.root.clone(), world.ids[0]);
    let set = |name: &str| edit(name, RefChange::Set(id));
    let old = (0..40).map(|number| set(&format!("refs/heads/old/{number}"))).collect();
    world.transact(&root, old).unwrap();
    let new = (0..40).map(|number| set(&format!("refs/heads/new/{number}")));
    let gone = edit("refs/heads/old/3", RefChange::Delete);
    (world, new.chain([gone]).collect())
}

fn transact(world: &World, dir: &Path, edits: Vec<RefEdit>) -> Result<(), String> {
    let lock = dir.join("refs/heads/new/7.lock");
    let mut objects = Overtaking { objects: world.objects(), lock };
    let store = world.store(dir);
    let prepared = store.prepare(edits, TransactionMode::Atomic, &world.writes, &mut objects);
    let prepared = prepared.map_err(|error| error.to_string())?;
    let done = prepared.commit(&ObjectsStored::earlier(), &mut objects);
    done.map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_crash_while_it_is_taken_back() {
    let (world, edits) = prepared();
    let old = world.view(&world.root).unwrap();
    let (refused, recording) = recorded(&world.root, || transact(&world, &world.root, edits)).unwrap();
    assert!(refused.unwrap_err().contains("7.lock': File exists"));
    let packed = |dir| world.view(dir).unwrap().packed.unwrap();
    assert_eq!(packed(&world.root), old.packed.clone().unwrap());
    let mut seen = std::collections::BTreeSet::new();
    let all = recording.changes().len();
    for done in 0..=all {
        for state in recording.crashed(done, 100) {
            state.lay_out(&world.copy).unwrap();
            let packed = packed(&world.copy);
            // Who was refused sees nothing of it any more.
            assert!(done < all || packed == old.packed.clone().unwrap(), "after {done}");
            seen.insert(packed);
        }
    }
    assert_eq!(seen.len(), 2, "as before and as after, and nothing between");
}

#[test]
fn a_step_fails_while_it_is_taken_back() {
    let (world, edits) = prepared();
    let (before, copy) = (DiskState::of(&world.root).unwrap(), world.copy.clone());
    let old = world.view(&world.root).unwrap().refs;
    before.lay_out(&copy).unwrap();
    let (refused, steps) = on_disk(DiskFault::None, || transact(&world, &copy, edits.clone()));
    assert!(refused.is_err());
    assert_eq!(world.view(&copy).unwrap().refs, old);
    let is_of_packed = |op: &DiskOp| matches!(op, DiskOp::Rename(to) if to.ends_with("packed-refs"));
    let renames: Vec<usize> = (0..steps.len()).filter(|at| is_of_packed(&steps[*at].op)).collect();
    assert_eq!(renames.len(), 2);
    let mut kept = 0;
    for at in 0..steps.len() {
        before.lay_out(&copy).unwrap();
        let fault = DiskFault::At(at, ErrorKind::StorageFull);
        let (failed, _) = on_disk(fault, || transact(&world, &copy, edits.clone()));
        assert!(failed.unwrap_err().contains(copy.to_str().unwrap()), "{at}");
        let refs = world.view(&copy).unwrap().refs;
        // Where it cannot be taken back, all of it stays.
        let is_kept = refs.len() == old.len() + 39 && !refs.contains_key(b"refs/heads/old/3".as_slice());
        assert!(refs == old || is_kept && (renames[0] + 1..=renames[1]).contains(&at), "{at}");
        kept += usize::from(is_kept);
    }
    assert!(kept > 3, "{kept}");
}
