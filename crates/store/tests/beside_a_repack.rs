//! Snapshots held while stock git repacks, collects garbage and removes what they were made from.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use packrace_object::{HashKind, Kind, ObjectId, object_id};
use packrace_os::count::{Op, Role};
use packrace_store::{ObjectReader, OpenOptions, Repository, Snapshot};
use packrace_testkit::{Bitmap, GraphLayout, Loose, Repo, RepoBuilder, Size, Storage};

fn snapshot_of(path: &Path) -> Arc<Snapshot> {
    Repository::open(path, &OpenOptions::default()).unwrap().snapshot().unwrap()
}

fn kinds(repo: &Repo) -> BTreeMap<ObjectId, Kind> {
    let listing = repo.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"]);
    let parse = |line: &str| {
        let (id, kind) = line.split_once(' ').unwrap();
        (ObjectId::from_hex(id.as_bytes()).unwrap(), Kind::from_name(kind.as_bytes()).unwrap())
    };
    listing.lines().map(parse).collect()
}

fn check_all(reader: &mut ObjectReader, hash: HashKind, expect: &BTreeMap<ObjectId, Kind>) {
    for (id, kind) in expect {
        let object = reader.read(id).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(object.kind, *kind);
        assert_eq!(object_id(hash, object.kind, &object.data), Ok(*id));
        assert_eq!(reader.kind_and_size(id).unwrap(), Some((*kind, object.data.len() as u64)));
    }
}

fn storages() -> Vec<Storage> {
    vec![
        Storage { packs: 4, loose: Loose::Newest, commit_graph: GraphLayout::Split, ..Storage::default() },
        Storage { packs: 3, multi_pack_index: true, bitmap: Bitmap::Plain, ..Storage::default() },
        Storage { packs: 2, loose: Loose::All, ..Storage::default() },
    ]
}

#[test]
fn everything_stays_readable() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        for storage in storages() {
            let repo = RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build();
            let expect = kinds(&repo);
            let (untouched, looked_at) = (snapshot_of(repo.path()), snapshot_of(repo.path()));
            // One has listed its loose objects before, the other asks for the first time afterwards.
            expect.keys().for_each(|id| {
                looked_at.has_loose(id).unwrap();
            });
            repo.git(&["repack", "-adfq", "--window=3"]);
            repo.git(&["gc", "-q", "--prune=now"]);
            for snapshot in [&untouched, &looked_at] {
                for id in expect.keys() {
                    assert!(snapshot.contains(id).unwrap(), "{id}");
                }
                check_all(&mut snapshot.reader(1 << 20), hash, &expect);
            }
            assert_eq!(snapshot_of(repo.path()).packs().len(), 1);
            // Again, and with the first pack that came later gone too.
            repo.git(&["repack", "-adfq", "--window=1", "--depth=1"]);
            for snapshot in [&untouched, &looked_at] {
                check_all(&mut snapshot.reader(1 << 20), hash, &expect);
            }
        }
    }
}

#[test]
fn a_loose_object_that_is_packed_twice_is_found() {
    let storage = Storage { packs: 2, loose: Loose::All, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    let expect = kinds(&repo);
    let snapshot = snapshot_of(repo.path());
    let mut reader = snapshot.reader(1 << 20);
    let (first, rest): (BTreeMap<_, _>, BTreeMap<_, _>) = expect
        .into_iter()
        .enumerate()
        .map(|(n, (id, kind))| ((n % 2, id), kind))
        .partition(|((n, _), _)| *n == 0);
    let strip =
        |map: BTreeMap<(usize, ObjectId), Kind>| map.into_iter().map(|((_, id), kind)| (id, kind)).collect();
    let (first, rest): (BTreeMap<ObjectId, Kind>, BTreeMap<ObjectId, Kind>) = (strip(first), strip(rest));
    // A pack with a few objects first, whose loose files go; then one with all of them.
    let few: String = first.keys().map(|id| format!("{id}\n")).collect();
    repo.git_with_input(&["pack-objects", "-q", "objects/pack/pack"], few.as_bytes());
    repo.git(&["prune-packed", "-q"]);
    check_all(&mut reader, HashKind::Sha1, &first);
    repo.git(&["repack", "-adfq", "--window=0"]);
    check_all(&mut reader, HashKind::Sha1, &rest);
}

#[test]
fn snapshots_beside_endless_repacking() {
    let repo = RepoBuilder::new(Size::Tiny).storage(Storage { packs: 3, ..Storage::default() }).build();
    let expect = kinds(&repo);
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..12 {
                let window = format!("--window={}", round % 4);
                repo.git(&["repack", "-adfq", window.as_str(), "--write-midx"]);
                repo.git(&["multi-pack-index", "write"]);
            }
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut rounds = 0;
        while rounds < 3 || !is_done.load(std::sync::atomic::Ordering::Relaxed) {
            rounds += 1;
            let snapshot = snapshot_of(repo.path());
            for id in expect.keys() {
                // `lookup` finds it only if its pack was opened before it was removed.
                assert!(snapshot.contains(id).unwrap(), "{id} in round {rounds}");
            }
            check_all(&mut snapshot.reader(1 << 20), HashKind::Sha1, &expect);
        }
    });
}

#[test]
fn what_does_not_exist_costs_no_call_after_the_first() {
    let storage = Storage { packs: 2, loose: Loose::Newest, ..Storage::default() };
    let repo = RepoBuilder::new(Size::Tiny).storage(storage).build();
    let snapshot = snapshot_of(repo.path());
    let missing = |n: u32| ObjectId::from_hex(format!("aa{n:038x}").as_bytes()).unwrap();
    assert!(!snapshot.has_loose(&missing(0)).unwrap());
    // Other tests run beside this one and are counted too: only the order of magnitude tells.
    let (before, _) = packrace_os::count::so_far(Role::Objects, Op::Look);
    for n in 0..1_000_000 {
        assert!(!snapshot.has_loose(&missing(n)).unwrap());
    }
    let (after, _) = packrace_os::count::so_far(Role::Objects, Op::Look);
    assert!(after - before < 500_000, "{}", after - before);
}
