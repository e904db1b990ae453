//! Two repacks of one repository, each of which finds the other's pack redundant.

use std::collections::HashSet;
use std::path::Path;
use std::time::SystemTime;

use packrace_maintenance::repacking::{Finishing, MultiPackIndexMode, finish};
use packrace_object::ObjectId;
use packrace_pack::maintain::repack::{Repacked, Scope, Unreachable};
use packrace_pack::{NoProgress, RequestObjects};
use packrace_store::publish::WritePolicy;
use packrace_store::{RootKinds, roots};
use packrace_testkit::{RepoBuilder, Size};

use crate::open;

fn packs(path: &Path) -> Vec<String> {
    let files = std::fs::read_dir(path.join("objects/pack")).unwrap().map(|file| file.unwrap().path());
    let packs = files.filter(|file| file.extension().is_some_and(|extension| extension == "pack"));
    let mut names: Vec<String> =
        packs.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// A repack that would write `stays`, which is there already.
fn repacked(stays: &str, goes: &str) -> Repacked {
    Repacked {
        scope: Scope::All(Unreachable::Drop),
        new: Vec::new(),
        redundant: vec![goes.to_owned()],
        staying: vec![stays.to_owned()],
        loosened: Vec::new(),
        is_closed: true,
        left: Vec::new(),
        rolled_up_objects: 0,
    }
}

/// Nothing is removed if objects that were made loose are only in packs that would go.
#[test]
fn what_was_loosened_must_be_there() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    repo.git(&["repack", "-adq"]);
    let head = repo.git(&["rev-parse", "HEAD"]);
    let names = packs(repo.path());
    let repository = open(repo.path());
    let request_objects = RequestObjects::new(repository.snapshot().unwrap());
    let loosened = vec![ObjectId::from_hex(head.trim_end().as_bytes()).unwrap()];
    let repacked = Repacked { staying: Vec::new(), loosened, ..repacked("", &names[0]) };
    finish(&repository, &request_objects, &repacked, &finishing(), &NoProgress).unwrap();
    assert_eq!(packs(repo.path()), names);
}

/// Who stores an object that is there already names it a moment later: its pack stays.
#[test]
fn what_is_needed_again_stays() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let gone = repo.git(&["commit-tree", "-m", "gone", "HEAD^{tree}"]).trim_end().to_owned();
    repo.git(&["branch", "gone", &gone]);
    repo.git(&["repack", "-adq"]);
    let whole = packs(repo.path()).remove(0);
    repo.git(&["branch", "-q", "-D", "gone"]);
    let prefix = repo.path().join("objects/pack/pack");
    repo.git(&["pack-objects", "-q", "--all", prefix.to_str().unwrap()]);
    let all = packs(repo.path());
    let reachable = all.iter().find(|name| **name != whole).unwrap();
    let repack = |meanwhile: &dyn Fn()| {
        let repository = open(repo.path());
        let request_objects = RequestObjects::new(repository.snapshot().unwrap());
        request_objects.snapshot().packs();
        let found = roots(&repository, RootKinds::ALL).unwrap();
        let old: HashSet<ObjectId> = found.refs.iter().copied().chain(found.soft()).collect();
        meanwhile();
        let finishing = Finishing { dropped_beyond: Some(old), ..finishing() };
        finish(&repository, &request_objects, &repacked(reachable, &whole), &finishing, &NoProgress).unwrap();
        packs(repo.path())
    };
    let pack = repo.path().join(format!("objects/pack/{whole}.pack"));
    let touch = || std::fs::File::open(&pack).unwrap().set_modified(SystemTime::now()).unwrap();
    assert_eq!(repack(&touch), all);
    // A commit that is loose, whose parent would go.
    let name_it = || {
        let new = repo.git(&["commit-tree", "-m", "new", "-p", &gone, "HEAD^{tree}"]);
        repo.git(&["branch", "new", new.trim_end()]);
    };
    assert_eq!(repack(&name_it), all);
    repo.git(&["branch", "-q", "-D", "new"]);
    assert_eq!(repack(&|| drop(repo.git(&["branch", "other", "HEAD"]))), std::slice::from_ref(reachable));
}

fn finishing() -> Finishing {
    Finishing {
        policy: WritePolicy::default(),
        multi_pack_index: MultiPackIndexMode::No,
        bitmap: None,
        without_cruft: false,
        delete: true,
        dropped_beyond: None,
        server_info: false,
    }
}

#[test]
fn one_of_two_packs_stays() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    repo.git(&["repack", "-adq"]);
    let objects = repo.git(&["rev-list", "--all", "--objects"]);
    // All objects in another pack.
    let prefix = repo.path().join("objects/pack/pack");
    let compressed = ["-c", "pack.compression=0", "pack-objects", "-q", "--no-reuse-object", "--all"];
    repo.git(&[&compressed[..], &[prefix.to_str().unwrap()]].concat());
    let both = packs(repo.path());
    let [one, other] = &both[..] else { panic!("{both:?}") };
    let repository = open(repo.path());
    let snapshots = [repository.snapshot().unwrap(), repository.snapshot().unwrap()];
    for (snapshot, repacked) in snapshots.into_iter().zip([repacked(one, other), repacked(other, one)]) {
        snapshot.packs();
        let request_objects = RequestObjects::new(snapshot);
        finish(&repository, &request_objects, &repacked, &finishing(), &NoProgress).unwrap();
    }
    assert_eq!(packs(repo.path()), std::slice::from_ref(one));
    assert_eq!(repo.git(&["rev-list", "--all", "--objects"]), objects);
}
