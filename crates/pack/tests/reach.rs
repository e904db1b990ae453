//! Compares what refs reach with stock git.

use std::collections::BTreeSet;
use std::sync::Arc;

use packrace_object::{HashKind, ObjectId};
use packrace_pack::reach::{Reached, first_unreached};
use packrace_pack::{NoProgress, RequestObjects};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::{Bitmap, Loose, Repo, RepoBuilder, Size, Storage};

fn id(hex: &str) -> ObjectId {
    ObjectId::from_hex(hex.as_bytes()).unwrap()
}

fn ids(listing: &str) -> Vec<ObjectId> {
    listing.lines().map(id).collect()
}

fn request_objects(repo: &Repo) -> Arc<RequestObjects> {
    let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
    Arc::new(RequestObjects::new(repository.snapshot().unwrap()))
}

/// Checks for every object of the repository whether `tips` reach it, and compares with stock git.
fn check(repo: &Repo, tips: &[&str]) {
    let request_objects = request_objects(repo);
    let all = ids(&repo.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]));
    let args = [&["rev-list", "--objects", "--no-object-names"], tips].concat();
    let expect: BTreeSet<ObjectId> = ids(&repo.git(&args)).into_iter().collect();
    let tips = ids(&repo.git(&[&["rev-parse"], tips].concat()));
    let reached = Reached::by(&request_objects, &tips, 2, &NoProgress).unwrap();
    for object in &all {
        assert_eq!(reached.contains(object).unwrap(), expect.contains(object), "{object} from {tips:?}");
    }
    let unreached =
        |wants: &[ObjectId]| first_unreached(&request_objects, wants, &tips, 2, &NoProgress).unwrap();
    let inside: Vec<ObjectId> = expect.iter().copied().collect();
    assert_eq!(unreached(&inside), None);
    assert_eq!(unreached(&[]), None);
    let outside: Vec<ObjectId> = all.iter().filter(|object| !expect.contains(*object)).copied().collect();
    for object in outside.iter().take(40) {
        let mixed = [inside.as_slice(), &[*object], &outside].concat();
        assert_eq!(unreached(&mixed), Some(*object));
        assert_eq!(unreached(&[*object]), Some(*object));
    }
    let absent = id(&"e".repeat(repo.hash().len_in_hex()));
    assert_eq!(unreached(&[inside[0], absent]), Some(absent));
    assert!(!reached.contains(&absent).unwrap());
}

#[test]
fn every_object_from_some_tips() {
    for (hash, storage) in [
        (HashKind::Sha1, Storage::default()),
        (HashKind::Sha1, Storage { bitmap: Bitmap::Plain, ..Storage::default() }),
        (HashKind::Sha256, Storage { loose: Loose::All, ..Storage::default() }),
    ] {
        let repo = RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build();
        check(&repo, &["main~5"]);
        check(&repo, &["old"]);
        check(&repo, &["main~3^{tree}"]);
        check(&repo, &["main~8", "of-a-tree"]);
    }
}

#[test]
fn tips_that_do_not_exist_reach_nothing() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let request_objects = request_objects(&repo);
    let absent = id(&"e".repeat(40));
    let main = ids(&repo.git(&["rev-parse", "main", "main^{tree}"]));
    assert_eq!(
        first_unreached(&request_objects, &main[..1], &[absent], 1, &NoProgress).unwrap(),
        Some(main[0])
    );
    assert_eq!(
        first_unreached(&request_objects, &main[1..], &[absent], 1, &NoProgress).unwrap(),
        Some(main[1])
    );
    assert_eq!(
        first_unreached(&request_objects, &[absent], &[absent], 1, &NoProgress).unwrap(),
        Some(absent)
    );
    assert_eq!(first_unreached(&request_objects, &main, &[absent, main[0]], 1, &NoProgress).unwrap(), None);
}
