//! Two repacks of one repository, each of which finds the other's pack redundant.

use std::path::Path;

use packrace_maintenance::repacking::{Finishing, MultiPackIndexMode, finish};
use packrace_object::ObjectId;
use packrace_pack::maintain::repack::{Repacked, Scope, Unreachable};
use packrace_pack::{NoProgress, RequestObjects};
use packrace_store::publish::WritePolicy;
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

fn finishing() -> Finishing {
    Finishing {
        policy: WritePolicy::default(),
        multi_pack_index: MultiPackIndexMode::No,
        bitmap: None,
        without_cruft: false,
        delete: true,
        drops_unreachable: false,
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
